"""95 % confidence intervals of the difference between two runs, each from its own requests.

All of them take the two runs, and the requests (or parts of a window) inside each, to be independent. Requests that share a
queue are not quite that, so the true intervals are wider.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import stats

from llm_locust.analysis.derived import Floats
from llm_locust.analysis.quantiles import CONFIDENCE, bound_ranks, nearest_rank, wilson
from llm_locust.records.figures import Interval

RESAMPLES = 20_000
SEED = 0
"""Of the bootstrap: the same runs always give the same interval."""

TAILS = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)

_Z = float(stats.norm.ppf(TAILS[1]))


def difference_of_shares(count: int, n: int, other_count: int, other_n: int) -> Interval | None:
    """Of ``count / n - other_count / other_n``; ``None`` when either n is 0.

    The hybrid score interval (method 10 of R. G. Newcombe, "Interval estimation for the difference between independent
    proportions", 1998): the Wilson limits of both shares, their distances squared and added.
    """
    own, other = wilson(count, n), wilson(other_count, other_n)
    if own is None or other is None:
        return None
    share, other_share = count / n, other_count / other_n
    difference = share - other_share
    return Interval(
        low=difference - math.hypot(share - own.low, other.high - other_share),
        high=difference + math.hypot(own.high - share, other_share - other.low),
    )


def difference_of_percentiles(values: Floats, other: Floats, percent: int) -> Interval | None:
    """Of the nearest-rank percentile of ``values`` less that of ``other``: the bootstrap over requests.

    ``None`` when either has too few values for a percentile with a bound on both sides (59 for P95, 299 for P99): what a
    resample never shows cannot widen the interval.

    The nearest-rank percentile of a resample of n values is the one in the place ceil(n U), where U, the k-th smallest of n
    uniform numbers, is Beta(k, n - k + 1): so it is drawn, exactly, without making the resample.
    """
    if not (bounded(percent, len(values)) and bounded(percent, len(other))):
        return None
    random = np.random.default_rng(SEED)
    drawn = _resampled(values, percent, random) - _resampled(other, percent, random)
    low, high = np.quantile(drawn, TAILS)
    return Interval(low=float(low), high=float(high))


def bounded(percent: int, n: int) -> bool:
    """Whether a percentile of n values has a 95 % bound on both sides by order statistics."""
    return n > 0 and None not in bound_ranks(percent, n)


def _resampled(values: Floats, percent: int, random: np.random.Generator) -> Floats:
    n = len(values)
    k = nearest_rank(percent, n)
    places = np.ceil(n * random.beta(k, n - k + 1, RESAMPLES)).astype(np.int64)
    found: Floats = np.sort(values)[np.clip(places, 1, n) - 1]
    return found


def difference_of_means(parts: npt.ArrayLike, other: npt.ArrayLike) -> Interval | None:
    """Of the mean of ``parts`` less that of ``other``; ``None`` when either has fewer than two.

    For rates: batch means. Each part of a window is one observation, and Welch's t tells the two runs apart (B. L. Welch,
    "The generalization of Student's problem when several different population variances are involved", 1947).
    """
    a, b = np.asarray(parts, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if len(a) < 2 or len(b) < 2:
        return None
    difference = float(a.mean() - b.mean())
    errors = np.array([a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)])
    total = float(errors.sum())
    if total == 0:
        return Interval(low=difference, high=difference)
    freedom = total**2 / float((errors**2 / (np.array([len(a), len(b)]) - 1)).sum())
    reach = float(stats.t.ppf(TAILS[1], freedom)) * math.sqrt(total)
    return Interval(low=difference - reach, high=difference + reach)


def difference_of_ratios(tops: Floats, bottoms: Floats, other_tops: Floats, other_bottoms: Floats) -> Interval | None:
    """Of ``sum(tops) / sum(bottoms)`` less the same of the other; a top and a bottom for each request.

    ``None`` when either has fewer than two requests, or nothing at the bottom. The ratio estimator, linearised: each request
    is off by its top less ratio x bottom.
    """
    if min(len(tops), len(other_tops)) < 2 or not (bottoms.sum() and other_bottoms.sum()):
        return None
    difference = tops.sum() / bottoms.sum() - other_tops.sum() / other_bottoms.sum()
    reach = _Z * math.sqrt(_ratio_variance(tops, bottoms) + _ratio_variance(other_tops, other_bottoms))
    return Interval(low=float(difference - reach), high=float(difference + reach))


def _ratio_variance(tops: Floats, bottoms: Floats) -> float:
    off = tops - tops.sum() / bottoms.sum() * bottoms
    n = len(tops)
    return float(n / (n - 1) * (off**2).sum() / bottoms.sum() ** 2)
