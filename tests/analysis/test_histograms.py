"""Counters, histograms and percentiles of which only a bucket is known; the figures by hand."""

from __future__ import annotations

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_locust.analysis.histograms import (
    add_histograms,
    bucket_percentile,
    counter_delta,
    histogram_delta,
    holds,
)
from llm_locust.analysis.quantiles import percentile
from llm_locust.records.server_figures import BucketPercentile
from llm_locust.records.server_sample import CumulativeHistogram


def histogram(counts: dict[float, float], count: float, total: float | None = None) -> CumulativeHistogram:
    return CumulativeHistogram(le=tuple(counts), n=tuple(counts.values()), count=count, sum=total)


TEN = histogram({0.1: 2, 0.5: 6, 1.0: 9}, 10)
"""Two up to 100 ms, four up to 500, three up to a second and one above."""


def test_a_counter_rises_by_last_minus_first() -> None:
    assert counter_delta([5.0, 7.0, 12.0], [False, False]) == 7
    assert counter_delta([5.0], []) == 0


def test_over_a_reset_a_counter_rose_by_what_was_seen_before_and_what_came_after() -> None:
    # 100 to 130, then a new process that is seen at 4 and at 9.
    assert counter_delta([100.0, 130.0, 4.0, 9.0], [False, False, False]) == 30 + 4 + 5
    # A new process that had already come further than the old one shows only by its start.
    assert counter_delta([100.0, 130.0], [True]) == 130
    # The reset fell between samples that did not tell this counter.
    assert counter_delta([100.0, None, 130.0], [True, False]) == 130


def test_a_counter_that_was_not_told_at_an_end_has_no_rise() -> None:
    assert counter_delta([None, 7.0], [False]) is None
    assert counter_delta([7.0, None], [False]) is None
    assert counter_delta([], []) is None
    assert counter_delta([7.0, None, 9.0], [False, False]) == 2


def test_a_histogram_rises_bucket_by_bucket() -> None:
    before, after = histogram({0.1: 1, 0.5: 2}, 3, 4.0), histogram({0.1: 5, 0.5: 8}, 10, 14.0)
    assert histogram_delta([before, after], [False]) == histogram({0.1: 4, 0.5: 6}, 7, 10.0)
    over_a_reset = histogram_delta([before, after, before], [False, False])
    assert over_a_reset == histogram({0.1: 5, 0.5: 8}, 10, 14.0)
    assert histogram_delta([before, None], [False]) is None


def test_bounds_that_came_or_went_are_left_out_and_the_rest_stays_exact() -> None:
    before, after = histogram({0.1: 1, 0.5: 2}, 3), histogram({0.5: 8, 1.0: 9}, 10)
    assert histogram_delta([before, after], [False]) == histogram({0.5: 6}, 7)
    assert histogram_delta([before, histogram({2.0: 9}, 10)], [False]) is None


def test_histograms_add_up() -> None:
    assert add_histograms([TEN, histogram({0.5: 1}, 2)]) == histogram({0.5: 7}, 12)
    assert add_histograms([TEN]) == TEN
    assert add_histograms([]) is None


def test_a_percentile_lies_in_the_bucket_of_its_rank() -> None:
    # P50 of 10 is the 5th value: the 3rd of the four between 100 and 500 ms.
    assert bucket_percentile(TEN, 50) == BucketPercentile(value_ms=400, low_ms=100, high_ms=500, n=10)
    # P20 is the 2nd: the last of the first bucket, at its upper bound.
    assert bucket_percentile(TEN, 20) == BucketPercentile(value_ms=100, low_ms=0, high_ms=100, n=10)
    # P90 is the 9th, the last up to a second.
    assert bucket_percentile(TEN, 90) == BucketPercentile(value_ms=1000, low_ms=500, high_ms=1000, n=10)


def test_a_percentile_in_the_last_bucket_has_a_lower_bound_alone() -> None:
    assert bucket_percentile(TEN, 95) == BucketPercentile(value_ms=None, low_ms=1000, high_ms="inf", n=10)


def test_a_percentile_of_nothing_is_not_measured() -> None:
    assert bucket_percentile(histogram({0.1: 0}, 0), 95) is None


def test_empty_buckets_are_passed_over() -> None:
    assert bucket_percentile(histogram({0.1: 0, 0.5: 0, 1.0: 4}, 4), 50) == BucketPercentile(
        value_ms=750, low_ms=500, high_ms=1000, n=4
    )


def test_the_sum_bounds_a_percentile_that_its_bucket_leaves_open() -> None:
    # vLLM's first bucket of queue times ends at 300 ms. 100 requests that waited 1 s in all: the six longest of them
    # (P95 is the 95th) waited at most 1000 / 6 ms each.
    found = bucket_percentile(histogram({0.3: 100}, 100, 1.0), 95)
    assert found is not None
    assert found.low_ms == 0
    assert found.high_ms == pytest.approx(1000 / 6, abs=0.002)
    # 9 up to a second, one above, 12 s in all: that one took 12 s at most.
    found = bucket_percentile(histogram({1.0: 9}, 10, 12.0), 95)
    assert found is not None
    assert (found.value_ms, found.low_ms) == (None, 1000)
    assert found.high_ms == pytest.approx(12_000, abs=0.002)
    # Five between 1 and 2 s, five between 2 and 4, 16 s in all: the others take at least 4 x 1 + 5 x 2 s.
    found = bucket_percentile(histogram({1.0: 0, 2.0: 5, 4.0: 10}, 10, 16.0), 50)
    assert found is not None
    assert (found.low_ms, found.high_ms) == (1000, 2000)
    found = bucket_percentile(histogram({1.0: 0, 2.0: 5, 4.0: 10}, 10, 15.2), 50)
    assert found is not None
    assert found.high_ms == pytest.approx(1200, abs=0.002)


def test_a_limit_inside_the_bucket_is_undetermined() -> None:
    p50 = bucket_percentile(TEN, 50)
    assert [holds(p50, limit) for limit in (99, 100, 100.1, 499.9, 500, 501)] == [False, False, None, None, True, True]


def test_a_limit_at_the_bound_of_a_bucket_is_decided_whatever_floating_point_makes_of_the_bound() -> None:
    p = bucket_percentile(histogram({0.035: 0, 0.07: 10}, 10), 95)
    assert (holds(p, 70), holds(p, 35)) == (True, False)


def test_in_the_first_bucket_a_percentile_may_be_0() -> None:
    p = bucket_percentile(histogram({0.3: 10}, 10), 95)
    assert (holds(p, 0), holds(p, 299), holds(p, 300)) == (None, None, True)
    nothing_waited = bucket_percentile(histogram({0.0: 10, 0.1: 10}, 10), 95)
    assert nothing_waited == BucketPercentile(value_ms=0, low_ms=0, high_ms=0, n=10)
    assert holds(nothing_waited, 0) is True


def test_above_the_last_bound_a_limit_fails_or_cannot_be_told() -> None:
    p = bucket_percentile(TEN, 99)
    assert (holds(p, 1000), holds(p, 5000)) == (False, None)


def test_what_was_not_measured_neither_holds_nor_fails() -> None:
    assert holds(None, 100) is None


times = st.lists(st.floats(0, 50, allow_subnormal=False), min_size=1, max_size=200)
bounds = st.lists(st.floats(0.001, 40), min_size=1, max_size=12, unique=True).map(sorted)


@given(times, bounds, st.sampled_from((50, 90, 95, 99)), st.booleans())
def test_the_true_percentile_is_always_within_the_bounds(
    values: list[float], le: list[float], percent: int, with_sum: bool
) -> None:
    n = [0] * (len(le) + 1)
    for value in values:
        n[bisect_left(le, value)] += 1
    counts = {bound: float(sum(n[: k + 1])) for k, bound in enumerate(le)}
    found = bucket_percentile(histogram(counts, len(values), sum(values) if with_sum else None), percent)
    truth = percentile(values, percent).value
    assert found is not None
    assert isinstance(truth, float)
    dust = 1e-8
    assert found.low_ms <= truth * 1000 + dust
    if found.high_ms != "inf":
        assert isinstance(found.high_ms, float)
        assert truth * 1000 <= found.high_ms + dust
        if found.value_ms is not None:
            assert found.low_ms <= found.value_ms <= found.high_ms
    for limit in (truth * 1000 * 0.5, truth * 1000 * 2 + 1):
        assert holds(found, limit) in (truth * 1000 <= limit, None)


@given(times, times, bounds)
def test_the_rise_of_a_histogram_is_the_histogram_of_what_came_in_between(
    before: list[float], between: list[float], le: list[float]
) -> None:
    def of(values: list[float]) -> CumulativeHistogram:
        counts = {bound: float(sum(value <= bound for value in values)) for bound in le}
        return histogram(counts, len(values))

    assert histogram_delta([of(before), of(before + between)], [False]) == of(between)
