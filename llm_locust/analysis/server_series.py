"""Sampled gauges over a window: several targets set side by side at equal times, peaks, means weighted by time, trends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from llm_locust.analysis.trend import SPANS, trend
from llm_locust.records import NS_PER_S
from llm_locust.records.server_sample import ServerSample
from llm_locust.records.summary import InFlightTrend

Floats = npt.NDArray[np.float64]

HOLE_INTERVALS = 3.0
"""Longer than so many scrape intervals without a page, and a mean says nothing of the window."""


class Series(NamedTuple):
    """Readings at moments: two arrays of one length, times rising, in seconds from the start of the window."""

    at: Floats
    values: Floats

    def within(self, seconds: float) -> Series:
        """The readings of the half-open window."""
        inside = (self.at >= 0) & (self.at < seconds)
        return Series(self.at[inside], self.values[inside])


def gauge_series(samples: Sequence[ServerSample], name: str, start_ns: int) -> Series:
    """One gauge of one target, where it was told."""
    told = [(sample.at_ns, value) for sample in samples if (value := getattr(sample, name)) is not None]
    at = np.array([(at_ns - start_ns) / NS_PER_S for at_ns, _ in told], dtype=np.float64)
    return Series(at, np.array([value for _, value in told], dtype=np.float64))


def scrape_interval(series: Sequence[Series]) -> float | None:
    """The usual time between readings in seconds; ``None`` when no target was read twice."""
    gaps = np.concatenate([np.empty(0), *(np.diff(one.at) for one in series)])
    return float(np.median(gaps)) if len(gaps) else None


def added(series: Sequence[Series], interval_s: float) -> Series:
    """The sum of several targets at equal times.

    The moments are those of the target that was read most often; of the others the nearest reading counts, if it is within
    one scrape interval. Where one has none, there is no sum.
    """
    base = max(series, key=lambda one: len(one.at))
    total, known = base.values.copy(), np.ones(len(base.at), dtype=np.bool_)
    for one in series:
        if one is base:
            continue
        if len(one.at) == 0:
            return Series(np.empty(0), np.empty(0))
        after = np.clip(np.searchsorted(one.at, base.at), 0, len(one.at) - 1)
        before = np.clip(after - 1, 0, None)
        nearest = np.where(np.abs(one.at[before] - base.at) <= np.abs(one.at[after] - base.at), before, after)
        known &= np.abs(one.at[nearest] - base.at) <= interval_s
        total = total + one.values[nearest]
    return Series(base.at[known], total[known])


def span_means_of(series: Series, seconds: float, spans: int) -> Floats:
    """The mean of a sampled gauge in each of equal spans of the window, weighted by time.

    Between readings it runs straight, before the first and after the last it stays. A server under load answers late, so
    readings are rarest just when there is most to see: a plain mean of them would flatter.
    """
    edges = np.linspace(0.0, seconds, spans + 1)
    grid = np.union1d(series.at, edges)
    level = np.interp(grid, series.at, series.values)
    area = np.concatenate(([0.0], np.cumsum(np.diff(grid) * (level[1:] + level[:-1]) / 2)))
    means: Floats = np.diff(np.interp(edges, grid, area)) / np.diff(edges)
    return means


def series_trend(series: Series, seconds: float, arrivals: int, spans: int = SPANS) -> InFlightTrend | None:
    """The trend over spans of the window, by the test that judges the number in flight.

    Returns:
        ``None`` when some span holds no reading.
    """
    inside = series.within(seconds)
    if len(inside.at) == 0 or (np.histogram(inside.at, np.linspace(0.0, seconds, spans + 1))[0] == 0).any():
        return None
    return trend(np.round(span_means_of(series, seconds, spans), 9), arrivals)


def longest_hole(series: Series, seconds: float) -> float:
    """The longest time in the window without a reading, in seconds."""
    inside = series.within(seconds).at
    return float(np.diff(np.concatenate(([0.0], inside, [seconds]))).max())
