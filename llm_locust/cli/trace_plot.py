"""Arrivals over time, drawn: as bars in the terminal, or as a picture in a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from llm_locust.analysis.words import number
from llm_locust.arrivals.traces import Replay
from llm_locust.records import NS_PER_S, UsageError
from llm_locust.report.inert import LONGEST_NAME, one_line

MOST_BARS = 100
HEIGHT = 8
"""Rows of the terminal plot."""

LABEL = 8
"""Characters that the largest rate may take beside them."""

SUFFIXES = (".png", ".svg")

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_ASCII = " ......##"
"""What a terminal without block characters shows for the same eighths."""

_FEWEST_BINS, _PICTURE_BINS = 60, 1800
"""Steps of the picture's curve: one a second, but no more than about one a pixel."""

_COARSE = 30
"""Steps of it that a step of the second curve is the mean of."""


def bar_lines(played: Replay, width: int, *, ascii_only: bool = False) -> list[str]:
    """A bar per slice of time, its height the mean rate there, with axes, in lines of at most ``width`` characters."""
    bars = max(1, min(MOST_BARS, width - LABEL - 2))
    rates = _rates(played, bars)
    top = float(rates.max())
    label = len(number(top))
    levels = np.ceil(rates / top * HEIGHT * 8).astype(int)  # upwards: what is not empty shows
    glyphs, axis = (_ASCII, "|") if ascii_only else (_EIGHTHS, "│")
    lines = []
    for row in reversed(range(HEIGHT)):
        cells = "".join(glyphs[level] for level in np.clip(levels - row * 8, 0, 8))
        mark = number(top) if row == HEIGHT - 1 else "0" if row == 0 else ""
        lines.append(f"{mark:>{label}} {axis}{cells}".rstrip())
    start, end = (f"{number(time / NS_PER_S, 7)} s" for time in (played.start_ns, played.end_ns))
    lines.append(" " * (label + 2) + start + f"{end:>{max(1, bars - len(start))}}")
    lines.append(" " * (label + 2) + f"arrivals per second, mean over {number(played.seconds / bars)} s a bar")
    return lines


def check_picture(path: Path) -> None:
    """Fail before the work rather than after it.

    Raises:
        UsageError: the file name has another ending, its folder is not there, or matplotlib is not installed.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--plot {path}: the name ends with {' or '.join(SUFFIXES)}; give it that ending")
    if not path.parent.is_dir():
        raise UsageError(f"--plot {path}: there is no folder {path.parent}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("--plot needs matplotlib: pip install matplotlib") from None


def draw(played: Replay, path: Path) -> None:
    """Write the picture: the rate in fine steps, its mean over coarse ones, and the mean of all.

    Raises:
        UsageError: the file cannot be written.
    """
    # Not through pyplot, which looks for a display and keeps every figure.
    import matplotlib
    from matplotlib.figure import Figure

    fine = _rates(played, min(_PICTURE_BINS, max(_FEWEST_BINS, round(played.seconds))))
    coarse = _rates(played, max(1, round(len(fine) / _COARSE)))
    start, end = played.start_ns / NS_PER_S, played.end_ns / NS_PER_S
    figure = Figure(figsize=(11, 4), layout="constrained")
    axes = figure.add_subplot()
    for rates, style in (
        (fine, {"fill": True, "color": "#9ecae1"}),
        (coarse, {"baseline": None, "color": "#08519c", "linewidth": 1.5}),
    ):
        label = f"mean over {number(played.seconds / len(rates))} s"
        axes.stairs(rates, np.linspace(start, end, len(rates) + 1), label=label, **style)
    mean = played.rate_rps
    axes.axhline(mean, color="#d94801", linestyle="--", linewidth=1.2, label=f"mean {number(mean)}")
    axes.set_xlim(start, end)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("time in the trace (s)")
    axes.set_ylabel("arrivals per second")
    name = one_line(Path(played.trace.path).name, LONGEST_NAME).replace("$", r"\$")
    axes.set_title(f"{name}: {len(played):,} arrivals in {number(played.seconds)} s")
    axes.legend(loc="upper right", framealpha=0.9)
    try:
        # The same trace gives the same file: no date in it, and element ids that are not drawn at random.
        with matplotlib.rc_context({"svg.hashsalt": "llm-locust"}):
            figure.savefig(path, dpi=120, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
    except OSError as error:
        raise UsageError(f"--plot {path}: cannot be written: {error.strerror}") from None


def _rates(played: Replay, bins: int) -> npt.NDArray[np.float64]:
    """Arrivals per second in equal parts of the slice: no part is cut short, or one arrival in it would be a peak."""
    length_ns = played.end_ns - played.start_ns
    place = np.minimum(played.offset_ns / length_ns * bins, bins - 1).astype(np.int64)
    return np.bincount(place, minlength=bins) / (played.seconds / bins)
