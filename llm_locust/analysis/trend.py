"""Does the number in flight stay flat over the window, or does it rise as it must when more is offered than served?

The window is cut into equal spans; the series is the time-weighted mean in flight of each. Two things are asked of it: is
there an order in it (Mann-Kendall, the rank test for a monotone trend), and is the rise (Theil-Sen slope, the median of all
pairwise slopes) worth anything. Neither alone will do: the number in flight remembers itself for as long as a request
lasts, so healthy noise often comes ordered, and a long window makes any drift "significant". The yardstick for the rise is
the noise of a healthy queue: an infinite-server queue at mean N holds N give or take sqrt(N).
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from llm_locust.records.summary import InFlightTrend

TrendState = Literal["flat", "rising", "falling", "undetermined"]

SPANS = 10
"""Spans of the window: enough for the rank test, few enough that each is longer than most requests."""

SIGNIFICANCE = 0.01
"""One-sided. The ten means are not independent, so the nominal level is set well below the usual 0.05."""

NOISE_MULTIPLE = 3.0
"""A rise counts from this many sqrt(N): about two standard deviations of the difference of two unrelated readings."""

RELATIVE_RISE = 0.2
"""... and from this share of the typical level: less is a drift that nobody would call a queue building up."""

LEVELLED = 1 / 3
"""The late half must rise at this share of the whole slope at least, or the series rose early and then levelled."""

VISIBLE_OVERLOAD = 1 / 3
"""Flat is only said when a server that left this share of the offered load undone would have been noticed."""


def span_means(
    starts: npt.NDArray[np.float64], ends: npt.NDArray[np.float64], window: tuple[float, float], spans: int = SPANS
) -> npt.NDArray[np.float64]:
    """The exact time-weighted mean number in flight in each of ``spans`` equal spans of ``window``.

    Args:
        starts: When each request came in flight, in seconds from any common origin.
        ends: When each left, same length; ``inf`` for one that never did.
        window: Start and end of the window in the same seconds.
        spans: How many spans.
    """
    edges = np.linspace(window[0], window[1], spans + 1)
    area = _area_until(np.sort(starts), edges) - _area_until(np.sort(ends[np.isfinite(ends)]), edges)
    # The areas are differences of large sums: what is left of nothing in the last bits is nothing.
    means: npt.NDArray[np.float64] = np.round(np.diff(area) / np.diff(edges), 9) + 0.0  # -0 becomes 0
    return means


def _area_until(events: npt.NDArray[np.float64], at: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The integral up to each ``at`` of the number of sorted ``events`` passed: sum of (at - event) over those before."""
    passed = np.searchsorted(events, at)
    sums = np.concatenate(([0.0], np.cumsum(events)))
    area: npt.NDArray[np.float64] = passed * at - sums[passed]
    return area


def trend(means: npt.NDArray[np.float64], arrivals: int) -> InFlightTrend:
    """Judge the series of span means of one window in which ``arrivals`` requests were offered."""
    series = [round(float(value), 3) for value in means]
    if arrivals == 0 or len(means) < 5:
        return InFlightTrend(state="undetermined", detail="no arrivals to see a trend in", span_means=series)
    steps = np.arange(len(means))
    level = float(np.median(means))
    noise = max(NOISE_MULTIPLE * math.sqrt(max(level, 1.0)), RELATIVE_RISE * level)
    slope = float(stats.theilslopes(means, steps).slope)
    rise = slope * (len(means) - 1)
    tau = stats.kendalltau(steps, means, alternative="greater" if rise >= 0 else "less")
    p_value = 1.0 if math.isnan(tau.pvalue) else float(tau.pvalue)
    visible = noise / arrivals

    def said(state: TrendState, detail: str) -> InFlightTrend:
        return InFlightTrend(
            state=state,
            detail=detail,
            rise=rise,
            noise=noise,
            p_value=p_value,
            smallest_visible_overload=visible,
            span_means=series,
        )

    moved = f"from {means[0]:.3g} to {means[-1]:.3g} over the window"
    if abs(rise) >= noise and p_value <= SIGNIFICANCE:
        late = means[len(means) // 2 :]
        late_slope = float(stats.theilslopes(late, np.arange(len(late))).slope)
        if late_slope / slope < LEVELLED:
            way = "rose" if rise > 0 else "fell"
            return said("undetermined", f"{way} {moved}, then levelled (was the warm-up too short?)")
        return said("rising", f"rose {moved}") if rise > 0 else said("falling", f"fell {moved}")
    if rise >= noise:
        return said("undetermined", f"rose {moved}, but too unevenly to tell a trend from noise")
    if visible > VISIBLE_OVERLOAD:
        return said(
            "undetermined",
            f"{arrivals} arrivals are too few: even a server that left {VISIBLE_OVERLOAD:.0%} of them undone "
            "could look like this",
        )
    return said("flat", f"{moved}, which is within the noise")
