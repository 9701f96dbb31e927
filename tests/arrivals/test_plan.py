"""The plan of a stage: phases, users, prompts and digest are a function of its specification (and its trace) alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from llm_locust.arrivals import PHASES, StagePlan, parse_process, plan_of, plan_stage
from llm_locust.records import NS_PER_S, StageSpec
from llm_locust.records.run import UserChoice
from llm_locust.records.stage import TraceReplay

ONE = [UserChoice(name="ChatUser", weight=1)]
TWO = [UserChoice(name="A", weight=3), UserChoice(name="B", weight=1)]


def spec(**changes: object) -> StageSpec:
    values: dict[str, object] = {
        "stage": 0,
        "rate_rps": 1.0,
        "arrivals": "constant",
        "warmup_s": 2.0,
        "window_s": 3.0,
        "cooldown_s": 2.0,
        "seed": 1,
        "first_index": 0,
    }
    return StageSpec(**{**values, **changes})  # type: ignore[arg-type]


def test_an_arrival_on_a_boundary_belongs_to_the_later_phase() -> None:
    plan = plan_stage(spec(), ONE)
    assert plan.offset_ns.tolist() == [n * 1_000_000_000 for n in range(7)]
    assert [PHASES[p] for p in plan.phase] == ["warmup"] * 2 + ["measure"] * 3 + ["cooldown"] * 2


def test_the_plan_of_a_seed_is_always_the_same() -> None:
    one, other = plan_stage(spec(arrivals="poisson"), TWO), plan_stage(spec(arrivals="poisson"), TWO)
    assert one.sha256 == other.sha256
    assert one.offset_ns.tolist() == other.offset_ns.tolist()


@pytest.mark.parametrize("change", [{"seed": 2}, {"stage": 1}, {"round": 1}, {"rate_rps": 1.1}, {"first_index": 9}])
def test_every_part_of_the_specification_changes_the_digest(change: dict[str, object]) -> None:
    base = spec(arrivals="poisson")
    assert plan_stage(base, ONE).sha256 != plan_stage(spec(arrivals="poisson", **change), ONE).sha256


def test_stages_and_rounds_of_one_seed_have_arrivals_of_their_own() -> None:
    plans = [
        plan_stage(spec(arrivals="poisson", stage=stage, round=number), ONE).offset_ns.tolist()
        for stage in range(2)
        for number in range(2)
    ]
    assert len({tuple(plan) for plan in plans}) == 4


@pytest.mark.parametrize("workers", [1, 2, 4, 8])
def test_the_workers_shares_add_up_to_the_plan_for_any_number_of_them(workers: int) -> None:
    plan = plan_stage(spec(arrivals="poisson", rate_rps=40.0), ONE)
    shares = [plan.share(rank, workers) for rank in range(workers)]
    assert shares[0].tolist() == list(range(0, len(plan), workers))  # they take turns
    assert sorted(np.concatenate(shares).tolist()) == list(range(len(plan)))


def test_user_classes_take_their_weights_share_of_the_arrivals() -> None:
    plan = plan_stage(spec(arrivals="poisson", rate_rps=1000.0, window_s=40.0), TWO)
    n = len(plan)
    share_of_b = np.count_nonzero(plan.user == 1) / n
    assert share_of_b == pytest.approx(0.25, abs=4 * np.sqrt(0.25 * 0.75 / n))


def test_the_choice_of_user_does_not_move_the_arrivals() -> None:
    assert np.array_equal(
        plan_stage(spec(arrivals="poisson"), ONE).offset_ns, plan_stage(spec(arrivals="poisson"), TWO).offset_ns
    )


def test_a_closed_stage_has_no_plan() -> None:
    with pytest.raises(ValueError, match="not an open stage"):
        plan_stage(spec(mode="closed", rate_rps=None, concurrency=4), ONE)


# --- N requests ----------------------------------------------------------------------------------------------------

STATIONARY = ["poisson", "constant", "gamma:cv=3", "on-off:on=1,off=2"]
SHAPED = ["linear-ramp:to=20", "exponential-ramp:to=20", "diurnal:period=5", "spike:width=1,share=0.8"]


def counted(requests: int, **changes: object) -> StagePlan:
    return plan_stage(spec(**{"window_s": None, "requests": requests, "rate_rps": 10.0, **changes}), ONE)


def phase_counts(plan: StagePlan) -> list[int]:
    return np.bincount(plan.phase, minlength=3).tolist()


@pytest.mark.parametrize("arrivals", STATIONARY)
@pytest.mark.parametrize("requests", [1, 7, 200])
def test_a_stage_of_n_requests_measures_exactly_n_and_ends_with_the_last_of_them(arrivals: str, requests: int) -> None:
    for seed in range(5):
        plan = counted(requests, arrivals=arrivals, seed=seed)
        assert phase_counts(plan)[1] == requests
        measured = plan.offset_ns[plan.phase == 1]
        assert plan.window_ns == measured[-1] - 2 * NS_PER_S
        assert (plan.offset_ns[plan.phase == 0] < 2 * NS_PER_S).all()
        assert (measured >= 2 * NS_PER_S).all()
        after = plan.offset_ns[plan.phase == 2]
        assert (after < measured[-1] + 2 * NS_PER_S).all()
        assert (np.diff(plan.offset_ns) >= 0).all()


def test_n_constant_requests_are_where_a_clock_would_put_them() -> None:
    plan = counted(3, arrivals="constant", rate_rps=1.0)
    assert plan.offset_ns.tolist() == [n * NS_PER_S for n in range(6)]  # the cool-down is half open: 6 s is not in it
    assert [PHASES[p] for p in plan.phase] == ["warmup"] * 2 + ["measure"] * 3 + ["cooldown"]
    assert plan.window_ns == 2 * NS_PER_S


@pytest.mark.parametrize("arrivals", STATIONARY)
def test_n_requests_are_the_first_of_the_stage_with_a_window_of_that_seed(arrivals: str) -> None:
    for seed in range(3):
        plan = counted(50, arrivals=arrivals, seed=seed)
        by_time = plan_stage(spec(rate_rps=10.0, window_s=100.0, arrivals=arrivals, seed=seed), ONE)
        assert plan.offset_ns.tolist() == by_time.offset_ns[: len(plan)].tolist()


@pytest.mark.parametrize("arrivals", STATIONARY)
def test_a_longer_cooldown_only_adds_arrivals_at_the_end(arrivals: str) -> None:
    short, long = (counted(50, arrivals=arrivals, cooldown_s=seconds) for seconds in (0.0, 60.0))
    assert phase_counts(short)[2] == 0
    assert len(long) > len(short)
    assert long.offset_ns[: len(short)].tolist() == short.offset_ns.tolist()
    assert long.phase[: len(short)].tolist() == short.phase.tolist()
    assert long.window_ns == short.window_ns


@pytest.mark.parametrize("arrivals", SHAPED)
def test_a_shape_has_no_nth_arrival_to_end_with(arrivals: str) -> None:
    with pytest.raises(ValueError, match="window of set length"):
        counted(10, arrivals=arrivals)


def test_a_stage_has_a_window_or_a_number_of_requests() -> None:
    with pytest.raises(ValueError, match="neither a window nor a number"):
        plan_stage(spec(window_s=None), ONE)


# --- shapes lie over the window ------------------------------------------------------------------------------------


@pytest.mark.parametrize("arrivals", SHAPED)
def test_a_shape_is_laid_over_the_window_alone(arrivals: str) -> None:
    plan = plan_stage(spec(arrivals=arrivals, rate_rps=10.0, warmup_s=5.0, window_s=20.0, cooldown_s=5.0), ONE)
    bare = plan_stage(spec(arrivals=arrivals, rate_rps=10.0, warmup_s=0.0, window_s=20.0, cooldown_s=0.0), ONE)
    assert (plan.offset_ns[plan.phase == 1] - 5 * NS_PER_S).tolist() == bare.offset_ns.tolist()
    assert plan.window_ns == 20 * NS_PER_S
    assert (plan.offset_ns[plan.phase == 0] < 5 * NS_PER_S).all()
    assert (plan.offset_ns[plan.phase == 2] >= 25 * NS_PER_S).all()
    assert (plan.offset_ns[plan.phase == 2] < 30 * NS_PER_S).all()


@pytest.mark.parametrize(
    ("arrivals", "first_rps", "last_rps"),
    [
        ("linear-ramp:to=4", 10.0, 4.0),
        ("exponential-ramp:to=40", 10.0, 40.0),
        ("diurnal:period=20,swing=0.5", 5.0, 5.0),  # one whole day, from trough to trough: (1 - 0.5) x 10
        ("spike:at=0.5,width=1,share=0.5", 100 / 19, 100 / 19),  # half of 200 arrivals in the 19 s around the spike
    ],
)
def test_warmup_and_cooldown_go_at_the_rates_with_which_the_shape_begins_and_ends(
    arrivals: str, first_rps: float, last_rps: float
) -> None:
    assert parse_process(arrivals).edge_rates(10.0, 20.0) == pytest.approx((first_rps, last_rps), rel=1e-4)
    plan = plan_stage(spec(arrivals=arrivals, rate_rps=10.0, warmup_s=400.0, window_s=20.0, cooldown_s=400.0), ONE)
    before, _, after = phase_counts(plan)
    for count, rate_rps in ((before, first_rps), (after, last_rps)):
        expected = 400 * rate_rps
        assert count == pytest.approx(expected, abs=4 * np.sqrt(expected))  # Poisson: four standard deviations
    gaps = np.diff(plan.offset_ns[plan.phase == 0])
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.15)


def test_a_ramp_down_to_nothing_has_no_cooldown() -> None:
    plan = plan_stage(spec(arrivals="linear-ramp:to=0", rate_rps=10.0, window_s=20.0, cooldown_s=30.0), ONE)
    assert phase_counts(plan)[2] == 0


def test_the_edges_do_not_move_what_is_measured() -> None:
    plans = [
        plan_stage(spec(arrivals="spike", rate_rps=10.0, warmup_s=warmup_s, cooldown_s=cooldown_s), ONE)
        for warmup_s, cooldown_s in ((0.0, 0.0), (2.0, 7.0))
    ]
    bare, whole = (plan.offset_ns[plan.phase == 1] for plan in plans)
    assert (whole - 2 * NS_PER_S).tolist() == bare.tolist()


# --- replays -------------------------------------------------------------------------------------------------------

SAMPLES = Path(__file__).parent / "traces" / "samples"
AZURE = SAMPLES / "azure_code.csv"


def replay_spec(file: Path = AZURE, *, format_name: str = "azure", **changes: object) -> StageSpec:
    kept = {name: changes.pop(name) for name in list(changes) if name in TraceReplay.__struct_fields__}
    asked = TraceReplay(
        path=str(file),
        format=format_name,
        sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
        **kept,  # type: ignore[arg-type]
    )
    return spec(**{"arrivals": "trace", "rate_rps": 2.0, "window_s": None, "replay": asked, **changes})


def azure_offsets() -> list[int]:
    """The file's own times, read here by hand: 2023-11-16 18:17:03.9799600, ..."""
    offsets = []
    for line in AZURE.read_text().splitlines()[1:]:
        hours, minutes, seconds = line.split(",")[0].split(" ")[1].split(":")
        whole, _, fraction = seconds.partition(".")
        offsets.append((int(hours) * 3600 + int(minutes) * 60 + int(whole)) * NS_PER_S + int(fraction.ljust(9, "0")))
    return [at - offsets[0] for at in offsets]


def test_a_replays_arrivals_stand_in_the_window_exactly_as_in_the_trace() -> None:
    plan = plan_of(replay_spec(), ONE)
    measured = plan.offset_ns[plan.phase == 1] - 2 * NS_PER_S
    assert measured.tolist() == azure_offsets()
    assert len(measured) == 40
    assert plan.window_ns == azure_offsets()[-1] + 100  # the last row was somewhere in its ten-millionth of a second


def test_a_replay_ten_times_as_fast_has_a_tenth_of_every_offset() -> None:
    plan = plan_of(replay_spec(time_scale=0.1), ONE)
    measured = plan.offset_ns[plan.phase == 1] - 2 * NS_PER_S
    assert measured.tolist() == [at // 10 for at in azure_offsets()]
    assert plan.window_ns == (azure_offsets()[-1] + 100) // 10


def test_a_slice_of_a_trace_is_all_that_is_measured() -> None:
    plan = plan_of(replay_spec(start_s=0.1, end_s=1.0), ONE)
    wanted = [at - NS_PER_S // 10 for at in azure_offsets() if NS_PER_S // 10 <= at < NS_PER_S]
    assert (plan.offset_ns[plan.phase == 1] - 2 * NS_PER_S).tolist() == wanted
    assert plan.window_ns == NS_PER_S * 9 // 10


def test_around_a_replay_arrivals_are_poisson_at_its_mean_rate() -> None:
    plan = plan_of(replay_spec(warmup_s=1000.0, cooldown_s=1000.0), ONE)
    before, measured, after = phase_counts(plan)
    assert measured == 40
    for count in (before, after):
        assert count == pytest.approx(2000, abs=4 * np.sqrt(2000))


def test_a_trace_needs_its_replay_and_nothing_else_has_one() -> None:
    with pytest.raises(ValueError, match="a trace needs its replay"):
        plan_stage(replay_spec(), ONE)


# --- prompts -------------------------------------------------------------------------------------------------------


def test_every_arrival_has_a_prompt_of_its_own_by_its_index() -> None:
    plan = plan_stage(spec(arrivals="poisson", rate_rps=10.0, first_index=500), ONE)
    assert plan.prompt.tolist() == list(range(500, 500 + len(plan)))


def test_a_replay_sends_its_rows_prompts_and_no_others_are_sent_around_it() -> None:
    plan = plan_of(replay_spec(warmup_s=20.0, cooldown_s=20.0), ONE)
    measured, around = plan.prompt[plan.phase == 1], plan.prompt[plan.phase != 1]
    assert measured.tolist() == list(range(40))  # the trace is sorted: row by row
    assert len(set(around.tolist())) == len(around) > 40
    assert (around // 40 > 1000).all()  # no replay has so many copies
    assert len(set((around % 40).tolist())) > 10  # rows by chance, so that lengths are like the trace's


def test_a_denser_replay_takes_other_copies_of_the_rows() -> None:
    plan = plan_of(replay_spec(rate_scale=3.0, warmup_s=0.0, cooldown_s=0.0), ONE)
    assert len(plan) == 120
    assert sorted(plan.prompt.tolist()) == list(range(120))  # row + copy x 40


def test_two_processes_with_the_same_first_prompt_share_the_measured_prompts_and_no_others() -> None:
    even = plan_stage(spec(rate_rps=10.0, prompts_from=10**9, first_index=0), ONE)
    bursty = plan_stage(
        spec(rate_rps=10.0, arrivals="gamma:cv=3", prompts_from=10**9, first_index=len(even), stage=1), ONE
    )
    for plan in (even, bursty):
        count = phase_counts(plan)[1]
        assert plan.prompt[plan.phase == 1].tolist() == list(range(10**9, 10**9 + count))
        assert plan.prompt[plan.phase != 1].tolist() == [
            plan.spec.first_index + place for place in np.flatnonzero(plan.phase != 1)
        ]
    others = [set(plan.prompt[plan.phase != 1].tolist()) for plan in (even, bursty)]
    assert not others[0] & others[1]


# --- conversations -------------------------------------------------------------------------------------------------


def conversations(folder: Path, sessions: int = 12, turns: int = 3) -> Path:
    """A log of conversations whose turns are mixed, and a lone request after each round of them."""
    lines = []
    for turn in range(turns):
        for session in range(sessions):
            at = turn * 10 + session * 0.5
            lines.append({"timestamp": at, "prompt": f"{session}/{turn}", "session": f"s{session}"})
        lines.append({"timestamp": turn * 10 + 9.0, "prompt": f"alone {turn}"})
    path = folder / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return path


@pytest.mark.parametrize("workers", [1, 2, 4, 8])
@pytest.mark.parametrize("rate_scale", [1.0, 2.0])
def test_a_conversation_goes_to_one_worker_whole_and_all_shares_make_the_plan(
    tmp_path: Path, workers: int, rate_scale: float
) -> None:
    log = conversations(tmp_path)
    plan = plan_of(replay_spec(log, format_name="jsonl", rate_scale=rate_scale, time_scale=0.5), ONE)
    shares = [plan.share(rank, workers).tolist() for rank in range(workers)]
    assert sorted(place for share in shares for place in share) == list(range(len(plan)))
    assert all(share == sorted(share) for share in shares)
    assert plan.affinity is not None
    taken_by = {place: rank for rank, share in enumerate(shares) for place in share}
    by_conversation: dict[int, set[int]] = {}
    for place, number in enumerate(plan.affinity.tolist()):
        if number >= 0:
            by_conversation.setdefault(number, set()).add(taken_by[place])
    assert len(by_conversation) == 12 * rate_scale  # a copy of a conversation is another conversation
    assert all(len(ranks) == 1 for ranks in by_conversation.values())
    assert set(taken_by.values()) == set(range(workers))
    alone = [place for place in range(len(plan)) if plan.affinity[place] < 0]
    assert [taken_by[place] for place in alone] == [place % workers for place in alone]


def test_a_trace_without_conversations_has_none() -> None:
    assert plan_of(replay_spec(), ONE).affinity is None


# --- cold arrivals -------------------------------------------------------------------------------------------------


def test_a_share_of_the_arrivals_is_to_be_cold_and_the_others_stay_what_they_were() -> None:
    plain = plan_stage(spec(arrivals="poisson", rate_rps=1000.0, window_s=10.0), ONE)
    plan = plan_stage(spec(arrivals="poisson", rate_rps=1000.0, window_s=10.0, cold_share=0.1), ONE)
    assert plain.cold is None
    assert plan.cold is not None
    n = len(plan)
    assert np.count_nonzero(plan.cold) == pytest.approx(0.1 * n, abs=4 * np.sqrt(0.09 * n))
    assert plan.offset_ns.tolist() == plain.offset_ns.tolist()
    again = plan_stage(plan.spec, ONE)
    assert again.cold is not None
    assert again.cold.tolist() == plan.cold.tolist()


def test_a_share_of_one_makes_every_arrival_cold() -> None:
    plan = plan_stage(spec(cold_share=1.0), ONE)
    assert plan.cold is not None
    assert plan.cold.all()


# --- the digest ----------------------------------------------------------------------------------------------------


def moved(values: np.ndarray) -> np.ndarray:
    other = values.copy()
    other[-1] = not other[-1] if other.dtype == np.bool_ else other[-1] + 1
    return other


CHANGES: dict[str, Callable[[StagePlan], StagePlan]] = {
    "time": lambda plan: replace(plan, offset_ns=moved(plan.offset_ns)),
    "phase": lambda plan: replace(plan, phase=moved(plan.phase)),
    "user": lambda plan: replace(plan, user=moved(plan.user)),
    "prompt": lambda plan: replace(plan, prompt=moved(plan.prompt)),
    "affinity": lambda plan: replace(plan, affinity=moved(plan.affinity) if plan.affinity is not None else None),
    "cold": lambda plan: replace(plan, cold=moved(plan.cold) if plan.cold is not None else None),
}


@pytest.mark.parametrize("what", CHANGES)
def test_the_digest_covers_everything_that_a_worker_does(tmp_path: Path, what: str) -> None:
    log = conversations(tmp_path)
    plan = plan_of(replay_spec(log, format_name="jsonl", cold_share=0.5), ONE)
    assert CHANGES[what](plan).sha256 != plan.sha256


def test_the_digest_of_a_replay_is_the_same_when_it_is_planned_again(tmp_path: Path) -> None:
    log = conversations(tmp_path)
    asked = replay_spec(log, format_name="jsonl", rate_scale=1.5, jitter=True)
    one, other = plan_of(asked, TWO), plan_of(asked, TWO)
    assert one.sha256 == other.sha256
    assert one.offset_ns.tolist() == other.offset_ns.tolist()
    third = plan_of(msgspec.structs.replace(asked, round=1), TWO)
    assert third.offset_ns.tolist() != one.offset_ns.tolist()  # thinning and jitter of a round of its own
