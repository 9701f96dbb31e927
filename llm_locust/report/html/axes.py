"""Axes of the report's charts: ranges and ticks with plain numbers, margins that hold labels, limits drawn alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from llm_locust.analysis.words import number
from llm_locust.report.html.theme import STAND_IN

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE_RANGE = 8.0
"""Largest over smallest value from which an axis is logarithmic."""


def margins(figure: Figure, *, top: float = 26, bottom: float = 40, left: float = 46, right: float = 12) -> None:
    """Fixed margins in units of the drawing: charts above one another then have their axes in line."""
    width, height = (72 * inches for inches in figure.get_size_inches())
    figure.subplots_adjust(
        left=left / width, right=1 - right / width, top=1 - top / height, bottom=bottom / height, hspace=0.42
    )


def units(axes: Axes, *, y: str, x: str = "") -> None:
    """The unit of the y axis stands above it, where it is read without turning one's head."""
    axes.set_title(y, pad=8, color=STAND_IN["muted"], x=0.0)
    if x:
        axes.set_xlabel(x, color=STAND_IN["muted"])


def from_zero(axes: Axes, values: Iterable[float | None], *, room: float = 1.08, least: float = 0.0) -> None:
    """A linear y axis from 0 to a little above the largest value."""
    largest = max([least, *(value for value in values if value is not None and math.isfinite(value))])
    axes.set_ylim(0, largest * room if largest > 0 else 1)
    axes.yaxis.set_major_formatter(lambda value, _: number(value))


def linear_ticks(axes: Axes, which: str = "x") -> None:
    """Plain numbers at round places."""
    from matplotlib.ticker import MaxNLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(MaxNLocator(nbins=6 if which == "x" else 5, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(lambda value, _: number(value))


def span_axis(axes: Axes, values: Sequence[float], which: str) -> None:
    """Logarithmic where the values span a wide range, else linear (a y axis from 0)."""
    known = [value for value in values if math.isfinite(value)]
    positive = [value for value in known if value > 0]
    if positive and max(positive) / min(positive) > WIDE_RANGE:
        log_axis(axes, min(positive), max(positive), which)
    elif which == "y":
        from_zero(axes, known)
        linear_ticks(axes, "y")
    else:
        low, high = (min(known), max(known)) if known else (0.0, 1.0)
        room = 0.04 * (high - low) or 0.1 * abs(high) or 1.0
        axes.set_xlim(max(0.0, low - room) if low >= 0 else low - room, high + room)
        linear_ticks(axes)


def log_axis(axes: Axes, low: float, high: float, which: str) -> None:
    """A logarithmic axis whose ticks are 1, 2 and 5 of a decade, or decades alone where those would crowd it."""
    from matplotlib.ticker import FixedLocator, NullLocator

    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    low, high = low / 1.15, high * 1.15
    (axes.set_xlim if which == "x" else axes.set_ylim)(low, high)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        ticks = [step * 10.0**decade for decade in decades for step in steps if low <= step * 10.0**decade <= high]
        if len(ticks) <= 8:
            break
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: number(value))


def limit_line(axes: Axes, value: float, which: str = "y") -> None:
    """A chosen limit; where it lies far outside of what is drawn the axis stays as it is, and the legend says the number."""
    draw = axes.axhline if which == "y" else axes.axvline
    draw(value, color=STAND_IN["limit"], linestyle="--", linewidth=1.4, zorder=1.5)
