"""Nearest rank, order-statistics bounds and Wilson intervals against numbers known from elsewhere."""

from __future__ import annotations

import pytest

from llm_locust.analysis.quantiles import bound_ranks, nearest_rank, per_second, percentile, share, wilson


@pytest.mark.parametrize(
    ("percent", "n", "rank"),
    [(50, 1, 1), (50, 4, 2), (95, 19, 19), (95, 20, 19), (99, 99, 99), (99, 100, 99), (7, 100, 7)],
)
def test_nearest_rank_is_ceil_of_p_n(percent: int, n: int, rank: int) -> None:
    assert nearest_rank(percent, n) == rank


@pytest.mark.parametrize(("percent", "enough"), [(95, 20), (99, 100)])
def test_too_few_values_for_a_percentile_are_told(percent: int, enough: int) -> None:
    assert percentile(range(enough - 1), percent).at_maximum
    assert not percentile(range(enough), percent).at_maximum


@pytest.mark.parametrize(("percent", "enough"), [(95, 59), (99, 299)])
def test_upper_bound_exists_only_from_59_and_299_values(percent: int, enough: int) -> None:
    assert bound_ranks(percent, enough - 1)[1] is None
    assert bound_ranks(percent, enough)[1] == enough


def test_bounds_are_the_order_statistics_of_their_ranks() -> None:
    # n = 100, p = 0.5: P(at most 57 under the median) = 0.9334, at most 58: 0.9557; so the 59th, and the 42nd below.
    found = percentile(range(1, 101), 50)
    assert (found.low, found.value, found.high) == (42.0, 50.0, 59.0)


def test_failures_are_infinite_and_an_upper_bound_may_be_too() -> None:
    assert percentile([1.0] * 18, 95, infinite=2).value == "inf"
    found = percentile([1.0] * 97, 95, infinite=3)
    assert found.value == 1.0
    assert found.high == "inf"


def test_no_values_are_not_measured() -> None:
    found = percentile([], 95)
    assert (found.value, found.n, found.at_maximum) == (None, 0, False)


def test_wilson_interval_of_8_of_10() -> None:
    found = wilson(8, 10)
    assert found is not None
    assert (round(found.low, 4), round(found.high, 4)) == (0.4902, 0.9433)
    assert wilson(0, 0) is None


def test_null_denominators_give_null() -> None:
    assert share(0, 0) is None
    assert per_second(3, None) is None
    assert per_second(None, 10) is None
    assert per_second(0, 10) == 0.0
