"""The shapes that come along: which stages they make of the options, and what they say when one is missing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from llm_locust.records import StageSpec, UsageError
from llm_locust.records.summary import Result
from tests.plugin.shapes import AZURE, ROOT, SHAPES, listed, options, shape, stages


def points(found: Iterable[StageSpec]) -> list[tuple[float | int | None, int]]:
    return [(stage.rate_rps if stage.mode == "open" else stage.concurrency, stage.round) for stage in found]


# --- rate ladder ---------------------------------------------------------------------------------------------------


def test_a_rate_ladder_has_a_stage_for_each_rate() -> None:
    found = stages("rate_ladder", rates="0.5,1", stage_time="90", warmup_time="5", cooldown="7", arrivals="gamma:cv=3")
    assert [stage.rate_rps for stage in found] == [0.5, 1.0]
    for stage in found:
        assert (stage.mode, stage.arrivals) == ("open", "gamma:cv=3")
        assert (stage.warmup_s, stage.window_s, stage.cooldown_s, stage.requests) == (5, 90, 7, None)
        assert (stage.prompts_from, stage.cold_share, stage.replay) == (None, None, None)


def test_rounds_repeat_the_whole_ladder_and_not_each_stage() -> None:
    assert points(stages("rate_ladder", rates="1,2", rounds="3")) == [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2), (2, 2)]


def test_shuffled_rounds_have_an_order_of_their_own_which_the_seed_decides() -> None:
    rates = "1,2,3,4,5,6,7,8"
    found = points(stages("rate_ladder", rates=rates, rounds="3", shuffle=True, seed="5"))
    assert found == points(stages("rate_ladder", rates=rates, rounds="3", shuffle=True, seed="5"))
    assert found != points(stages("rate_ladder", rates=rates, rounds="3", shuffle=True, seed="6"))
    rounds = [[rate for rate, number in found if number == wanted] for wanted in range(3)]
    assert [number for _, number in found] == [0] * 8 + [1] * 8 + [2] * 8
    assert all(sorted(order) == [1, 2, 3, 4, 5, 6, 7, 8] for order in rounds)  # type: ignore[type-var]
    assert len({tuple(order) for order in rounds}) == 3


def test_a_number_of_requests_takes_the_place_of_the_window() -> None:
    (stage,) = stages("rate_ladder", rates="2", requests="50", warmup_time="90")  # as long a warm-up as one likes
    assert (stage.requests, stage.window_s, stage.warmup_s) == (50, None, 90)


@pytest.mark.parametrize("arrivals", ["linear-ramp:to=5", "exponential-ramp:to=5", "diurnal", "spike"])
def test_a_shaped_process_cannot_end_after_n_requests(arrivals: str) -> None:
    with pytest.raises(UsageError, match="laid over a window of set length: give --stage-time"):
        stages("rate_ladder", rates="2", requests="50", arrivals=arrivals)


def test_requests_and_time_do_not_both_end_a_stage() -> None:
    with pytest.raises(UsageError, match="--requests and --stage-time both end a stage"):
        options(requests="50", stage_time="30")
    with pytest.raises(UsageError, match="--repeats and --stage-time both end a stage"):
        options(repeats="5", stage_time="30")
    assert options(requests="50", stage_time="60").requests == 50  # the default, as the web form sends it


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"rates": "1", "rounds": "0"}, "--rounds 0: must be at least 1"),
        ({"rates": "1", "rounds": "1001"}, "--rounds 1001: at most 1000"),
        ({"rates": "1", "requests": "0"}, "--requests 0: must be at least 1"),
        ({"rates": "1", "warmup_time": "90", "stage_time": "60"}, "--warmup-time 90 s is longer than"),
        ({"rates": "1e6"}, "more than 20,000,000"),
        ({"rates": "1", "requests": "100000000"}, "more than 20,000,000"),
    ],
)
def test_what_cannot_be_run_is_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        stages("rate_ladder", **given)


# --- concurrency ladder --------------------------------------------------------------------------------------------


def test_a_concurrency_ladder_has_a_closed_loop_for_each_number() -> None:
    found = stages("concurrency_ladder", concurrency="1, 4", stage_time="30", rounds="2")
    assert points(found) == [(1, 0), (4, 0), (1, 1), (4, 1)]
    for stage in found:
        assert (stage.mode, stage.by_users, stage.rate_rps) == ("closed", False, None)
        assert (stage.window_s, stage.requests, stage.cooldown_s, stage.warmup_s) == (30, None, 0, 10)


def test_repeats_are_requests_for_each_one_in_flight() -> None:
    found = stages("concurrency_ladder", concurrency="1,4", repeats="5", warmup_time="90")
    assert [(stage.requests, stage.window_s, stage.warmup_s) for stage in found] == [(5, None, 90), (20, None, 90)]


def test_a_closed_loop_takes_no_number_of_requests_that_is_meant_for_open_stages() -> None:
    with pytest.raises(UsageError, match="a closed one takes --repeats"):
        stages("concurrency_ladder", concurrency="4", requests="20")


@pytest.mark.parametrize("text", ["0", "1.5", "many", "-1"])
def test_a_concurrency_is_a_whole_number(text: str) -> None:
    with pytest.raises(UsageError, match=r"--concurrency .*whole numbers of at least 1"):
        options(concurrency=text)


def test_a_cap_below_the_loop_is_refused_since_it_would_be_another_loop() -> None:
    assert len(listed("concurrency_ladder", concurrency="1,4", max_in_flight="4")) == 2
    with pytest.raises(UsageError, match="--max-in-flight 4 is less than the 8 requests that a closed loop"):
        listed("concurrency_ladder", concurrency="1,8", max_in_flight="4")
    assert len(listed("rate_ladder", rates="1", max_in_flight="4")) == 1


# --- capacity search -----------------------------------------------------------------------------------------------


def searched(capacity_rps: float, **given: str) -> list[StageSpec]:
    """The search against a service that sustains so much; every stage is judged after it was yielded."""
    search = shape("capacity_search")
    now: list[StageSpec] = []

    def judge() -> Result:
        assert now[-1].rate_rps is not None
        return "pass" if now[-1].rate_rps <= capacity_rps else "fail"

    search.judge = judge
    for stage in search.stages(options(**given)):
        now.append(stage)
        assert len(now) < 100
    return now


def test_a_search_ends_with_bursts_at_the_rate_that_passed() -> None:
    found = searched(3.0, rates="1,2,4", resolution="0.2", arrivals="constant", burst="on-off:on=1,off=3")
    assert [(stage.rate_rps, stage.arrivals) for stage in found] == [
        (1, "constant"),
        (2, "constant"),
        (4, "constant"),
        (2.83, "constant"),
        (3.36, "constant"),
        (2.83, "on-off:on=1,off=3"),
    ]


def test_a_rate_passes_in_every_round_and_the_first_that_fails_ends_its_rounds() -> None:
    assert points(searched(3.0, rates="1,4", resolution="2", rounds="2")) == [
        (1, 0), (1, 1), (4, 0),  # fails in its first round
        (2, 0), (2, 1),  # between
        (2, 0), (2, 1),  # bursts
    ]  # fmt: skip


def test_a_search_that_nothing_passes_has_no_bursts() -> None:
    found = searched(0.0, rates="8,16")
    assert [stage.rate_rps for stage in found] == [8, 4, 2, 1, 0.5, 0.25, 0.125]
    assert {stage.arrivals for stage in found} == {"poisson"}


def test_a_search_has_so_many_stages_at_most_and_its_bursts() -> None:
    found = searched(1e9, rates="1", max_stages="3")
    assert [(stage.rate_rps, stage.arrivals) for stage in found] == [
        (1, "poisson"),
        (2, "poisson"),
        (4, "poisson"),
        (4, "gamma:cv=3"),
    ]


def test_a_preview_of_a_search_is_its_ladder_and_the_bursts() -> None:
    assert shape("capacity_search").adaptive
    found = listed("capacity_search", rates="1,2", rounds="2")
    assert points(found) == [(1, 0), (1, 1), (2, 0), (2, 1), (2, 0), (2, 1)]
    assert [stage.arrivals for stage in found[-2:]] == ["gamma:cv=3"] * 2


@pytest.mark.parametrize("rate", ["0.1", "1", "1000"])
def test_a_preview_of_a_search_from_one_rate_does_not_double_it_for_ever(rate: str) -> None:
    assert points(listed("capacity_search", rates=rate)) == [(float(rate), 0)] * 2


# --- bursts --------------------------------------------------------------------------------------------------------


def test_a_burst_is_the_same_rate_and_the_same_requests_evenly_and_in_bursts() -> None:
    found = stages("burst", rates="2", burst="gamma:cv=4", arrivals="poisson")
    assert [(stage.rate_rps, stage.arrivals) for stage in found] == [(2, "constant"), (2, "gamma:cv=4")]
    first, second = found
    assert first.prompts_from is not None
    assert first.prompts_from == second.prompts_from


def test_every_round_of_a_burst_has_prompts_of_its_own() -> None:
    found = stages("burst", rates="2", rounds="3")
    by_round = [{stage.prompts_from for stage in found if stage.round == number} for number in range(3)]
    assert all(len(prompts) == 1 for prompts in by_round)
    assert len(set.union(*by_round)) == 3


def test_shuffled_bursts_do_not_always_come_second() -> None:
    found = stages("burst", rates="2", rounds="20", shuffle=True)
    assert {stage.arrivals for stage in found[::2]} == {"constant", "gamma:cv=3"}


def test_a_burst_process_with_a_wrong_parameter_is_named_by_its_own_option() -> None:
    with pytest.raises(UsageError, match=r"^--burst 'gamma:cv=99'"):
        options(rates="2", burst="gamma:cv=99")


# --- cold start ----------------------------------------------------------------------------------------------------


def test_a_cold_start_is_one_request_after_the_idle_time_and_then_a_warm_stage() -> None:
    first, warm = stages("cold_start", rates="1", idle="5m")
    assert (first.mode, first.concurrency, first.requests, first.warmup_s) == ("closed", 1, 1, 0)
    assert (first.idle_before_s, first.unload_before) == (300, False)
    assert first.label == "closed C=1 after 300 s idle"
    assert (warm.mode, warm.rate_rps, warm.idle_before_s, warm.unload_before) == ("open", 1, 0, False)


def test_a_cold_start_has_the_model_unloaded_where_that_is_asked_for() -> None:
    first, warm = stages("cold_start", rates="1", unload=True, requests="20")
    assert (first.unload_before, first.requests) == (True, 1)
    assert (warm.requests, warm.unload_before) == (20, False)
    assert first.label == "closed C=1 after unloading"


def test_a_share_of_cold_requests_alone_is_a_single_stage() -> None:
    (stage,) = stages("cold_start", rates="1", cold_share="0.1")
    assert (stage.mode, stage.cold_share) == ("open", 0.1)


def test_every_round_of_a_cold_start_is_cold_again() -> None:
    found = stages("cold_start", rates="1,2", rounds="2", unload=True)
    assert points(found) == [(1, 0), (1, 0), (1, 0), (2, 0), (1, 1), (1, 1), (1, 1), (2, 1)]
    assert [stage.unload_before for stage in found] == [True, False] * 4


@pytest.mark.parametrize("share", ["0", "1.1", "-0.5", "some"])
def test_a_cold_share_is_a_share(share: str) -> None:
    with pytest.raises(UsageError, match="--cold-share"):
        options(cold_share=share)


# --- replay --------------------------------------------------------------------------------------------------------


def test_a_replay_is_a_stage_as_long_as_the_trace() -> None:
    (stage,) = stages("trace_replay", trace=AZURE, time_scale="0.5", seed="4")
    assert (stage.mode, stage.arrivals, stage.seed) == ("open", "trace", 4)
    assert stage.replay is not None
    assert (stage.replay.path, stage.replay.format, stage.replay.time_scale) == (AZURE, "azure", 0.5)
    # From 18:17:03.97996 to 18:17:38.264399 (and the last digit that is written), twice as fast.
    assert stage.window_s == pytest.approx((34.284439 + 1e-7) / 2)
    assert stage.rate_rps == pytest.approx(40 / stage.window_s)


def test_a_replay_at_another_rate_says_so() -> None:
    (stage,) = stages("trace_replay", trace=AZURE, rate_scale="2.5")
    assert stage.window_s is not None
    assert stage.rate_rps == pytest.approx(100 / stage.window_s)


def test_a_slice_of_a_replay_is_as_long_as_the_slice() -> None:
    (stage,) = stages("trace_replay", trace=AZURE, trace_from="0.1", trace_to="1", warmup_time="90")
    assert stage.window_s == pytest.approx(0.9)
    assert stage.warmup_s == 90


def test_every_round_of_a_replay_is_one_more_stage() -> None:
    assert [stage.round for stage in stages("trace_replay", trace=AZURE, rounds="3")] == [0, 1, 2]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "--trace is missing"),
        ({"trace": "/nowhere.csv"}, "/nowhere.csv: No such file"),
        ({"trace": AZURE, "trace_format": "azur"}, "--trace-format 'azur': one of azure"),
        ({"trace": AZURE, "trace_format": "mooncake"}, "azure_code.csv"),
        ({"trace": AZURE, "time_scale": "0"}, "--time-scale"),
        ({"trace": AZURE, "time_scale": "1e9"}, "--time-scale 1e.09: from 1e-06 to 1e.06"),
        ({"trace": AZURE, "rate_scale": "5000"}, "--rate-scale 5000: from 1e-06 to 1000"),
        ({"trace": AZURE, "trace_from": "100"}, "begins at 100 s, but the trace covers"),
        ({"trace": AZURE, "trace_from": "2", "trace_to": "1"}, "it is empty"),
        ({"trace": AZURE, "trace_from": "2", "trace_to": "2.0001"}, "no row of the trace lies"),
        ({"trace": AZURE, "requests": "10"}, "a replay is as long as its trace"),
        ({"trace": AZURE, "time_scale": "1e-6"}, "more than 20,000,000"),  # 1.2 million a second, for 40 s around it
    ],
)
def test_a_replay_that_cannot_be_is_refused_before_load(given: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        stages("trace_replay", **given)


def test_a_trace_lends_its_prompts_to_every_shape() -> None:
    found = options(rates="1", trace=AZURE).workload
    assert (found.trace_file, found.trace_format, found.prompts_file) == (AZURE, "azure", None)


def test_a_traces_path_is_the_same_from_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log.jsonl").write_text(json.dumps({"timestamp": 0, "prompt": "a"}) + "\n")
    monkeypatch.chdir(tmp_path)
    (stage,) = stages("trace_replay", trace="log.jsonl")
    assert stage.replay is not None
    assert stage.replay.path == str(tmp_path / "log.jsonl")


# --- soak ----------------------------------------------------------------------------------------------------------


def test_a_soak_is_one_rate_for_hours() -> None:
    (stage,) = stages("soak", rates="1.5", stage_time="4h")
    assert (stage.rate_rps, stage.window_s) == (1.5, 14_400)


@pytest.mark.parametrize("given", [{}, {"rates": "1,2"}])
def test_a_soak_takes_one_rate(given: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="--rates takes the one arrival rate of a soak"):
        stages("soak", **given)


# --- all of them ---------------------------------------------------------------------------------------------------

MISSING = {
    "rate_ladder": "--rates is missing",
    "concurrency_ladder": "--concurrency is missing",
    "capacity_search": "--rates is missing",
    "burst": "--rates is missing",
    "cold_start": "--rates is missing",
    "trace_replay": "--trace is missing",
    "soak": "--rates takes",
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_missing_option_is_named_with_an_example(name: str) -> None:
    with pytest.raises(UsageError, match=rf"{MISSING[name]}.*e\.g\. --"):
        listed(name)


def test_a_cold_start_without_a_reason_is_told_of_all_three() -> None:
    with pytest.raises(UsageError, match=r"--idle.*--unload.*--cold-share"):
        stages("cold_start", rates="1")


COMPLETE: dict[str, dict[str, str | bool]] = {
    "rate_ladder": {"rates": "1,2"},
    "concurrency_ladder": {"concurrency": "1,2"},
    "capacity_search": {"rates": "1,2"},
    "burst": {"rates": "1"},
    "cold_start": {"rates": "1", "unload": True},
    "trace_replay": {"trace": AZURE},
    "soak": {"rates": "1"},
}


@pytest.mark.parametrize("name", SHAPES)
def test_asking_twice_gives_the_same_stages(name: str) -> None:
    found = listed(name, **COMPLETE[name])
    assert found
    assert found == listed(name, **COMPLETE[name])


@pytest.mark.parametrize("name", SHAPES)
def test_a_shapes_docstring_says_how_it_is_called(name: str) -> None:
    text = (ROOT / "shapes" / f"{name}.py").read_text()
    assert "--" in text.split('"""')[1]
