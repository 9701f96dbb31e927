"""The measurement window of a stage: which requests belong to it, what was in flight in it and what came out of it.

Times are float seconds from the start of the window, NaN where null; all on the master's clock.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from llm_locust.analysis.derived import Bools, Floats, floats, mask
from llm_locust.records import NS_PER_S, Outcome, StageManifest, UsageError


class Window(NamedTuple):
    """The window as it was measured: half open, Unix nanoseconds on the master's clock."""

    start_ns: int
    end_ns: int
    method: str
    """``window``; ``window_cut_short`` when the stage ended before its time; ``window_until_stopped`` for a closed loop
    without a set length."""

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.end_ns - self.start_ns) / NS_PER_S


def measured_window(stage: StageManifest, rows: pd.DataFrame) -> Window | None:
    """The window of a stage; ``None`` when the stage ended before its window began.

    A stage that was cut short is measured as far as it went: its window ends no later than its arrivals did.
    """
    start, end = stage.window_start_ns, stage.window_end_ns
    if stage.interrupted is not None:
        known = [t for t in (end, stage.arrivals_end_ns) if t is not None]
        end = min(known) if known else _last_seen_ns(rows)
    elif end is None:
        end = stage.arrivals_end_ns or stage.end_ns or _last_seen_ns(rows)
    if end is None or end <= start:
        return None
    if stage.interrupted is not None:
        method = "window_cut_short"
    else:
        method = "window" if stage.spec.window_s is not None else "window_until_stopped"
    return Window(start, end, method)


def _last_seen_ns(rows: pd.DataFrame) -> int | None:
    latest = rows["end_ns"].max()
    return None if pd.isna(latest) else int(latest)


def batch(rows: pd.DataFrame, stage: StageManifest, window: Window | None) -> Bools:
    """Which rows the figures are made of: open arrivals planned inside the window, closed ones sent inside it.

    An arrival that has no such time (issued but never sent, or a follow-up turn, which has no plan) belongs to the window
    if it was sent inside it, or if it was never sent and its phase says so: failures stay in the denominator.
    """
    if window is None:
        return np.zeros(len(rows), np.bool_)
    time = rows["sent_ns"] if stage.spec.mode == "closed" else rows["planned_ns"].fillna(rows["sent_ns"])
    inside = (time >= window.start_ns) & (time < window.end_ns)
    return np.where(mask(time.isna()), mask(rows["phase"] == "measure"), mask(inside))


def seconds_after(times_ns: pd.Series[int], origin_ns: int) -> Floats:
    """Unix nanoseconds as float seconds after an origin; the difference is taken in integers, where it is exact."""
    return floats(times_ns - origin_ns) / NS_PER_S


def in_flight_at(starts: Floats, ends: Floats, at: float) -> int:
    """How many had started and not ended at an instant; one that ends just then is gone, one that starts just then is in."""
    return int(((starts <= at) & ~(ends <= at)).sum())


def peak_in_flight(starts: Floats, ends: Floats, window: tuple[float, float]) -> int:
    """The largest number in flight at once inside the window; a place freed at an instant may be taken at that instant."""
    inside = np.sort(starts[(starts > window[0]) & (starts < window[1])])
    began = in_flight_at(starts, ends, window[0])
    if len(inside) == 0:
        return began
    left = np.sort(ends[(ends > window[0]) & (ends < window[1])])
    level = began + np.arange(1, len(inside) + 1) - np.searchsorted(left, inside, side="right")
    return max(began, int(level.max()))


def completed_in_window(rows: pd.DataFrame, window: Window) -> int:
    """Ok requests that were complete inside the window, whenever they were planned."""
    done = (rows["complete_ns"] >= window.start_ns) & (rows["complete_ns"] < window.end_ns)
    return int((mask(rows["outcome"] == Outcome.OK) & mask(done)).sum())


def output_tokens_in_window(rows: pd.DataFrame, window: Window) -> float | None:
    """How many output tokens came out inside the window, of any request of the stage, failed ones included.

    A request that put out its tokens wholly inside or outside counts wholly or not at all. One that straddles an edge has
    its tokens shared out equally over its output events where the gaps between them were kept; otherwise one token at the
    first output and the rest evenly up to the last. A request without a token count lends its number of output events;
    ``None`` when some request put out an unknown number.
    """
    tokens = floats(rows["output_tokens"].fillna(rows["output_events"]))
    first = seconds_after(rows["first_output_ns"], window.start_ns)
    last = seconds_after(rows["last_output_ns"], window.start_ns)
    out = ~np.isnan(first)
    last = np.where(np.isnan(last), first, last)
    end = window.seconds
    if np.isnan(tokens[out & (first < end) & (last >= 0)]).any():
        return None
    within = out & (first >= 0) & (last < end)
    straddles = out & ~within & (first < end) & (last >= 0)
    total = float(tokens[within].sum())
    gaps = rows["gaps_us"]
    for k in np.flatnonzero(straddles):
        total += _straddling_tokens(tokens[k], first[k], last[k], gaps.iloc[k], end)
    return float(total)


def _straddling_tokens(tokens: float, first: float, last: float, gaps_us: object, end: float) -> float:
    """The tokens of one request that came out in [0, end)."""
    if isinstance(gaps_us, str) and gaps_us:
        at = first + np.concatenate(([0.0], np.cumsum(parse_gaps_us([gaps_us])) / 1e6))
        return tokens * float(((at >= 0) & (at < end)).mean())
    at_first = 1.0 if 0 <= first < end else 0.0
    if last <= first:
        return tokens * at_first
    overlap = min(last, end) - max(first, 0.0)
    return min(tokens, at_first) + max(tokens - 1, 0.0) * overlap / (last - first)


def parse_gaps_us(cells: list[str]) -> npt.NDArray[np.int64]:
    """All gaps of the ``gaps_us`` cells, in microseconds, one after the other.

    Raises:
        UsageError: a cell is not integers separated by single spaces.
    """
    text = " ".join(cells)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy only warns when it stops at something that is no number
            # Six times as fast as splitting the text and converting the words.
            return np.fromstring(text, dtype=np.int64, sep=" ")
    except (ValueError, DeprecationWarning):
        raise UsageError("a gaps_us cell of the records is not integers separated by spaces") from None
