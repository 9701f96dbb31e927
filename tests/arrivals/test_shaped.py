"""Ramps, diurnal and spike: their intensities against integrals worked by hand, their arrivals against their intensities."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from llm_locust.arrivals import parse_process
from llm_locust.arrivals.shaped import Intensity, Shaped, diurnal, exponential_ramp, linear_ramp, spike
from llm_locust.arrivals.stationary import poisson_times
from llm_locust.records import NS_PER_S

PI = math.pi


def rng(seed: int = 7) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def expected(shape: Intensity, *times_s: float) -> list[float]:
    return shape.expected_by(np.array(times_s)).tolist()


# --- intensities by hand -------------------------------------------------------------------------------------------


def test_a_linear_ramp_has_the_area_under_its_line() -> None:
    # 2 to 8 per second in 60 s; after 20 s it is at 4, after 40 s at 6: trapezia of 60, 100 and 140.
    assert expected(linear_ramp.intensity(2, 60, to=8), 0, 20, 40, 60) == pytest.approx([0, 60, 160, 300])
    # 8 down to 2: the same from behind.
    assert expected(linear_ramp.intensity(8, 60, to=2), 0, 20, 40, 60) == pytest.approx([0, 140, 240, 300])
    # Down to nothing: a triangle.
    assert expected(linear_ramp.intensity(10, 20, to=0), 0, 10, 20) == pytest.approx([0, 75, 100])


def test_a_ramp_to_where_it_is_has_one_rate() -> None:
    for ramp in (linear_ramp, exponential_ramp):
        shape = ramp.intensity(3, 60, to=3)
        assert expected(shape, 0, 20, 60) == pytest.approx([0, 60, 180])
        assert shape.time_of(np.array([60.0, 90.0])).tolist() == pytest.approx([20, 30])


def test_an_exponential_ramp_grows_by_the_same_factor_in_equal_times() -> None:
    # 2 to 16 per second in 60 s doubles every 20 s, so each third has twice the arrivals of the one before; the first
    # has the integral of 2 * 2^(t/20) over 20 s = 40 / ln 2.
    third = 40 / math.log(2)
    assert expected(exponential_ramp.intensity(2, 60, to=16), 0, 20, 40, 60) == pytest.approx(
        [0, third, 3 * third, 7 * third]
    )
    assert expected(exponential_ramp.intensity(16, 60, to=2), 20, 40, 60) == pytest.approx(
        [4 * third, 6 * third, 7 * third]
    )


def test_a_day_begins_at_its_trough_and_has_its_mean_after_every_half() -> None:
    # 10 * (1 - 0.8 cos(2 pi t / 60)): the integral is 10 t - 480 / (2 pi) * sin(2 pi t / 60).
    swung = 480 / (2 * PI)
    shape = diurnal.intensity(10, 60, period=60, swing=0.8)
    assert expected(shape, 0, 15, 30, 45, 60) == pytest.approx([0, 150 - swung, 300, 450 + swung, 600])


def test_a_part_of_a_day_is_scaled_to_the_same_mean() -> None:
    # A quarter of a day, at rates around 10 from the trough on: 150 - 480 / (2 pi) = 73.6, so every rate is 2.04 times.
    scale = 150 / (150 - 480 / (2 * PI))
    shape = diurnal.intensity(10, 15, period=60, swing=0.8)
    assert expected(shape, 0, 5, 15) == pytest.approx(
        [0, scale * (50 - 480 / (2 * PI) * math.sin(2 * PI * 5 / 60)), 150]
    )
    # A day and a half, two and a quarter: the ends are at the mean, and beyond it by a quarter day's swing.
    assert expected(diurnal.intensity(10, 90, period=60, swing=0.8), 30, 90) == pytest.approx([300, 900])
    scale = 1350 / (1350 - 480 / (2 * PI))
    assert expected(diurnal.intensity(10, 135, period=60, swing=0.8), 60, 135) == pytest.approx([600 * scale, 1350])


def test_the_first_moments_of_a_day_that_begins_at_nothing_are_worked_out_to_the_last_digits() -> None:
    # A second of a day of 86,400 s that begins at a rate of 0: the rate goes as t^2 there (1 - cos x is x^2 / 2 for
    # small x, to a part in 10^9 here), so the first half of the second has an eighth of its arrivals.
    shape = diurnal.intensity(10, 1, period=86_400, swing=1)
    assert expected(shape, 0.5, 1)[0] == pytest.approx(1.25, rel=1e-8)
    assert shape.time_of(np.array([1.25]))[0] == pytest.approx(0.5, rel=1e-8)


def test_a_spike_has_its_share_inside_and_the_rest_evenly_around() -> None:
    # 600 arrivals in 60 s, half of them from 30 to 32 s; the other 300 over the other 58 s.
    shape = spike.intensity(10, 60, at=0.5, width=2, share=0.5)
    assert expected(shape, 0, 29, 30, 31, 32, 60) == pytest.approx(
        [0, 300 * 29 / 58, 300 * 30 / 58, 300 * 30 / 58 + 150, 300 * 30 / 58 + 300, 600]
    )


def test_a_spike_stays_inside_the_duration() -> None:
    late = spike.intensity(10, 60, at=1.0, width=2, share=0.5)
    assert expected(late, 0, 29, 58, 60) == pytest.approx([0, 150, 300, 600])
    early = spike.intensity(10, 60, at=0.0, width=2, share=0.5)
    assert expected(early, 0, 1, 2, 31, 60) == pytest.approx([0, 150, 300, 450, 600])
    assert expected(spike.intensity(10, 5, at=0.5, width=8, share=0.5), 0, 1, 5) == pytest.approx([0, 10, 50])


def test_a_spike_of_everything_leaves_nothing_around_and_one_of_nothing_is_a_gap() -> None:
    everything = spike(10, 60, rng(), at=0.5, width=2, share=1.0)
    assert everything[0] >= 30 * NS_PER_S
    assert everything[-1] <= 32 * NS_PER_S
    nothing = spike(10, 60, rng(), at=0.5, width=2, share=0.0)
    assert not np.any((nothing > 30 * NS_PER_S) & (nothing < 32 * NS_PER_S))
    assert len(nothing) == pytest.approx(600, abs=4 * np.sqrt(600))


# --- arrivals follow them ------------------------------------------------------------------------------------------

SHAPES = [
    (linear_ramp, {"to": 8.0}),
    (linear_ramp, {"to": 0.0}),
    (linear_ramp, {"to": 400.0}),
    (exponential_ramp, {"to": 0.5}),
    (exponential_ramp, {"to": 4000.0}),
    (diurnal, {"period": 60.0, "swing": 0.8}),
    (diurnal, {"period": 7.0, "swing": 1.0}),
    (diurnal, {"period": 3600.0, "swing": 1.0}),
    (diurnal, {"period": 60.0, "swing": 0.0}),
    (spike, {"at": 0.5, "width": 2.0, "share": 0.5}),
    (spike, {"at": 0.0, "width": 0.1, "share": 0.9}),
]


def shape_id(value: object) -> str:
    return value.__name__ if isinstance(value, Shaped) else str(value)


@pytest.mark.parametrize(("process", "parameters"), SHAPES, ids=shape_id)
def test_shaped_arrivals_are_a_unit_poisson_process_on_the_clock_of_the_intensity(
    process: Shaped, parameters: dict[str, float]
) -> None:
    rate, duration_s = 40.0, 100.0
    shape = process.intensity(rate, duration_s, **parameters)
    (total,) = expected(shape, duration_s)
    offsets = process(rate, duration_s, rng(3), **parameters)
    unit = poisson_times(1.0, total, rng(3))
    # Arrival by arrival: half a microsecond of rounding, at rates of up to 4,000 per second, or 36,000 in the spike.
    assert len(offsets) == len(unit)
    assert np.max(np.abs(shape.expected_by(offsets / NS_PER_S) - unit)) < 0.02
    # And so by law: the expected arrivals between one and the next are exponential of mean 1.
    gaps = np.diff(shape.expected_by(offsets / NS_PER_S))
    assert stats.kstest(gaps, stats.expon.cdf).pvalue > 0.001


@pytest.mark.parametrize(("process", "parameters"), SHAPES, ids=shape_id)
def test_the_inverse_of_an_intensity_gives_the_time_back(process: Shaped, parameters: dict[str, float]) -> None:
    shape = process.intensity(40.0, 100.0, **parameters)
    wanted = np.linspace(0.001, 0.999, 10_001) * expected(shape, 100.0)[0]
    times = shape.time_of(wanted)
    assert np.all(np.diff(times) > 0)
    assert np.max(np.abs(shape.expected_by(times) - wanted)) < 1e-8


@given(
    swing=st.floats(0, 1),
    period=st.floats(0.001, 86_400),
    duration_s=st.floats(0.001, 100),
    share=st.floats(1e-6, 1 - 1e-6),
)
@settings(max_examples=200, deadline=None)
def test_the_time_of_day_is_found_for_every_swing(swing: float, period: float, duration_s: float, share: float) -> None:
    shape = diurnal.intensity(10, duration_s, period=period, swing=swing)
    wanted = np.array([share]) * 10 * duration_s
    (time_s,) = shape.time_of(wanted)
    assert 0 <= time_s <= duration_s * (1 + 1e-9)
    assert expected(shape, time_s)[0] == pytest.approx(wanted[0], rel=1e-9)


def counts(offsets: np.ndarray, *edges_s: float) -> list[int]:
    return np.diff(np.searchsorted(offsets, [edge * NS_PER_S for edge in edges_s])).tolist()


def assert_poisson(found: list[int], means: list[float]) -> None:
    for count, mean in zip(found, means, strict=True):
        assert count == pytest.approx(mean, abs=4 * math.sqrt(mean))


def test_the_thirds_of_a_ramp_have_the_arrivals_of_their_areas() -> None:
    # A hundred times the rates worked out above.
    assert_poisson(counts(linear_ramp(200, 60, rng(), to=800), 0, 20, 40, 60), [6000, 10_000, 14_000])
    third = 4000 / math.log(2)
    assert_poisson(counts(exponential_ramp(200, 60, rng(), to=1600), 0, 20, 40, 60), [third, 2 * third, 4 * third])


def test_a_day_has_its_fewest_arrivals_at_the_trough_and_its_most_at_the_peak() -> None:
    offsets = diurnal(1000, 120, rng(), period=60, swing=0.8)
    # 10 s around trough and peak: 1000 * (10 -+ 0.8 * 60 / pi * sin(2 pi 5 / 60)) = 10,000 -+ 48,000 / pi * 0.5.
    swung = 24_000 / PI
    assert_poisson(counts(offsets, 55, 65), [10_000 - swung])
    assert_poisson(counts(offsets, 25, 35), [10_000 + swung])
    assert_poisson(counts(offsets, 85, 95), [10_000 + swung])
    assert len(offsets) == pytest.approx(120_000, abs=4 * math.sqrt(120_000))


def test_half_of_the_arrivals_fall_into_the_spike() -> None:
    offsets = spike(1000, 60, rng(), at=0.5, width=2, share=0.5)
    assert_poisson(counts(offsets, 0, 30, 32, 60), [30_000 * 30 / 58, 30_000, 30_000 * 28 / 58])


# --- means ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "mean"),
    [
        ("linear-ramp:to=8", 5.0),
        ("linear-ramp:to=0", 1.0),
        ("exponential-ramp:to=16", 14 / math.log(8)),  # the logarithmic mean of 2 and 16
        ("exponential-ramp:to=2", 2.0),
        ("diurnal", 2.0),
        ("diurnal:period=77,swing=1", 2.0),
        ("spike", 2.0),
        ("poisson", 2.0),
        ("constant", 2.0),
        ("gamma:cv=3", 2.0),
        ("on-off", 2.0),
    ],
)
def test_the_rate_is_the_mean_but_for_ramps(text: str, mean: float) -> None:
    process = parse_process(text)
    assert process.mean_rate(2, 60) == pytest.approx(mean)
    # And it is what comes, over a hundred stages; gamma and on-off spread more than Poisson.
    found = [len(process(2, 60, rng(seed))) for seed in range(100)]
    spread = max(np.std(found), math.sqrt(mean * 60))
    assert np.mean(found) == pytest.approx(mean * 60, abs=4 * spread / 10)
