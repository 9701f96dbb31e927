"""Arrival processes: constant has no variation, Poisson has exactly that of chance, at every scale."""

import numpy as np
import pytest

from llm_locust.arrivals import PROCESSES
from llm_locust.arrivals.processes import constant, poisson
from llm_locust.records import NS_PER_S


def rng(seed: int = 7) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def test_constant_arrivals_stand_exactly_one_period_apart_from_zero() -> None:
    assert constant(4, 1.0, rng()).tolist() == [0, 250_000_000, 500_000_000, 750_000_000]


def test_constant_arrivals_fill_the_duration_and_not_its_end() -> None:
    assert constant(0.5, 4.0, rng()).tolist() == [0, 2 * NS_PER_S]
    assert constant(3, 1.0, rng()).tolist() == [0, 333_333_333, 666_666_667]


def test_a_rate_too_low_for_the_duration_still_plans_its_first_arrival() -> None:
    assert constant(0.01, 5.0, rng()).tolist() == [0]


def test_poisson_gaps_have_coefficient_of_variation_one() -> None:
    offsets = poisson(50, 2000.0, rng())
    gaps = np.diff(offsets)
    # n = 100,000: the CV of exponential gaps is within 4 standard errors (1/sqrt(n)) of 1.
    assert np.std(gaps) / np.mean(gaps) == pytest.approx(1.0, abs=4 / np.sqrt(len(gaps)))
    assert len(offsets) == pytest.approx(100_000, abs=4 * np.sqrt(100_000))


@pytest.mark.parametrize("bin_s", [0.1, 1.0, 10.0])
def test_poisson_counts_have_dispersion_one_at_every_scale(bin_s: float) -> None:
    seconds = 4000
    counts = np.bincount((poisson(20, seconds, rng(11)) // round(bin_s * NS_PER_S)), minlength=round(seconds / bin_s))
    bins = len(counts)
    # The variance-to-mean ratio of m Poisson bins has standard error sqrt(2/m).
    assert np.var(counts) / np.mean(counts) == pytest.approx(1.0, abs=4 * np.sqrt(2 / bins))


def test_poisson_puts_no_mass_on_second_boundaries() -> None:
    within_second = poisson(50, 2000.0, rng(3)) % NS_PER_S
    on_boundary = np.count_nonzero(within_second < 10_000_000)  # the first 1 % of each second: 1,000 expected
    assert on_boundary == pytest.approx(1000, abs=4 * np.sqrt(1000))


@pytest.mark.parametrize("name", sorted(PROCESSES))
def test_every_process_is_sorted_and_inside_its_duration(name: str) -> None:
    offsets = PROCESSES[name](123.4, 7.7, rng())
    assert offsets.dtype == np.int64
    assert np.all(np.diff(offsets) >= 0)
    assert offsets[0] >= 0
    assert offsets[-1] < 7_700_000_000


@pytest.mark.parametrize("name", sorted(PROCESSES))
def test_a_process_is_a_function_of_its_random_stream(name: str) -> None:
    assert PROCESSES[name](9.0, 100.0, rng(5)).tolist() == PROCESSES[name](9.0, 100.0, rng(5)).tolist()


def test_a_seed_gives_the_same_poisson_arrivals_on_every_version() -> None:
    assert poisson(1.0, 6.0, rng(1)).tolist() == [1_073_029_026, 1_381_482_170]
