"""The dry run: what it foretells is what the plan plans and the judge judges."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from llm_locust.analysis.judgement import exit_code
from llm_locust.arrivals import PHASES, plan_stage
from llm_locust.records import Prices, Requirements, StageSpec
from llm_locust.records.run import UserChoice
from llm_locust.report import merge_run
from llm_locust.sizing import Preview, preview
from llm_locust.sizing.evidence import best_verdict, fewest, requests_to_bound, requests_to_tell
from llm_locust.sizing.stage import MOST_DRAWN
from llm_locust.sizing.tokens import SAMPLED
from llm_locust.workload import SyntheticPrompts
from tests.analysis.run_builder import RunBuilder
from tests.sizing.runs import ONE, CountingPrompts, closed_stage, look_ahead, open_stage, prompts_file


def planned_in_window(spec: StageSpec, users: list[UserChoice] = ONE) -> int:
    return int(np.count_nonzero(plan_stage(spec, users).phase == PHASES.index("measure")))


# --- time ----------------------------------------------------------------------------------------------------------


def test_a_stage_takes_warmup_and_window_at_least_and_cooldown_and_deadline_more_at_most() -> None:
    (stage,) = look_ahead(open_stage(2)).stages
    assert (stage.at_least_s, stage.at_most_s) == (70, 70 + 30 + 120)


def test_the_run_takes_the_sum_of_its_stages() -> None:
    found = look_ahead(open_stage(1), open_stage(2, warmup_s=0.0, cooldown_s=0.5), deadline_s=10.0)
    assert (found.at_least_s, found.at_most_s) == (70 + 60, 110 + 70.5)


def test_behind_a_cap_a_request_may_wait_for_a_deadline_before_it_has_its_own() -> None:
    (stage,) = look_ahead(open_stage(2), max_in_flight=4).stages
    assert (stage.drain_at_most_s, stage.at_most_s) == (240, 70 + 30 + 240)


# --- arrivals ------------------------------------------------------------------------------------------------------


def test_expected_arrivals_are_rate_times_time_and_planned_ones_are_counted() -> None:
    (stage,) = look_ahead(open_stage(0.7)).stages
    # Arrivals at 0, 1.43, 2.86, ...: the 7th (from 0) is due at 10.0 s, the 49th at 70.0 s, the 69th is the last below 100.
    assert stage.window_expected == pytest.approx(42)
    assert stage.all_expected == pytest.approx(70)
    assert (stage.window_planned, stage.all_planned) == (42, 70)


def test_planned_arrivals_are_those_of_the_runs_own_plans() -> None:
    # A shape leaves place and first index to the run, which counts both up.
    template = open_stage(3, arrivals="poisson", seed=5)
    found = look_ahead(template, template)
    first = plan_stage(template, ONE)
    second = plan_stage(msgspec.structs.replace(template, stage=1, first_index=len(first)), ONE)
    assert [stage.all_planned for stage in found.stages] == [len(first), len(second)]
    assert [stage.window_planned for stage in found.stages] == [
        planned_in_window(template),
        planned_in_window(msgspec.structs.replace(template, stage=1)),
    ]
    assert found.planned == len(first) + len(second)
    assert len(first) != len(second)


def test_the_users_have_no_part_in_how_many_arrivals_there_are() -> None:
    two = [UserChoice(name="A", weight=3), UserChoice(name="B", weight=1)]
    stage = open_stage(3, arrivals="poisson")
    options: dict[str, Any] = {"slo": {}, "deadline_s": 9.0}
    one = preview([stage], ONE, CountingPrompts(), **options)
    assert preview([stage], two, CountingPrompts(), **options) == one


def test_a_plan_too_large_to_draw_has_means_and_says_that_its_count_is_not_known(tmp_path: Path) -> None:
    rate = MOST_DRAWN  # over 100 s: a hundred times as many
    found = look_ahead(open_stage(rate), workload=prompts_file(tmp_path, ("a", 1)))
    (stage,) = found.stages
    assert (stage.window_planned, stage.all_planned, found.planned) == (None, None, None)
    assert (stage.samples, stage.all_expected) == (60 * rate, 100 * rate)
    assert stage.tokens is not None
    assert not stage.tokens.exact


def test_workers_without_an_arrival_are_counted() -> None:
    # 100 s at 0.05/s: 5 arrivals.
    assert look_ahead(open_stage(0.05), workers=8).stages[0].idle_workers == 3
    assert look_ahead(open_stage(0.05), workers=5).stages[0].idle_workers == 0
    assert look_ahead(open_stage(0.05), workers=None).stages[0].idle_workers == 0


def test_a_closed_loop_plans_nothing_and_lasts_until_it_is_stopped() -> None:
    found = look_ahead(closed_stage())
    (stage,) = found.stages
    assert (stage.at_least_s, stage.at_most_s, found.at_most_s) == (0, None, None)
    assert (stage.window_expected, stage.all_planned, stage.samples, stage.best_result) == (None, None, None, None)
    assert (found.expected, found.planned, found.tokens) == (None, None, None)
    assert [(p.at_maximum, p.signed, p.window_needed_s) for p in stage.percentiles] == [(None, None, None)] * 2
    assert [gate.name for gate in found.gates] == ["attainment", "error_rate", "oom"]


def test_a_closed_loop_with_a_window_has_an_end() -> None:
    (stage,) = look_ahead(closed_stage(window_s=60.0, warmup_s=5.0)).stages
    assert (stage.at_least_s, stage.at_most_s) == (65, 65 + 120)


def test_an_open_stage_without_a_window_is_refused() -> None:
    with pytest.raises(ValueError, match="not an open stage"):
        look_ahead(open_stage(1, window_s=None))


def test_no_stages_are_no_run() -> None:
    found = look_ahead()
    assert (found.stages, found.at_least_s, found.at_most_s, found.planned) == ([], 0, 0, 0)


# --- what can be shown ---------------------------------------------------------------------------------------------


def test_percentiles_are_told_from_20_and_100_requests_and_bounded_from_59_and_299() -> None:
    assert [requests_to_tell(percent) for percent in (95, 99)] == [20, 100]
    # The smallest n with 1 - p^n >= 0.95.
    assert [requests_to_bound(percent) for percent in (95, 99)] == [59, 299]


@pytest.mark.parametrize(
    ("window_s", "at_maximum", "signed"),
    [
        (19, [True, True], [False, False]),
        (20, [False, True], [False, False]),
        (58, [False, True], [False, False]),
        (59, [False, True], [True, False]),
        (100, [False, False], [True, False]),
        (298, [False, False], [True, False]),
        (299, [False, False], [True, True]),
    ],
)
def test_a_window_says_what_its_requests_show_of_each_percentile(
    window_s: float, at_maximum: list[bool], signed: list[bool]
) -> None:
    (stage,) = look_ahead(open_stage(1, window_s=window_s)).stages
    assert stage.samples == window_s
    assert [ahead.at_maximum for ahead in stage.percentiles] == at_maximum
    assert [ahead.signed for ahead in stage.percentiles] == signed


@pytest.mark.parametrize(
    ("rate", "windows_s"),
    [
        # The nth request is due (n - 1) / rate after the window's start, and has to be inside.
        (1, (59, 299, 381)),
        (2, (30, 150, 191)),
        (0.5, (117, 597, 761)),
        (100, (1, 3, 4)),
    ],
)
def test_the_window_that_signing_needs_is_the_shortest_of_whole_seconds(
    rate: float, windows_s: tuple[int, int, int]
) -> None:
    (stage,) = look_ahead(open_stage(rate)).stages
    assert (*(ahead.window_needed_s for ahead in stage.percentiles), stage.sign_window_needed_s) == windows_s


@pytest.mark.parametrize("seed", range(5))
def test_the_window_that_signing_needs_holds_as_many_of_that_very_seed(seed: int) -> None:
    spec = open_stage(0.7, arrivals="poisson", seed=seed)
    (stage,) = look_ahead(spec).stages
    for ahead in stage.percentiles:
        assert ahead.window_needed_s is not None
        enough = msgspec.structs.replace(spec, window_s=float(ahead.window_needed_s))
        short = msgspec.structs.replace(spec, window_s=float(ahead.window_needed_s - 1))
        assert planned_in_window(enough) >= ahead.requests_needed > planned_in_window(short)


def test_gates_are_the_judges_with_the_requests_that_a_flawless_batch_needs() -> None:
    found = look_ahead(open_stage(1))
    # Wilson, z = 1.96: n / (n + z^2) >= 0.95 from 19 z^2 = 73, z^2 / (n + z^2) <= 0.01 from 99 z^2 = 380.3.
    # In-flight at 1 has a noise of 3: below 9 arrivals a third left undone would be lost in it.
    assert [(gate.name, gate.relation, gate.limit, gate.requests_to_sign) for gate in found.gates] == [
        ("attainment", ">=", 0.95, 73),
        ("error_rate", "<=", 0.01, 381),
        ("oom", "=", 0, 1),
        ("in_flight_trend", "=", "flat", 9),
    ]
    assert found.requests_to_sign == 381
    assert all(gate.default for gate in found.gates)


def test_without_limits_there_is_no_attainment_to_sign() -> None:
    assert [gate.name for gate in look_ahead(open_stage(1), slo={}).gates] == ["error_rate", "oom", "in_flight_trend"]


@pytest.mark.parametrize(
    ("requests", "best"),
    [(8, ("undetermined", None)), (9, ("pass", "candidate")), (380, ("pass", "candidate")), (381, ("pass", "signed"))],
)
def test_the_best_verdict_is_the_one_that_a_flawless_run_really_earns(
    requests: int, best: tuple[str, str | None], tmp_path: Path
) -> None:
    (stage,) = look_ahead(open_stage(1, window_s=float(requests))).stages
    assert (stage.best_result, stage.best_strength) == best
    run = RunBuilder(tmp_path, slo={"e2e": 5000})
    run.stage(rate=1, window=requests).requests(requests, ttft=10, e2e=400)
    verdict = merge_run(run.write()).summary.stages[0].verdict
    assert (verdict.result, verdict.strength) == best


def test_an_empty_window_shows_nothing() -> None:
    (stage,) = look_ahead(open_stage(0.05, warmup_s=1.0, window_s=5.0, cooldown_s=0.0)).stages
    assert (stage.window_planned, stage.all_planned, stage.best_result) == (0, 1, "undetermined")
    (stage,) = look_ahead(open_stage(0.05, arrivals="poisson", warmup_s=0.0, window_s=0.1, cooldown_s=0.0)).stages
    assert (stage.all_planned, stage.best_result) == (0, "not_run")


def test_a_definition_that_no_number_of_requests_meets_is_an_error_and_no_endless_search() -> None:
    with pytest.raises(RuntimeError, match="not even 1000000"):
        fewest(lambda n: False)


# --- tokens and cost -----------------------------------------------------------------------------------------------


def test_tokens_are_summed_over_the_prompts_that_the_indices_of_the_plan_take(tmp_path: Path) -> None:
    workload = prompts_file(tmp_path, ("a" * 4, 10), ("b" * 8, 20), ("c" * 3, 30))
    stage = open_stage(1, warmup_s=1.0, window_s=3.0, cooldown_s=1.0)
    found = look_ahead(stage, stage, workload=workload)
    # Five arrivals each: a b c a b (27 characters), then c a b c a (22).
    tokens = [stage.tokens for stage in found.stages]
    assert [(t.output_at_most, t.input_estimated, t.exact) for t in tokens if t] == [(90, 7, True), (100, 6, True)]
    assert found.tokens is not None
    assert (found.tokens.output_at_most, found.tokens.input_estimated, found.tokens.exact) == (190, 13, True)


def test_a_workload_without_end_is_asked_for_every_prompt_of_a_run_of_usual_size() -> None:
    workload = SyntheticPrompts(seed=3, max_tokens=64)
    found = look_ahead(open_stage(2), workload=workload).tokens
    characters = sum(len(workload.prompt(index).text) for index in range(200))
    assert found is not None
    assert (found.output_at_most, found.input_estimated, found.exact) == (12_800, -(-characters // 4), True)


def test_tokens_of_a_large_plan_are_extrapolated_from_few_prompts_and_said_to_be() -> None:
    workload = CountingPrompts()
    found = look_ahead(open_stage(20_000), workload=workload)
    assert found.planned == 2_000_000
    assert found.tokens is not None
    assert (found.tokens.output_at_most, found.tokens.input_estimated) == (14_000_000, 2_000_000)
    assert not found.tokens.exact
    assert len(workload.asked) == SAMPLED
    assert 0 <= min(workload.asked) < max(workload.asked) < 2_000_000


def test_tokens_of_a_large_plan_over_a_prompts_file_are_exact(tmp_path: Path) -> None:
    workload = prompts_file(tmp_path, ("a" * 4, 10), ("b" * 8, 20), ("c" * 3, 30))
    found = look_ahead(open_stage(20_000), workload=workload).tokens
    # 2,000,000 is 666,666 times all three, then a and b.
    assert found is not None
    assert (found.output_at_most, found.exact) == (666_666 * 60 + 30, True)
    assert found.input_estimated == (666_666 * 15 + 12) // 4 + 1  # 10,000,002 characters


def test_after_a_closed_loop_nobody_knows_which_prompts_are_next() -> None:
    after = look_ahead(closed_stage(window_s=10.0), open_stage(1)).stages[1]
    assert after.tokens is not None
    assert not after.tokens.exact


def test_costs_are_time_and_tokens_times_their_prices() -> None:
    # 70 to 220 s; 200 arrivals of 7 tokens out and 1 in.
    found = look_ahead(
        open_stage(2), prices=Prices(per_hour=36.0, input_per_million=5.0, output_per_million=1000.0)
    ).cost
    assert found.machine_at_least == pytest.approx(0.7)
    assert found.machine_at_most == pytest.approx(2.2)
    assert found.input_estimated == pytest.approx(0.001)
    assert found.output_at_most == pytest.approx(1.4)


def test_what_has_no_price_or_no_known_size_has_no_cost() -> None:
    none = look_ahead(open_stage(2)).cost
    assert (none.machine_at_least, none.machine_at_most, none.input_estimated, none.output_at_most) == (None,) * 4
    closed = look_ahead(closed_stage(), prices=Prices(per_hour=1.0, output_per_million=1.0)).cost
    assert (closed.machine_at_least, closed.machine_at_most, closed.output_at_most) == (0, None, None)


# --- warnings ------------------------------------------------------------------------------------------------------


def about(found: Preview) -> list[str]:
    return [warned.about for warned in found.warnings]


def test_a_run_that_can_sign_what_it_finds_is_not_warned_of() -> None:
    assert look_ahead(open_stage(7), open_stage(8)).warnings == []


@pytest.mark.parametrize(
    ("stage", "options", "expected"),
    [
        ({"warmup_s": 4.9}, {}, ["warmup"]),
        ({"cooldown_s": 4.9}, {}, ["cooldown"]),
        ({"rate_rps": 100, "window_s": 4.9}, {}, ["window"]),
        ({"window_s": 54.0}, {}, ["requests"]),  # 7 x 54 = 378
        ({}, {"deadline_s": 4.9}, ["deadline"]),
        ({}, {"slo": {"ttft": 2000.0}, "deadline_s": 1.9}, ["deadline"]),
        ({}, {"slo": {}}, ["limits"]),
        ({}, {"workload": SyntheticPrompts(1, 8)}, ["workload"]),
        # Equal to the limit is long enough.
        ({"rate_rps": 100, "warmup_s": 5.0, "window_s": 5.0, "cooldown_s": 5.0}, {"deadline_s": 5.0}, []),
        # Without a limit of the whole request there is nothing to compare with.
        ({"warmup_s": 0.0, "cooldown_s": 0.0}, {"slo": {"ttft": 20_000.0}}, []),
    ],
)
def test_what_will_disappoint_is_warned_of(stage: dict[str, Any], options: dict[str, Any], expected: list[str]) -> None:
    assert about(look_ahead(msgspec.structs.replace(open_stage(7), **stage), **options)) == expected


def test_a_warning_names_all_its_stages_once() -> None:
    found = look_ahead(open_stage(1), open_stage(2), open_stage(7))
    (warned,) = found.warnings
    assert warned.stages == [1, 2]
    assert warned.text.startswith("too few requests in the window for a signed pass, which needs 381")


def test_a_stage_that_cannot_be_judged_is_warned_of_with_the_judges_words() -> None:
    (warned,) = look_ahead(open_stage(1, window_s=8.0)).warnings
    assert warned.text == "at best undetermined: " + best_verdict(8, 48, True, "open").sentence
    assert "8 arrivals are too few" in warned.text


def test_descending_rates_are_warned_of_and_repeated_ones_are_not() -> None:
    found = look_ahead(open_stage(7), open_stage(9), open_stage(8), open_stage(8))
    assert [(warned.about, warned.stages) for warned in found.warnings] == [("rates", [3])]


def test_a_new_round_begins_from_below() -> None:
    assert look_ahead(open_stage(7), open_stage(9), open_stage(7, round=1), open_stage(9, round=1)).warnings == []


def test_a_closed_loop_is_not_warned_of_times_it_does_not_have() -> None:
    assert look_ahead(closed_stage()).warnings == []


@pytest.mark.parametrize(
    ("stages", "required_rps", "expected"),
    [
        ([open_stage(7), open_stage(9)], 9.1, ["requirements"]),
        ([open_stage(7), open_stage(9)], 9.0, []),
        # A closed loop has no rate that it could sustain.
        ([closed_stage()], 0.1, ["requirements"]),
        ([closed_stage()], None, []),
    ],
)
def test_a_required_rate_that_no_stage_offers_is_warned_of(
    stages: list[StageSpec], required_rps: float | None, expected: list[str]
) -> None:
    found = look_ahead(*stages, requirements=Requirements(rate_rps=required_rps))
    assert about(found) == expected
    if expected:
        assert found.warnings[0].text.endswith("(--require-rate): the exit code will be 3")


def test_a_required_rate_that_no_stage_offers_really_is_exit_code_3(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"e2e": 5000}, requirements=Requirements(rate_rps=9.1))
    run.stage(rate=9).requests(540, ttft=10, e2e=400)
    assert exit_code(merge_run(run.write()).summary) == 3


def test_requirements_and_streaming_are_what_was_asked_for() -> None:
    asked = Requirements(rate_rps=2.0, every_stage=True)
    found = look_ahead(open_stage(7), requirements=asked, streaming=False)
    assert (found.requirements, found.streaming) == (asked, False)
    usual = look_ahead(open_stage(7))
    assert (usual.requirements, usual.streaming) == (Requirements(), True)


# --- its form ------------------------------------------------------------------------------------------------------


def test_it_goes_through_json_unchanged() -> None:
    found = look_ahead(open_stage(1), closed_stage(), prices=Prices(per_hour=1.0))
    assert msgspec.json.decode(msgspec.json.encode(found), type=Preview) == found


def test_it_loads_neither_locust_nor_gevent_nor_pandas() -> None:
    code = "import sys, llm_locust.sizing; print([m for m in ('locust', 'gevent', 'pandas') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
