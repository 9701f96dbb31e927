"""Colours and type of the report's charts: one drawing for light, dark and paper.

matplotlib draws with stand-in colours, one for each role; the SVG then names the role (``var(--c-good)``) and the page's
style sheet says what it looks like. So a chart is drawn once and follows the reader's theme.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from markupsafe import Markup, escape

from llm_locust.report.inert import one_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROLES: tuple[str, ...] = (
    "ink", "muted", "grid", "limit", "pass", "fail",
    "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8",
    "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8",
)  # fmt: skip
"""``s*`` tell unlike series apart, ``r*`` are a ramp for what has an order: the rates of a ladder, from low to high."""

STAND_IN: dict[str, str] = {role: f"#fe01{place:02x}" for place, role in enumerate(ROLES)}
"""The colour that matplotlib is given for a role."""

DASHES: dict[str, str] = {"-": "", "--": "5 3", ":": "1.5 2.5", "-.": "6 2 1.5 2"}
"""Line styles, and what a legend draws for them."""

WIDTH = 420
"""Of a chart, in units of its own coordinates: shown at this width, a letter is 11 pixels high. A telephone has 360."""

WIDER = 1.3
"""A chart is shown at up to so many times its own width, or its letters would outgrow those around it."""

NARROW = 340
"""Of charts that stand three in a row."""

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",  # text stays text: smaller, searchable, in the reader's own font
    "text.parse_math": False,
    "axes.formatter.use_mathtext": False,
    "axes.unicode_minus": False,
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that nothing is searched for
    "font.size": 11,
    "axes.labelsize": 11,
    "xtick.labelsize": 10.5,
    "ytick.labelsize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.edgecolor": STAND_IN["muted"],
    "axes.labelcolor": STAND_IN["ink"],
    "axes.titlecolor": STAND_IN["ink"],
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "xtick.color": STAND_IN["muted"],
    "ytick.color": STAND_IN["muted"],
    "xtick.labelcolor": STAND_IN["ink"],
    "ytick.labelcolor": STAND_IN["ink"],
    "ytick.major.size": 0,
    "xtick.major.size": 3,
    "text.color": STAND_IN["ink"],
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": STAND_IN["grid"],
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "lines.markersize": 5,
    "axes.axisbelow": True,
    "axes.xmargin": 0.02,
    "path.simplify": True,
}


@contextmanager
def drawing(name: str) -> Iterator[None]:
    """The style of this report whatever the reader's own matplotlibrc says; equal data give equal bytes."""
    import matplotlib

    with warnings.catch_warnings(), matplotlib.rc_context():
        warnings.simplefilter("ignore")  # a name in letters that the measuring font lacks is still shown by the browser
        matplotlib.rcdefaults()
        cast(dict[str, Any], matplotlib.rcParams).update(_STYLE | {"svg.hashsalt": name})
        yield


def new_figure(height: int, width: int = WIDTH) -> Figure:
    """An empty figure; its units are those of the SVG."""
    from matplotlib.figure import Figure  # not through pyplot, which looks for a display and keeps every figure

    return Figure(figsize=(width / 72, height / 72), dpi=72)


def svg_of(figure: Figure, name: str, title: str, description: str) -> Markup:
    """The figure as inline SVG with its alternative text.

    Args:
        figure: Drawn within :func:`drawing`.
        name: Unique on the page; element ids begin with it.
        title: What it shows.
        description: What can be read from it, for those who cannot see it.
    """
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return Markup(_slim(out.getvalue(), name, one_line(title), one_line(description)))


def _slim(text: str, name: str, title: str, description: str) -> str:
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text)
    assert size is not None
    body = text[text.index("<svg") :]
    body = body[body.index(">") + 1 : body.rindex("</svg>")]
    body = re.sub(r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", "", body, flags=re.DOTALL)
    used = set(re.findall(r'(?:href="|url\()#([\w.-]+)', body))
    body = re.sub(r' id="([\w.-]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", body)
    body = re.sub(r'xlink:href="#([\w.-]+)"', rf'href="#{name}-\1"', body)
    body = re.sub(r"url\(#([\w.-]+)\)", rf"url(#{name}-\1)", body)
    body = re.sub(r' d="([^"]*)"', lambda m: f' d="{_rounded(m[1])}"', body)
    body = re.sub(r' (x|y)="(-?[\d.]+)"', lambda m: f' {m[1]}="{_short(m[2])}"', body)
    body = re.sub(r"font-size: ([\d.]+)px; font-family: [^;\"]*", r"font-size: \1px", body)
    body = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", body)
    body = re.sub(r' transform="rotate\(-?0 [^"]*\)"', "", body)
    body = re.sub(r"#fe01([0-9a-f]{2})", lambda m: f"var(--c-{ROLES[int(m[1], 16)]})", body)
    body = re.sub(r">\s+<", "><", body).strip()
    while "<g></g>" in body:
        body = body.replace("<g></g>", "")
    widest = WIDER * float(size[1])
    return (
        f'<svg viewBox="0 0 {size[1]} {size[2]}" style="max-width: {widest:.0f}px" role="img" '
        f'aria-labelledby="{name}-title {name}-desc">'
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(description)}</desc>{body}</svg>'
    )


def _rounded(path: str) -> str:
    return re.sub(r"-?\d+\.\d+", lambda m: _short(m[0]), " ".join(path.split()))


def _short(number: str) -> str:
    text = f"{float(number):.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
