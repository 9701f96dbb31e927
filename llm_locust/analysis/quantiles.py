"""Percentiles and shares with their confidence: nearest rank, order statistics, Wilson.

The intervals assume that requests are independent. Under load they are not quite: neighbours share a queue, so the true
intervals are wider; every report says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import stats

from llm_locust.records.summary import Figure, Interval, Percentile, figure

CONFIDENCE = 0.95


def nearest_rank(percent: int, n: int) -> int:
    """The 1-based rank ``ceil(percent / 100 * n)`` in integers: 0.07 * 100 is not 7 in floating point."""
    return max(1, -(-percent * n // 100))


def percentile(values: npt.ArrayLike, percent: int, *, infinite: int = 0, bounds: bool = True) -> Percentile:
    """The nearest-rank percentile of ``values`` and of ``infinite`` more that count as infinitely large.

    Args:
        values: Finite values in any order; NaN is not allowed.
        percent: 1 to 100.
        infinite: How many further values are infinite (failures, in an ``*_all`` percentile).
        bounds: Give the one-sided 95 % bounds; pass False for values that are nowhere near independent (token gaps).
    """
    return percentiles(values, (percent,), infinite=infinite, bounds=bounds)[percent]


def percentiles(
    values: npt.ArrayLike, percents: Iterable[int], *, infinite: int = 0, bounds: bool = True, missing: int = 0
) -> dict[int, Percentile]:
    """Several :func:`percentile` of the same values; ``missing`` more should have been there and were not measured."""
    known = np.sort(np.asarray(values, dtype=np.float64))
    n = len(known) + infinite

    def at(rank: int | None) -> Figure:
        if rank is None:
            return None
        return figure(float(known[rank - 1])) if rank <= len(known) else "inf"

    found = {}
    for percent in percents:
        if n == 0:
            found[percent] = Percentile(value=None, n=0, missing=missing)
            continue
        rank = nearest_rank(percent, n)
        low, high = bound_ranks(percent, n) if bounds else (None, None)
        found[percent] = Percentile(
            value=at(rank),
            n=n,
            at_maximum=rank == n and percent < 100,
            low=at(low),
            high=at(high),
            missing=missing,
        )
    return found


@lru_cache(maxsize=4096)
def bound_ranks(percent: int, n: int) -> tuple[int | None, int | None]:
    """The ranks that bound the true percentile from below and from above, each with 95 % confidence.

    The number of values under the true quantile is binomial(n, p): the upper rank u is the smallest with
    P(at most u - 1 under it) >= 0.95, the lower rank l the largest with P(at least l under it) >= 0.95. P95 has an upper
    bound from 59 values, P99 from 299. ``None``: so few values give no bound.
    """
    p = percent / 100
    upper = int(stats.binom.ppf(CONFIDENCE, n, p)) + 1
    lower = int(stats.binom.ppf(1 - CONFIDENCE, n, p))
    return (lower if lower >= 1 else None), (upper if upper <= n else None)


def wilson(count: int, n: int) -> Interval | None:
    """The two-sided 95 % Wilson score interval of ``count`` of ``n``; ``None`` when n is 0."""
    if n == 0:
        return None
    interval = stats.binomtest(count, n).proportion_ci(CONFIDENCE, method="wilson")
    return Interval(low=float(interval.low), high=float(interval.high))


def share(count: int, n: int) -> float | None:
    """``count / n``; ``None`` when n is 0."""
    return count / n if n else None


def per_second(count: float | None, seconds: float | None) -> float | None:
    """``count / seconds``; ``None`` when either is not measured or the time is not positive."""
    if count is None or seconds is None or math.isnan(count) or seconds <= 0:
        return None
    return count / seconds
