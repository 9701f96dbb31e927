"""What the trend test calls series whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from llm_locust.analysis.trend import span_means, trend

FLAT_NOISE = [0.3, -0.2, 0.1, -0.4, 0.2, 0.0, -0.1, 0.4, -0.3, 0.1]


def state(series: list[float], arrivals: int = 600) -> str:
    return trend(np.array(series), arrivals).state


def test_span_means_are_exact_areas() -> None:
    # One in flight from 0.5 to 2.0, one from 3.0 for ever, in four spans of a second.
    means = span_means(np.array([0.5, 3.0]), np.array([2.0, np.inf]), (0.0, 4.0), spans=4)
    assert means.tolist() == [0.5, 1.0, 0.0, 1.0]


def test_a_constant_is_flat() -> None:
    assert state([20.0] * 10) == "flat"
    assert state([0.0] * 10) == "flat"


def test_noise_is_flat() -> None:
    assert state([20 + 4 * x for x in FLAT_NOISE]) == "flat"


def test_saw_tooth_is_flat() -> None:
    assert state([20.0, 30.0] * 5) == "flat"


def test_ten_offered_against_five_served_is_rising() -> None:
    assert state([50.0 + 30 * k for k in range(10)]) == "rising"


def test_the_same_backwards_is_falling() -> None:
    assert state([320.0 - 30 * k for k in range(10)]) == "falling"


def test_a_perfectly_ordered_drift_within_the_noise_is_flat() -> None:
    found = trend(np.array([100 + 0.5 * k for k in range(10)]), 6000)
    assert found.p_value is not None
    assert found.p_value < 0.001
    assert found.rise == pytest.approx(4.5)
    assert found.noise == pytest.approx(3 * 102.25**0.5)
    assert found.state == "flat"


def test_a_large_but_relatively_tiny_drift_is_flat() -> None:
    # 150 more on 10,000 is well over sqrt(N) noise at 3 x 100, but 5 % of the level: no queue is building up.
    assert state([10_000 + 55 * k for k in range(10)], 600_000) == "flat"


def test_start_up_that_levels_is_undetermined_and_says_so() -> None:
    found = trend(np.array([5, 20, 32, 38, 41, 42, 42.5, 43, 43.2, 43.3]), 600)
    assert found.state == "undetermined"
    assert "warm-up" in found.detail


def test_a_step_that_settles_is_undetermined() -> None:
    assert state([10.0, 10.1, 9.9, 10.05, 9.95, 60.1, 60.2, 60.3, 60.2, 60.25]) == "undetermined"


def test_too_few_arrivals_to_see_an_overload_are_undetermined() -> None:
    assert state([1.0] * 10, arrivals=8) == "undetermined"
    assert state([1.0] * 10, arrivals=10) == "flat"  # a rise of 3 of 10 would have been seen
    assert state([0.0] * 10, arrivals=0) == "undetermined"


def simulated(rng: np.random.Generator, rate: float, service_s: float, servers: int | None, window_s: float) -> str:
    """A queue with exponential times, warmed up for twice its P95 (three means), as a stage is by default."""
    warm_up = max(10.0, 6 * service_s)
    starts = np.sort(rng.uniform(0, warm_up + window_s, rng.poisson(rate * (warm_up + window_s))))
    times = rng.exponential(service_s, len(starts))
    if servers is None:
        ends = starts + times
    else:
        free = np.zeros(servers)
        ends = np.empty(len(starts))
        for k, start in enumerate(starts):
            first = int(free.argmin())
            ends[k] = free[first] = max(start, free[first]) + times[k]
    window = (warm_up, warm_up + window_s)
    return trend(span_means(starts, ends, window), int((starts >= warm_up).sum())).state


@pytest.mark.parametrize(("rate", "service_s"), [(2.0, 3.0), (10.0, 3.0), (10.0, 10.0), (50.0, 5.0)])
def test_poisson_noise_of_a_healthy_queue_is_hardly_ever_called_rising(rate: float, service_s: float) -> None:
    rng = np.random.default_rng(20260921)
    states = [simulated(rng, rate, service_s, None, 60.0) for _ in range(100)]
    assert states.count("rising") <= 4
    assert states.count("flat") >= 90


def test_twice_the_capacity_is_always_called_rising() -> None:
    rng = np.random.default_rng(20260921)
    states = [simulated(rng, 10.0, 1.0, 5, 60.0) for _ in range(50)]
    assert states.count("rising") == 50
