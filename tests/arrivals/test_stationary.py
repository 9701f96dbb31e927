"""Constant, Poisson, gamma and on-off arrivals: their gaps, counts and means are those of their definitions."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from llm_locust.arrivals import dispersion, gap_cv
from llm_locust.arrivals.stationary import Floats, constant, gamma, on_off, poisson, sums_until
from llm_locust.records import NS_PER_S


def rng(seed: int = 7) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


# --- constant ------------------------------------------------------------------------------------------------------


def test_constant_arrivals_stand_exactly_one_period_apart_from_zero() -> None:
    assert constant(4, 1.0, rng()).tolist() == [0, 250_000_000, 500_000_000, 750_000_000]


def test_constant_arrivals_fill_the_duration_and_not_its_end() -> None:
    assert constant(0.5, 4.0, rng()).tolist() == [0, 2 * NS_PER_S]
    assert constant(3, 1.0, rng()).tolist() == [0, 333_333_333, 666_666_667]


def test_a_rate_too_low_for_the_duration_still_plans_its_first_arrival() -> None:
    assert constant(0.01, 5.0, rng()).tolist() == [0]


def test_constant_gaps_have_no_variation() -> None:
    assert gap_cv(constant(8, 100.0, rng())) == 0


def test_constant_gaps_that_are_no_whole_nanoseconds_differ_by_one_at_most_and_never_drift() -> None:
    offsets = constant(7, 86_400.0, rng())
    assert set(np.diff(offsets).tolist()) == {142_857_142, 142_857_143}
    assert offsets[7 * 86_399] == 86_399 * NS_PER_S


# --- Poisson -------------------------------------------------------------------------------------------------------


def test_poisson_gaps_have_coefficient_of_variation_one() -> None:
    offsets = poisson(50, 2000.0, rng())
    # n = 100,000: the CV of exponential gaps is within 4 standard errors (1/sqrt(n)) of 1.
    assert gap_cv(offsets) == pytest.approx(1.0, abs=4 / np.sqrt(len(offsets)))
    assert len(offsets) == pytest.approx(100_000, abs=4 * np.sqrt(100_000))


@pytest.mark.parametrize("rate", [0.5, 50, 20_000])
def test_poisson_gaps_are_exponential(rate: float) -> None:
    gaps_s = np.diff(poisson(rate, 50_000 / rate, rng())) / NS_PER_S
    assert stats.kstest(gaps_s, stats.expon(scale=1 / rate).cdf).pvalue > 0.001


def test_poisson_gaps_know_nothing_of_the_gap_before() -> None:
    gaps = np.diff(poisson(50, 2000.0, rng()))
    # The correlation of n independent pairs has standard error 1/sqrt(n).
    assert np.corrcoef(gaps[:-1], gaps[1:])[0, 1] == pytest.approx(0, abs=4 / np.sqrt(len(gaps)))


@pytest.mark.parametrize("bin_s", [0.1, 1.0, 10.0])
def test_poisson_counts_have_dispersion_one_at_every_scale(bin_s: float) -> None:
    offsets = poisson(20, 4000.0, rng(11))
    assert dispersion(offsets, bin_s, 4000.0) == pytest.approx(1.0, abs=4 * np.sqrt(2 / (4000 / bin_s - 1)))


def test_poisson_puts_no_mass_on_second_boundaries() -> None:
    offsets = poisson(50, 2000.0, rng(3))
    to_boundary = np.minimum(offsets % NS_PER_S, NS_PER_S - offsets % NS_PER_S)
    near = np.count_nonzero(to_boundary <= 5_000_000)  # within 5 ms: 1 % of the time, so 1,000 of 100,000
    assert near == pytest.approx(1000, abs=4 * np.sqrt(1000))


def test_the_number_of_poisson_arrivals_is_left_to_chance() -> None:
    counts = [len(poisson(10, 10.0, rng(seed))) for seed in range(400)]
    # Of Poisson(100) counts: the mean has standard error 10/20, the variance 100 * sqrt(2/399).
    assert np.mean(counts) == pytest.approx(100, abs=4 * 0.5)
    assert np.var(counts, ddof=1) == pytest.approx(100, abs=4 * 100 * np.sqrt(2 / 399))


def test_a_seed_gives_the_same_poisson_arrivals_on_every_version() -> None:
    assert poisson(1.0, 6.0, rng(1)).tolist() == [1_073_029_026, 1_381_482_170]


@pytest.mark.parametrize("workers", [1, 2, 4, 8])
def test_the_shares_of_any_number_of_workers_merge_to_the_very_same_poisson_arrivals(workers: int) -> None:
    whole = poisson(20, 4000.0, rng(5))
    shares = [whole[rank::workers] for rank in range(workers)]
    merged = np.sort(np.concatenate(shares))
    assert np.array_equal(merged, whole)
    for bin_s in (0.1, 1.0, 10.0):
        assert dispersion(merged, bin_s, 4000.0) == pytest.approx(1.0, abs=4 * np.sqrt(2 / (4000 / bin_s - 1)))


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_one_workers_share_alone_is_smoother_than_chance(workers: int) -> None:
    # Every W-th Poisson arrival: the gaps are sums of W exponential ones (Erlang), whose CV is 1/sqrt(W). Only all
    # shares together are Poisson, which is why the plan is made whole and dealt out, not drawn by each worker.
    share = poisson(20, 4000.0, rng(5))[::workers]
    assert gap_cv(share) == pytest.approx(1 / np.sqrt(workers), abs=4 / np.sqrt(len(share)))


def test_times_are_the_same_to_the_last_bit_whatever_number_is_drawn_at_once() -> None:
    def draw(random: np.random.Generator) -> Callable[[int], Floats]:
        return lambda count: random.exponential(0.1, count)

    few, many = sums_until(1000.0, 0.0, 7, draw(rng())), sums_until(1000.0, 0.0, 20_000, draw(rng()))
    assert few[-1] >= 1000 > few[-8]
    assert np.array_equal(few, many[: len(few)])


# --- gamma ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cv", [0.1, 0.5, 1.0, 2.0])
def test_gamma_gaps_have_the_variation_asked_for_and_the_mean_of_the_rate(cv: float) -> None:
    gaps_s = np.diff(gamma(50, 2000.0, rng(), cv=cv)) / NS_PER_S
    n = len(gaps_s)
    assert np.mean(gaps_s) == pytest.approx(1 / 50, abs=4 * cv / 50 / np.sqrt(n))
    # Standard error of a CV by the delta method, from the third and fourth moments of the gamma law: skew 2 cv, excess
    # kurtosis 6 cv^2, so var(CV) = cv^2 (1/2 + 6 cv^2 / 4 + cv^2 - 2 cv^2) / n = cv^2 (1/2 + cv^2 / 2) / n.
    assert np.std(gaps_s) / np.mean(gaps_s) == pytest.approx(cv, abs=4 * cv * np.sqrt((1 + cv**2) / 2 / n))


@pytest.mark.parametrize("cv", [0.5, 3.0])
def test_gamma_gaps_follow_the_gamma_law(cv: float) -> None:
    gaps_s = np.diff(gamma(10, 3000.0, rng(), cv=cv)) / NS_PER_S
    # Of the gaps above a microsecond: shorter ones, of which cv=3 has many, are rounded to the nanosecond.
    law = stats.gamma(cv**-2, scale=cv**2 / 10)
    least = 1e-6
    kept = gaps_s[gaps_s > least]
    assert len(kept) / len(gaps_s) == pytest.approx(law.sf(least), abs=4 * 0.5 / np.sqrt(len(gaps_s)))
    assert stats.kstest(kept, lambda x: (law.cdf(x) - law.cdf(least)) / law.sf(least)).pvalue > 0.001


def test_gamma_with_a_variation_of_one_is_poisson() -> None:
    offsets = gamma(20, 4000.0, rng(2), cv=1.0)
    assert stats.kstest(np.diff(offsets) / NS_PER_S, stats.expon(scale=1 / 20).cdf).pvalue > 0.001
    assert dispersion(offsets, 1.0, 4000.0) == pytest.approx(1.0, abs=4 * np.sqrt(2 / 3999))


@pytest.mark.parametrize(("cv", "duration_s"), [(0.2, 0.5), (0.2, 1.5), (3.0, 0.5), (3.0, 5.0)])
def test_a_gamma_stage_has_the_mean_rate_from_its_very_first_second(cv: float, duration_s: float) -> None:
    # A start that is an arrival, or whose first gap is a whole one, misses this by 15 % and more.
    counts = [len(gamma(1, duration_s, rng(seed), cv=cv)) for seed in range(6000)]
    assert np.mean(counts) == pytest.approx(duration_s, abs=4 * np.std(counts) / np.sqrt(len(counts)))


def test_the_counts_of_bursty_gamma_arrivals_disperse_by_the_square_of_the_variation() -> None:
    # In bins of many gaps the index of dispersion of a renewal process comes to cv^2 (Cox 1962): 9, give or take the
    # standard error sqrt(2/n) and a bias of the order of 1 / gaps per bin.
    offsets = gamma(20, 20_000.0, rng(4), cv=3.0)
    assert dispersion(offsets, 20.0, 20_000.0) == pytest.approx(9, rel=4 * np.sqrt(2 / 999))


# --- on-off --------------------------------------------------------------------------------------------------------


def places_in_cycle_s(offsets: np.ndarray, cycle_s: int) -> np.ndarray:
    """Where in the cycle the arrivals fall, counted from the end of the longest pause."""
    places = np.sort(offsets % (cycle_s * NS_PER_S))
    pauses = np.diff(places, append=places[0] + cycle_s * NS_PER_S)
    burst_start = places[(np.argmax(pauses) + 1) % len(places)]
    return np.sort((offsets - burst_start) % (cycle_s * NS_PER_S)) / NS_PER_S


@pytest.mark.parametrize("seed", range(6))
def test_no_arrival_falls_into_an_off_period(seed: int) -> None:
    offsets = on_off(100, 200.0, rng(seed), on=5, off=15)
    places = places_in_cycle_s(offsets, 20)
    assert places[-1] <= 5 + 2e-9  # both ends of a burst are rounded to the nanosecond
    # 20,000 arrivals in 5 s of the cycle: the last is within 10 ms of its end but once in exp(40).
    assert places[-1] > 4.99
    assert stats.kstest(places[1:-1], stats.uniform(0, places[-1]).cdf).pvalue > 0.001


def test_a_burst_runs_at_the_rate_that_makes_up_for_the_pause() -> None:
    offsets = on_off(100, 200.0, rng(), on=5, off=15)
    # Ten whole cycles: 50 s at 100 * 20 / 5 = 400 per second.
    assert len(offsets) == pytest.approx(20_000, abs=4 * np.sqrt(20_000))
    gaps_s = np.diff(offsets) / NS_PER_S
    assert np.count_nonzero(gaps_s > 14.9) in (9, 10)  # ten pauses, of which one may fall on start and end
    assert np.mean(gaps_s[gaps_s < 14.9]) == pytest.approx(1 / 400, abs=4 / 400 / np.sqrt(len(gaps_s)))


@pytest.mark.parametrize("duration_s", [3.0, 12.0, 20.0, 33.0])
def test_on_off_keeps_its_mean_in_a_duration_of_no_whole_cycles(duration_s: float) -> None:
    counts = [len(on_off(2, duration_s, rng(seed), on=5, off=15)) for seed in range(4000)]
    assert np.mean(counts) == pytest.approx(2 * duration_s, abs=4 * np.std(counts) / np.sqrt(len(counts)))


def test_without_a_pause_on_off_is_poisson() -> None:
    offsets = on_off(20, 2000.0, rng(), on=5, off=0)
    assert stats.kstest(np.diff(offsets) / NS_PER_S, stats.expon(scale=1 / 20).cdf).pvalue > 0.001


def test_bursts_begin_anywhere_in_the_stage() -> None:
    # The first arrival follows the start of a burst within 10 ms at 400 per second and more: by seed, anywhere in the
    # 20 s of the cycle, a quarter of the starts being inside a burst.
    firsts_s = np.array([on_off(100, 20.0, rng(seed), on=5, off=15)[0] for seed in range(1000)]) / NS_PER_S
    assert np.count_nonzero(firsts_s < 0.05) / 1000 == pytest.approx(0.25, abs=4 * np.sqrt(0.25 * 0.75 / 1000) + 0.0025)
    assert stats.kstest(firsts_s[firsts_s > 0.05], stats.uniform(0.05, 14.95).cdf).pvalue > 0.001
