"""A replay is the trace, exactly, and then what was asked for: faster, sliced, thinner, denser, spread inside bins."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_locust.arrivals.traces import Replay, Trace, read_trace, replay
from llm_locust.arrivals.traces.replay import scaled
from llm_locust.records import NS_PER_S, UsageError

SAMPLES = Path(__file__).parent / "samples"


def rng(seed: int = 7) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))


def trace_of(tmp_path: Path, rows: list[tuple[float, str]]) -> Trace:
    file = tmp_path / "trace.csv"
    file.write_text("timestamp,session\n" + "".join(f"{time},{session}\n" for time, session in rows))
    return read_trace(file, "csv")


@pytest.fixture
def code() -> Trace:
    return read_trace(SAMPLES / "azure_code.csv", "azure")


@pytest.fixture
def bins() -> Trace:
    return read_trace(SAMPLES / "mooncake_conversation.jsonl", "mooncake")


@pytest.fixture
def steady(tmp_path: Path) -> Trace:
    """20,000 arrivals, one every 0.1 s, of 2,000 sessions in turn."""
    return trace_of(tmp_path, [(n / 10, f"s{n % 2000}") for n in range(20_000)])


def test_left_alone_a_replay_is_the_trace(code: Trace) -> None:
    played = replay(code, random=rng())
    assert played.offset_ns.tolist() == code.time_ns.tolist()
    assert played.row.tolist() == list(range(40))
    assert played.copy.tolist() == [0] * 40
    # From 0 to the last row and the 100 ns in which it was somewhere.
    assert played.seconds == 34.2844391
    assert played.rate_rps == 40 / 34.2844391


def test_ten_times_as_fast_every_offset_is_a_tenth_rounded_down(code: Trace) -> None:
    played = replay(code, time_scale=0.1, random=rng())
    assert played.offset_ns.tolist() == [time // 10 for time in code.time_ns.tolist()]
    assert played.seconds == pytest.approx(3.42844391)
    per_tenth = np.bincount(played.offset_ns // (NS_PER_S // 10))
    assert per_tenth.tolist() == np.bincount(code.time_ns // NS_PER_S).tolist()


@given(
    st.lists(st.integers(0, 10**16), min_size=1, max_size=20), st.sampled_from([0.1, 0.3, 1e-6, 1 / 3, 2.5, 7.0, 60.0])
)
def test_times_are_scaled_as_fractions_not_as_floats(times: list[int], scale: float) -> None:
    exact = Fraction(repr(scale))
    got = scaled(np.array(times, np.int64), scale).tolist()
    if exact.denominator < 2**28:
        assert got == [int(time * exact) for time in times]  # of numbers that are not negative int() is the floor
    else:
        # A third has no short decimals; the nearest fraction with a denominator of ten digits is meant.
        assert got == [time // 3 for time in times]


def test_a_slice_begins_at_zero_and_ends_before_its_end(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [(t, "") for t in (0, 1, 2, 3, 4)])
    played = replay(trace, start_s=1, end_s=3, time_scale=2, random=rng())
    assert played.row.tolist() == [1, 2]
    assert played.offset_ns.tolist() == [0, 2 * NS_PER_S]
    assert (played.start_ns, played.end_ns, played.seconds) == (NS_PER_S, 3 * NS_PER_S, 4.0)


def test_a_slice_is_as_long_as_asked_even_where_its_ends_are_quiet(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [(t, "") for t in (0, 10, 20)])
    played = replay(trace, start_s=5, end_s=15, random=rng())
    assert played.offset_ns.tolist() == [5 * NS_PER_S]
    assert played.seconds == 10.0


def test_a_slice_ends_where_the_trace_does(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [(0, ""), (10, "")])
    assert replay(trace, end_s=1000, random=rng()).seconds == 11.0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"start_s": 50.0}, "begins at 50 s, but the trace covers 34.2844 s"),
        ({"start_s": 5.0, "end_s": 5.0}, "begins at 5 s and ends at 5 s: it is empty"),
        ({"start_s": 0.001, "end_s": 0.002}, "no row of the trace lies from 0.001 to 0.002 s"),
        ({"start_s": -1.0}, "the start of the slice is -1 s"),
        ({"end_s": float("nan")}, "the end of the slice is nan s"),
        ({"time_scale": 0.0}, "the time scale is 0: it must be from 1e-06"),
        ({"time_scale": float("inf")}, "the time scale is inf"),
        ({"rate_scale": -1.0}, "the rate scale is -1"),
        ({"rate_scale": float("nan")}, "the rate scale is nan"),
        ({"jitter_ns": -1}, "the jitter is -1 ns: it cannot be negative"),
    ],
)
def test_what_cannot_be_played_is_refused(code: Trace, options: dict[str, float], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        replay(code, random=rng(), **options)  # type: ignore[arg-type]


def test_thinning_keeps_each_arrival_by_its_own_lot(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [(n / 10, "") for n in range(20_000)])
    played = replay(trace, rate_scale=0.3, random=rng())
    assert len(played) == pytest.approx(6000, abs=4 * np.sqrt(20_000 * 0.3 * 0.7))
    assert played.offset_ns.tolist() == trace.time_ns[played.row].tolist()
    # Independent: neighbours are both kept with probability 0.09.
    both = int(np.count_nonzero(np.diff(played.row) == 1))
    assert both == pytest.approx(1800, abs=5 * np.sqrt(1800))
    assert played.seconds == trace.seconds


def test_thinning_keeps_or_drops_whole_conversations(steady: Trace) -> None:
    played = replay(steady, rate_scale=0.3, random=rng())
    turns = np.bincount(steady.session[played.row], minlength=2000)
    assert set(turns.tolist()) == {0, 10}
    assert np.count_nonzero(turns) == pytest.approx(600, abs=4 * np.sqrt(2000 * 0.3 * 0.7))


def of_copy(played: Replay, copy: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a copy, in the order of the trace, and their offsets."""
    chosen = np.flatnonzero(played.copy == copy)
    order = np.argsort(played.row[chosen], kind="stable")
    return played.row[chosen][order], played.offset_ns[chosen][order]


def test_copies_are_the_slice_turned_around_itself(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [(n * n % 1009 / 10, "") for n in range(2000)])
    played = replay(trace, rate_scale=2.5, random=rng())
    assert (np.diff(played.offset_ns) >= 0).all()
    rows, offsets = of_copy(played, 0)
    assert rows.tolist() == list(range(2000))
    assert offsets.tolist() == trace.time_ns.tolist()
    length = played.end_ns - played.start_ns
    shifts = []
    for copy, kept in ((1, 2000), (2, None)):
        rows, offsets = of_copy(played, copy)
        shift = set(((offsets - trace.time_ns[rows]) % length).tolist())
        assert len(shift) == 1
        shifts += shift
        assert kept is None or len(rows) == kept
        assert offsets.max() < length
    assert len(rows) == pytest.approx(1000, abs=4 * np.sqrt(500))
    assert 0 < shifts[0] != shifts[1] > 0


def test_a_copys_conversations_are_its_own_and_in_order(steady: Trace) -> None:
    played = replay(steady, rate_scale=3, random=rng())
    assert len(played) == 60_000
    names = {copy: played.session(int(np.flatnonzero(played.copy == copy)[0])) for copy in range(3)}
    assert "#" not in str(names[0])
    assert str(names[1]).endswith("#1")
    assert str(names[2]).endswith("#2")
    for copy in range(3):
        rows, offsets = of_copy(played, copy)
        by_session = np.argsort(steady.session[rows], kind="stable")
        per_session = offsets[by_session].reshape(2000, 10)
        # A shift cuts conversations in two; their turns still come one after the other.
        assert (np.diff(per_session, axis=1) > 0).all()
        assert (np.diff(steady.turn[rows][by_session].reshape(2000, 10), axis=1) == 1).all()


def test_arrivals_of_no_session_have_none_in_copies_either(code: Trace) -> None:
    played = replay(code, rate_scale=2, random=rng())
    assert {played.session(arrival) for arrival in range(len(played))} == {None}


def test_jitter_stays_inside_the_bin(bins: Trace) -> None:
    played = replay(bins, jitter_ns="resolution", random=rng())
    rows, offsets = of_copy(played, 0)
    assert rows.tolist() == list(range(60))
    moved = offsets - bins.time_ns
    assert moved.min() >= 0
    assert moved.max() < 3 * NS_PER_S
    assert len(set(moved.tolist())) == 60
    assert played.offset_ns.max() < played.seconds * NS_PER_S == 18 * NS_PER_S


def test_jitter_is_scaled_with_time(bins: Trace) -> None:
    slow = replay(bins, jitter_ns="resolution", random=rng())
    fast = replay(bins, jitter_ns="resolution", time_scale=0.1, random=rng())
    assert fast.offset_ns.tolist() == (slow.offset_ns // 10).tolist()


def test_a_slice_cuts_a_spread_bin_and_each_row_falls_where_it_fell_in_the_whole(bins: Trace) -> None:
    whole = replay(bins, jitter_ns="resolution", random=rng())
    part = replay(bins, jitter_ns="resolution", start_s=4, end_s=10, random=rng())
    inside = (whole.offset_ns >= 4 * NS_PER_S) & (whole.offset_ns < 10 * NS_PER_S)
    assert part.row.tolist() == whole.row[inside].tolist()
    assert part.offset_ns.tolist() == (whole.offset_ns[inside] - 4 * NS_PER_S).tolist()


def test_jitter_turns_no_two_turns_of_a_conversation_around(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [(3 * (n // 40), f"s{n % 4}") for n in range(400)])
    assert trace.resolution_ns == 3 * NS_PER_S
    played = replay(trace, jitter_ns="resolution", random=rng())
    rows, offsets = of_copy(played, 0)
    assert rows.tolist() == list(range(400))
    for session in range(4):
        assert (np.diff(offsets[trace.session == session]) >= 0).all()
    moved = offsets - trace.time_ns
    assert moved.min() >= 0
    assert moved.max() < 3 * NS_PER_S


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    time_scale=st.sampled_from([0.01, 0.1, 1.0, 3.0]),
    rate_scale=st.sampled_from([0.1, 0.9, 1.0, 1.2, 2.0, 3.7]),
    start_s=st.sampled_from([None, 0.0, 2.5]),
    end_s=st.sampled_from([None, 10.0, 17.0]),
    jitter=st.sampled_from([0, 1000, "resolution"]),
)
def test_every_replay_is_sorted_within_its_seconds_and_a_function_of_its_stream(
    seed: int, time_scale: float, rate_scale: float, start_s: float, end_s: float, jitter: int
) -> None:
    trace = read_trace(SAMPLES / "mooncake_conversation.jsonl", "mooncake")
    first, second = (
        replay(
            trace,
            time_scale=time_scale,
            rate_scale=rate_scale,
            start_s=start_s,
            end_s=end_s,
            jitter_ns=jitter,
            random=rng(seed),
        )
        for _ in range(2)
    )
    assert (np.diff(first.offset_ns) >= 0).all()
    if len(first):
        assert first.offset_ns[0] >= 0
        assert first.offset_ns[-1] < first.seconds * NS_PER_S
    assert first.offset_ns.tolist() == second.offset_ns.tolist()
    assert first.row.tolist() == second.row.tolist()
    assert first.copy.tolist() == second.copy.tolist()
    pairs = list(zip(first.row.tolist(), first.copy.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
