"""What every arrival process promises, whatever its parameters."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_locust.arrivals import PROCESSES, Process, parse_process
from llm_locust.arrivals.processes import Offsets, ProcessKind
from llm_locust.records import NS_PER_S, UsageError

ONE_OF_EACH = (
    "poisson",
    "constant",
    "gamma:cv=3",
    "on-off",
    "spike",
    "diurnal",
    "linear-ramp:to=8",
    "exponential-ramp:to=8",
)
NEED_DURATION = {"spike", "diurnal", "linear-ramp", "exponential-ramp"}


def rng(seed: int = 7) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


@st.composite
def processes(draw: st.DrawFn, kinds: tuple[ProcessKind, ...] = tuple(PROCESSES.values())) -> Process:
    """Any process with any parameters; rates and times up to 500, so that no plan outgrows a test."""
    kind = draw(st.sampled_from(kinds))
    return kind.bind(
        {p.name: draw(st.floats(p.least, min(p.most, 500)) | st.just(min(p.most, 5.0))) for p in kind.parameters}
    )


rates = st.floats(0.01, 50)
durations = st.floats(0.5, 60)
seeds = st.integers(0, 1000)


def assert_offsets(offsets: Offsets, duration_s: float) -> None:
    assert offsets.dtype == np.int64
    assert np.all(np.diff(offsets) >= 0)
    assert np.all((offsets >= 0) & (offsets < round(duration_s * NS_PER_S)))


def test_every_process_is_tried_here() -> None:
    assert {text.partition(":")[0] for text in ONE_OF_EACH} == set(PROCESSES)


@given(process=processes(), rate=rates, duration_s=durations, seed=seeds)
@settings(max_examples=300, deadline=None)
def test_offsets_are_sorted_whole_nanoseconds_inside_the_duration(
    process: Process, rate: float, duration_s: float, seed: int
) -> None:
    assert_offsets(process(rate, duration_s, rng(seed)), duration_s)


@given(process=processes(), rate=rates, duration_s=durations, seed=seeds)
@settings(max_examples=100, deadline=None)
def test_a_process_is_a_function_of_its_random_stream(
    process: Process, rate: float, duration_s: float, seed: int
) -> None:
    again = parse_process(process.name)
    assert np.array_equal(process(rate, duration_s, rng(seed)), again(rate, duration_s, rng(seed)))


@pytest.mark.parametrize("text", [text for text in ONE_OF_EACH if text != "constant"])
def test_another_seed_gives_other_arrivals(text: str) -> None:
    plans = [tuple(parse_process(text)(5, 60, rng(seed)).tolist()) for seed in range(8)]
    assert len(set(plans)) == 8


@given(
    process=processes(tuple(kind for kind in PROCESSES.values() if not kind.needs_duration)),
    rate=rates,
    short_s=durations,
    more_s=durations,
    seed=seeds,
)
@settings(max_examples=200, deadline=None)
def test_a_longer_duration_only_adds_later_arrivals_unless_the_shape_is_laid_over_it(
    process: Process, rate: float, short_s: float, more_s: float, seed: int
) -> None:
    short, long = process(rate, short_s, rng(seed)), process(rate, short_s + more_s, rng(seed))
    assert np.array_equal(long[: len(short)], short)
    assert np.all(long[len(short) :] >= round(short_s * NS_PER_S))


@pytest.mark.parametrize("text", ONE_OF_EACH)
def test_a_process_whose_shape_is_laid_over_the_duration_says_so(text: str) -> None:
    process = parse_process(text)
    assert process.needs_duration == (process.kind.name in NEED_DURATION)
    half, whole = (process.expected_arrivals(4, duration_s, 30) for duration_s in (30, 75))
    assert (half != pytest.approx(whole)) == process.needs_duration


@given(process=processes(), rate=rates, duration_s=durations, share=st.floats(0, 1))
@settings(max_examples=200, deadline=None)
def test_expected_arrivals_rise_from_none_to_the_mean_times_the_duration(
    process: Process, rate: float, duration_s: float, share: float
) -> None:
    total = process.expected_arrivals(rate, duration_s, duration_s)
    part = process.expected_arrivals(rate, duration_s, share * duration_s)
    assert process.expected_arrivals(rate, duration_s, 0) == 0
    assert -1e-9 * total <= part <= total * (1 + 1e-9)
    assert total == pytest.approx(process.mean_rate(rate, duration_s) * duration_s)
    if "ramp" not in process.kind.name:
        assert process.mean_rate(rate, duration_s) == pytest.approx(rate)


@pytest.mark.parametrize("text", ONE_OF_EACH)
def test_a_rate_of_one_in_a_thousand_seconds_is_as_exact_as_any(text: str) -> None:
    process = parse_process(text.replace("to=8", "to=0.002"))
    plans = [process(0.001, 60, rng(seed)) for seed in range(2000)]
    for plan in plans:
        assert_offsets(plan, 60)
    if text == "constant":
        assert {len(plan) for plan in plans} == {1}
        return
    found = [len(plan) for plan in plans]
    assert np.mean(found) == pytest.approx(
        process.mean_rate(0.001, 60) * 60, abs=4 * max(np.std(found), 0.25) / np.sqrt(2000)
    )


@pytest.mark.parametrize("text", ONE_OF_EACH)
def test_twenty_thousand_a_second_for_a_minute_are_planned_like_a_few(text: str) -> None:
    process = parse_process(text.replace("to=8", "to=25000"))
    offsets = process(20_000, 60, rng())
    assert_offsets(offsets, 60)
    total = process.mean_rate(20_000, 60) * 60
    # Three times Poisson's for the counts of gamma:cv=3, and no less for the others.
    assert len(offsets) == pytest.approx(total, abs=4 * 3 * np.sqrt(total))
    for second in range(60):
        until = (second + 1) * NS_PER_S
        if text != "on-off":  # whose phase is its own
            expected = process.expected_arrivals(20_000, 60, second + 1)
            assert np.searchsorted(offsets, until) == pytest.approx(expected, abs=4 * 3 * np.sqrt(expected) + 1)


@pytest.mark.parametrize(
    ("text", "first_three"),
    [
        ("poisson", [536_514_513, 690_741_085, 3_378_459_522]),
        ("constant", [0, 500_000_000, 1_000_000_000]),
        ("gamma:cv=3", [4_032_180_569, 7_603_699_243, 7_605_663_920]),
        ("on-off:on=5,off=15", [9_802_124_149, 10_474_053_758, 10_519_857_147]),
        ("spike:at=0.5,width=2,share=0.5", [1_037_261_000, 1_335_433_000, 6_531_688_000]),
        ("diurnal:period=60,swing=0.8", [2_560_313_000, 3_212_659_000, 9_990_672_000]),
        ("linear-ramp:to=8", [529_505_000, 679_208_000, 3_133_058_000]),
        ("exponential-ramp:to=8", [533_216_000, 685_287_000, 3_253_084_000]),
    ],
)
def test_a_seed_gives_the_same_arrivals_on_every_version(text: str, first_three: list[int]) -> None:
    assert parse_process(text)(2.0, 60.0, rng(1))[:3].tolist() == first_three


@pytest.mark.parametrize("name", [name for name, kind in PROCESSES.items() if "ramp" not in name])
def test_a_line_of_the_table_is_the_process_with_its_defaults(name: str) -> None:
    assert np.array_equal(PROCESSES[name](3, 60, rng()), parse_process(name)(3, 60, rng()))


def test_a_ramp_has_no_default_to_go_to() -> None:
    with pytest.raises(UsageError, match=r"linear-ramp needs to=N, where the rate at the end is a plain number of req"):
        PROCESSES["linear-ramp"](3, 60, rng())


@pytest.mark.parametrize("kind", PROCESSES.values(), ids=list(PROCESSES))
def test_every_line_of_the_table_can_be_shown_in_help(kind: ProcessKind) -> None:
    assert kind.meaning
    assert "%" not in kind.meaning  # argparse would read it as a format
    assert "\n" not in kind.meaning
    for parameter in kind.parameters:
        assert parameter.meaning
        assert parameter.least < parameter.most
        assert parameter.default is None or parameter.least <= parameter.default <= parameter.most


def test_a_parameter_is_checked_wherever_it_comes_from() -> None:
    with pytest.raises(
        UsageError, match=r"cv=21: the coefficient of variation of the gaps is a plain number from 0.01 to 20"
    ):
        PROCESSES["gamma"].bind({"cv": 21})
    with pytest.raises(UsageError, match=r"cv=nan: "):
        PROCESSES["gamma"].bind({"cv": float("nan")})
    with pytest.raises(UsageError, match=r"gamma has no parameter 'shape': it takes cv"):
        PROCESSES["gamma"].bind({"shape": 1})
