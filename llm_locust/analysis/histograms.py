"""Counters and cumulative histograms between two moments, and percentiles of which only a bucket is known.

A percentile is the nearest-rank one, as everywhere here. Out of buckets it is known to lie above the lower bound of the
bucket that its rank falls into and not above the upper one; where the sum of the observations is known, it bounds the
percentile further, for no time is negative. That matters: vLLM's first bucket of queue times ends at 300 ms, and without the
sum a server without any queue could not be told from one with 300 ms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from llm_locust.analysis.quantiles import nearest_rank
from llm_locust.records.server_figures import BucketPercentile
from llm_locust.records.server_sample import CumulativeHistogram

Floats = npt.NDArray[np.float64]

_SUM_SLACK_S = 1e-6
"""Sums of many floating-point times are off in their last digits; a microsecond covers them."""


def counter_delta(values: Sequence[float | None], resets: Sequence[bool]) -> float | None:
    """By how much a counter rose from the first to the last of its values.

    Over a reset it is what was seen before and what came after; what was counted between the last value and the end of the
    process is lost. A value that falls is a reset, flagged or not.

    Args:
        values: In order of time; ``None`` where it was not told.
        resets: For each value but the first, whether counting started over since the one before it.

    Returns:
        ``None`` when the first or the last value was not told.
    """
    found = _risen([None if value is None else np.array([value]) for value in values], resets)
    return None if found is None else float(found[0])


def histogram_delta(
    histograms: Sequence[CumulativeHistogram | None], resets: Sequence[bool]
) -> CumulativeHistogram | None:
    """What was observed from the first to the last of a histogram's states; arguments as :func:`counter_delta`.

    Bounds that not all states have are left out: the others stay exact.

    Returns:
        ``None`` when the first or the last state was not told, or no bound is in all of them.
    """
    told = [histogram for histogram in histograms if histogram is not None]
    bounds = shared_bounds(told)
    if not bounds:
        return None
    with_sum = all(histogram.sum is not None for histogram in told)
    rows = [None if histogram is None else _row(histogram, bounds) for histogram in histograms]
    found = _risen(rows, resets)
    if found is None:
        return None
    # States are not read at one instant: the counts are made to rise with the bounds again.
    counts = np.maximum.accumulate(found[:-1])
    return CumulativeHistogram(
        le=bounds,
        n=tuple(float(n) for n in counts[:-1]),
        count=float(counts[-1]),
        sum=max(0.0, float(found[-1])) if with_sum else None,
    )


def _row(histogram: CumulativeHistogram, bounds: Sequence[float]) -> Floats:
    at = dict(zip(histogram.le, histogram.n, strict=True))
    return np.array([*(at[bound] for bound in bounds), histogram.count, histogram.sum or 0.0])


def _risen(rows: Sequence[Floats | None], resets: Sequence[bool]) -> Floats | None:
    if not rows or rows[0] is None or rows[-1] is None:
        return None
    before = rows[0]
    total = np.zeros_like(before)
    over = False
    for row, reset in zip(rows[1:], resets, strict=True):
        over |= reset
        if row is None:
            continue
        # The last cell of a histogram is its sum: that of a single counter is the counter.
        fell = bool((row < before)[:-1].any()) if len(row) > 1 else bool(row[0] < before[0])
        total += row if over or fell else row - before
        before, over = row, False
    return total


def shared_bounds(histograms: Sequence[CumulativeHistogram]) -> tuple[float, ...]:
    """The bounds that all of them have, rising."""
    if not histograms:
        return ()
    shared = set(histograms[0].le).intersection(*(histogram.le for histogram in histograms[1:]))
    return tuple(sorted(shared))


def add_histograms(histograms: Sequence[CumulativeHistogram]) -> CumulativeHistogram | None:
    """Histograms of different engines as one, over the bounds that all have; ``None`` when they share none."""
    bounds = shared_bounds(histograms)
    if not bounds:
        return None
    total = np.sum([_row(histogram, bounds) for histogram in histograms], axis=0)
    return CumulativeHistogram(
        le=bounds,
        n=tuple(float(n) for n in total[:-2]),
        count=float(total[-2]),
        sum=float(total[-1]) if all(histogram.sum is not None for histogram in histograms) else None,
    )


def bucket_percentile(histogram: CumulativeHistogram, percent: int) -> BucketPercentile | None:
    """The nearest-rank percentile of the observations of a histogram of times; ``None`` when it holds none.

    The value between the bounds is a guess that takes the observations to lie evenly in their bucket.

    Args:
        histogram: Of times in seconds.
        percent: 1 to 100.
    """
    n = round(histogram.count)
    if n <= 0:
        return None
    rank = nearest_rank(percent, n)
    edges = [-math.inf, *histogram.le, math.inf]
    upto = [0, *(round(count) for count in histogram.n), n]
    k = next(k for k in range(1, len(edges)) if upto[k] >= rank)
    low, high = max(0.0, edges[k - 1]), max(0.0, edges[k])
    if histogram.sum is not None:
        # All others are at least their buckets' lower bounds; those of this bucket from the rank on, at least the value.
        others = sum((upto[j] - upto[j - 1]) * max(0.0, edges[j - 1]) for j in range(1, len(edges)))
        from_rank = upto[k] - rank + 1
        rest = histogram.sum - (others - from_rank * low)
        high = min(high, max(low, rest / from_rank + _SUM_SLACK_S))
    part = (rank - upto[k - 1]) / (upto[k] - upto[k - 1])
    return BucketPercentile(
        value_ms=_ms(low + (high - low) * part) if edges[k] < math.inf else None,
        low_ms=_ms(low),
        high_ms="inf" if math.isinf(high) else _ms(high),
        n=n,
    )


def _ms(seconds: float) -> float:
    """Milliseconds without the floating-point dust that would put a bound of 0.07 s above a limit of 70 ms."""
    return round(seconds * 1000, 9)


def holds(percentile: BucketPercentile | None, limit_ms: float) -> bool | None:
    """Whether a percentile is at most a limit; ``None`` when it was not measured, or the limit falls inside its bucket.

    A percentile equal to the limit holds: so it does when the bucket ends at the limit, and when the bucket begins there it
    does not, being above its lower bound.
    """
    if percentile is None:
        return None
    high = math.inf if percentile.high_ms == "inf" else percentile.high_ms
    if isinstance(high, float | int) and high <= limit_ms:
        return True
    if limit_ms < percentile.low_ms or (percentile.low_ms > 0 and limit_ms == percentile.low_ms):
        return False
    return None
