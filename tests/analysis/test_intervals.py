"""Intervals of differences, held against published and hand-made examples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from llm_locust.analysis.intervals import (
    RESAMPLES,
    _resampled,
    difference_of_means,
    difference_of_percentiles,
    difference_of_ratios,
    difference_of_shares,
)
from llm_locust.records.figures import Interval


def test_shares_have_newcombes_interval() -> None:
    # Newcombe 1998, table II, example (a): 56/70 against 48/80 by method 10.
    found = difference_of_shares(56, 70, 48, 80)
    assert found is not None
    assert (round(found.low, 4), round(found.high, 4)) == (0.0524, 0.3339)


def test_shares_turned_round_have_the_interval_turned_round() -> None:
    one, other = difference_of_shares(9, 10, 3, 10), difference_of_shares(3, 10, 9, 10)
    assert one is not None
    assert other is not None
    assert (one.low, one.high) == (-other.high, -other.low)
    assert (round(one.low, 4), round(one.high, 4)) == (0.1705, 0.8090)  # his example (c)


def test_shares_of_all_and_of_none_stay_within_one() -> None:
    found = difference_of_shares(10, 10, 0, 10)
    assert found is not None
    assert found.high == 1.0
    assert round(found.low, 4) == 0.6075  # 1 - hypot of two Wilson reaches of 0.2775


def test_without_requests_there_is_no_share_and_no_interval() -> None:
    assert difference_of_shares(0, 0, 1, 2) is None


def test_means_have_welchs_interval() -> None:
    a, b = [1.0, 2.0, 3.0], [2.0, 4.0, 6.0]
    found = difference_of_means(a, b)
    assert found is not None
    # Variances 1 and 4 of 3 parts each: standard error sqrt(5/3), 50/17 degrees of freedom.
    reach = float(stats.t.ppf(0.975, 50 / 17)) * math.sqrt(5 / 3)
    assert found.low == pytest.approx(-2 - reach)
    assert found.high == pytest.approx(-2 + reach)


@pytest.mark.parametrize(
    ("a", "b", "interval"),
    [([2.0, 2.0], [1.0, 1.0], Interval(low=1.0, high=1.0)), ([2.0], [1.0, 2.0], None), ([], [], None)],
)
def test_means_that_do_not_vary_differ_for_sure_and_one_part_says_nothing(
    a: list[float], b: list[float], interval: Interval | None
) -> None:
    assert difference_of_means(a, b) == interval


def test_ratios_are_linearised() -> None:
    found = difference_of_ratios(np.array([1.0, 3.0]), np.array([2.0, 4.0]), np.zeros(2), np.ones(2))
    assert found is not None
    # 4/6 against 0. Off by -1/3 and 1/3: variance 2/1 x 2/9 / 36 = 1/81; the other has none.
    assert found.low == pytest.approx(2 / 3 - 1.959964 / 9)
    assert found.high == pytest.approx(2 / 3 + 1.959964 / 9)


def test_ratios_over_nothing_have_no_interval() -> None:
    assert difference_of_ratios(np.ones(2), np.zeros(2), np.ones(2), np.ones(2)) is None


@pytest.mark.parametrize(("percent", "least"), [(95, 59), (99, 299)])
def test_a_percentile_without_a_bound_has_no_interval(percent: int, least: int) -> None:
    enough, few = np.arange(float(least)), np.arange(float(least - 1))
    assert difference_of_percentiles(enough, enough, percent) is not None
    assert difference_of_percentiles(enough, few, percent) is None
    assert difference_of_percentiles(few, enough, percent) is None


def test_a_difference_of_all_values_is_shown_and_the_same_values_show_none() -> None:
    values = np.arange(200.0)
    apart = difference_of_percentiles(values + 500, values, 50)
    assert apart is not None
    assert 450 < apart.low < 500 < apart.high < 550
    same = difference_of_percentiles(values, values, 50)
    assert same is not None
    assert same.low < 0 < same.high
    constant = np.full(100, 30.0)
    assert difference_of_percentiles(constant, np.full(80, 10.0), 95) == Interval(low=20.0, high=20.0)


def test_the_same_runs_always_have_the_same_interval() -> None:
    values, other = np.arange(300.0), np.arange(300.0) * 1.1
    assert difference_of_percentiles(values, other, 95) == difference_of_percentiles(values, other, 95)


@pytest.mark.parametrize("percent", [50, 95])
def test_percentiles_of_resamples_are_drawn_as_if_the_resamples_had_been_made(percent: int) -> None:
    values = np.arange(1.0, 101.0)
    drawn = _resampled(values, percent, np.random.default_rng(5))
    rank = percent  # of 100 values
    for place in (percent - 5, percent - 1, percent, percent + 2):
        # The percentile is at most the value in this place when at least `rank` of 100 draws fall on it or below.
        exact = float(stats.binom.sf(rank - 1, 100, place / 100))
        assert float((drawn <= place).mean()) == pytest.approx(exact, abs=4 * 0.5 / math.sqrt(RESAMPLES))
