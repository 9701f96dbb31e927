"""Burstiness worked by hand."""

import math

import numpy as np
import pytest

from llm_locust.arrivals import bin_counts, dispersion, gap_cv
from llm_locust.records import NS_PER_S


def at(*seconds: float) -> np.ndarray:
    return np.array([round(second * NS_PER_S) for second in seconds], dtype=np.int64)


def test_the_variation_of_gaps_is_their_sample_deviation_over_their_mean() -> None:
    # Gaps of 1, 2 and 3 s: mean 2, sample variance (1 + 0 + 1) / 2 = 1.
    assert gap_cv(at(5, 6, 8, 11)) == pytest.approx(0.5)
    # Gaps of 0, 0 and 3 s: mean 1, sample variance (1 + 1 + 4) / 2 = 3.
    assert gap_cv(at(0, 0, 0, 3)) == pytest.approx(math.sqrt(3))


def test_equal_gaps_do_not_vary() -> None:
    assert gap_cv(at(0, 2, 4, 6)) == 0


@pytest.mark.parametrize("seconds", [(), (1,), (1, 2), (3, 3, 3)])
def test_too_few_gaps_or_none_that_take_time_have_no_variation_to_speak_of(seconds: tuple[float, ...]) -> None:
    assert gap_cv(at(*seconds)) is None


def test_arrivals_are_counted_in_whole_bins_and_one_on_an_edge_in_the_later() -> None:
    # Bins [0, 2), [2, 4), [4, 6); the last second and what comes in it or after is left out.
    assert bin_counts(at(0, 0.5, 1.999, 2, 5.999, 6, 6.5, 9), 2, 7).tolist() == [3, 1, 1]


def test_bins_stand_to_the_end_of_the_duration_though_nothing_comes() -> None:
    assert bin_counts(at(0.5), 1, 4).tolist() == [1, 0, 0, 0]
    assert bin_counts(at(), 1, 3).tolist() == [0, 0, 0]
    assert bin_counts(at(0.5), 2, 1).tolist() == []


def test_bins_that_no_binary_fraction_can_hold_do_not_drift() -> None:
    # 0.1 s is no binary fraction: floats put an arrival at 0.3 s into the bin before it.
    assert bin_counts(at(0, 0.1, 0.2, 0.3, 0.6, 0.7), 0.1, 0.8).tolist() == [1, 1, 1, 1, 0, 0, 1, 1]


def test_dispersion_is_the_sample_variance_of_the_counts_over_their_mean() -> None:
    # Counts 2, 0, 1: mean 1, sample variance (1 + 1 + 0) / 2 = 1.
    assert dispersion(at(0.1, 0.2, 2.5), 1, 3) == pytest.approx(1)
    # Counts 4, 0, 0, 0: mean 1, sample variance (9 + 1 + 1 + 1) / 3 = 4.
    assert dispersion(at(0, 0.1, 0.2, 0.3), 1, 4) == pytest.approx(4)


def test_equal_counts_do_not_disperse_at_their_own_scale_whatever_their_gaps() -> None:
    pairs = at(0, 0.01, 1, 1.01, 2, 2.01, 3, 3.01)
    assert dispersion(pairs, 1, 4) == 0
    # In tenths of a second: 4 bins of 2 among 40: mean 0.2, sum of squares 4 * 4 - 40 * 0.04 = 14.4, over 39.
    assert dispersion(pairs, 0.1, 4) == pytest.approx(14.4 / 39 / 0.2)


@pytest.mark.parametrize(("seconds", "duration_s"), [((), 9), ((0.5,), 1.9), ((5,), 4)])
def test_one_bin_or_empty_ones_have_no_dispersion_to_speak_of(seconds: tuple[float, ...], duration_s: float) -> None:
    assert dispersion(at(*seconds), 1, duration_s) is None


def test_a_slow_burst_shows_in_wide_bins() -> None:
    # One second of two has ten evenly spaced arrivals: within it the counts are even, from second to second not at all.
    offsets = np.concatenate([at(*(2 * cycle + n / 10 for n in range(10))) for cycle in range(50)])
    # Counts 10, 0, 10, 0, ...: mean 5, sum of squares 100 * 25, over 99.
    assert dispersion(offsets, 1, 100) == pytest.approx(2500 / 99 / 5)
    assert dispersion(offsets, 2, 100) == 0


def test_bins_of_less_than_a_nanosecond_are_refused() -> None:
    with pytest.raises(ValueError, match="whole number of nanoseconds"):
        bin_counts(at(1), 1e-10, 1)
