"""When a stage says nothing about the server because the generator did not do its part."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_locust.records.generator_bounds import lag_bound_ms, too_many_late
from llm_locust.records.summary import GeneratorHealth, StageSummary
from llm_locust.report import merge_run
from tests.analysis.run_builder import RunBuilder, StageBuilder


def health(run: RunBuilder) -> GeneratorHealth:
    return stage_of(run).generator


def stage_of(run: RunBuilder) -> StageSummary:
    return merge_run(run.write()).summary.stages[0]


@pytest.fixture
def run(tmp_path: Path) -> RunBuilder:
    return RunBuilder(tmp_path, slo={"ttft": 1000})


@pytest.fixture
def stage(run: RunBuilder) -> StageBuilder:
    return run.stage(rate=10, window=20)


def test_the_bound_is_5_ms_or_1_percent_of_the_smallest_limit() -> None:
    assert lag_bound_ms({}) == 5.0
    assert lag_bound_ms({"ttft": 100.0, "e2e": 30_000.0}) == 5.0
    assert lag_bound_ms({"ttft": 1000.0, "e2e": 30_000.0}) == 10.0
    assert lag_bound_ms({"ttft": 1000.0, "tpot": 50.0, "max_gap": 200.0}) == 10.0  # tokens do not know when it was sent


def test_a_generator_on_time_is_valid(run: RunBuilder, stage: StageBuilder) -> None:
    stage.requests(200, lag=9.9)
    found = health(run)
    assert found.valid
    assert found.reasons == []
    assert found.dispatched_share == 1.0
    assert found.dispatch_lag_p99_ms == 9.9
    assert found.clock_uncertainty_ms == 0.1


def test_two_late_of_200_are_within_p99_and_three_are_not(run: RunBuilder, stage: StageBuilder) -> None:
    stage.requests(198)
    stage.requests(2, lag=50, first=0.01)
    assert health(run).valid
    stage.request(5, lag=50)
    found = health(run)
    assert found.late_dispatch == "dispatch was late: 3 of 201 arrivals by more than 10 ms (lag P99 50.0 ms)"
    assert found.reasons == [found.late_dispatch]
    verdict = stage_of(run).verdict
    assert verdict.result == "invalid"
    assert verdict.strength is None
    assert verdict.sentence.startswith("generator-limited: dispatch was late")


@pytest.mark.parametrize(
    ("late", "dispatched", "void"), [(1, 73, False), (2, 73, True), (2, 229, False), (3, 229, True)]
)
def test_more_than_one_percent_and_more_than_one_void_a_stage(late: int, dispatched: int, void: bool) -> None:
    assert too_many_late(late, dispatched) is void


def test_one_late_of_73_is_counted_and_voids_nothing(run: RunBuilder, stage: StageBuilder) -> None:
    stage.requests(72)
    stage.request(5, lag=25)
    reported = merge_run(run.write())
    found = reported.summary.stages[0].generator
    assert (found.valid, found.late, found.dispatched, found.dispatch_lag_p99_ms) == (True, 1, 73, 25.0)
    assert found.notes == ["1 of 73 arrivals were dispatched more than 10 ms late"]
    report = reported.report.read_text(encoding="utf-8")
    assert "dispatch lag P99 25 ms; 1 of 73 late by more than 10 ms (allowed: 1 %, and one at least)" in report


def test_a_lag_equal_to_the_bound_is_within_it(run: RunBuilder, stage: StageBuilder) -> None:
    stage.requests(200, lag=10)
    assert health(run).dispatch_lag_p99_ms == 10.0
    assert health(run).valid


def test_waiting_under_a_cap_is_a_result_and_not_a_fault(run: RunBuilder, stage: StageBuilder) -> None:
    stage.requests(200, cap_wait=5000)
    assert health(run).valid


@pytest.mark.parametrize(("withheld", "valid"), [(2, True), (3, False)])
def test_dispatched_must_be_within_1_percent_of_planned(
    run: RunBuilder, stage: StageBuilder, withheld: int, valid: bool
) -> None:
    stage.requests(200 - withheld)
    stage.requests(withheld, outcome="not_sent", dispatched_ns=None)
    found = health(run)
    assert found.dispatched_share == (200 - withheld) / 200
    assert found.valid is valid


def test_nothing_dispatched_is_invalid_and_says_so(run: RunBuilder, stage: StageBuilder) -> None:
    stage.requests(20, outcome="not_sent", dispatched_ns=None)
    found = health(run)
    assert found.reasons == ["nothing was dispatched in the window"]
    assert found.dispatch_lag_p99_ms is None


@pytest.mark.parametrize(("shared", "valid"), [(1, True), (2, False)])
def test_first_outputs_in_a_shared_read_must_stay_under_1_percent(
    run: RunBuilder, stage: StageBuilder, shared: int, valid: bool
) -> None:
    stage.requests(200 - shared)
    stage.requests(shared, first_coalesced=True)
    assert health(run).valid is valid


@pytest.mark.parametrize(("late", "valid"), [(1, True), (2, False)])
def test_of_few_requests_one_late_or_shared_is_noted_and_two_void_the_stage(
    run: RunBuilder, stage: StageBuilder, late: int, valid: bool
) -> None:
    stage.requests(20 - late)
    stage.requests(late, lag=50, first_coalesced=True, first=0.01)
    found = health(run)
    assert found.valid is valid
    assert len(found.notes if valid else found.reasons) == 2
    assert (found.late_dispatch is None) is valid


def test_what_became_of_lost_arrivals_is_not_held_against_their_dispatch(run: RunBuilder, stage: StageBuilder) -> None:
    stage.requests(10)
    stage.requests(10, recorded=False, first=0.05)
    reasons = health(run).reasons
    assert not any("dispatched" in reason for reason in reasons)
    assert any("10 arrivals were lost" in reason for reason in reasons)


def test_a_generator_error_voids_the_stage_even_in_the_warm_up(run: RunBuilder, stage: StageBuilder) -> None:
    stage.requests(100)
    stage.request(-1, outcome="generator_error", phase="warmup")
    found = health(run)
    assert found.generator_errors == 1
    assert found.reasons == ["1 requests failed by the generator's own error"]


def test_a_lost_worker_voids_the_stage(run: RunBuilder, stage: StageBuilder) -> None:
    stage.requests(100)
    stage.manifest.workers[0].lost = True
    stage.manifest.workers[0].lost_reason = "missed 3 heartbeats"
    found = health(run)
    assert found.lost_workers == [0]
    assert found.reasons == ["worker 0 was lost: missed 3 heartbeats"]


def test_a_clock_that_was_never_measured_voids_the_stage(run: RunBuilder, stage: StageBuilder) -> None:
    stage.requests(100)
    stage.manifest.workers[0].clock_start = stage.manifest.workers[0].clock_end = None
    found = health(run)
    assert found.clock_uncertainty_ms is None
    assert found.reasons == ["the clock of worker 0 was never measured against the master's"]


def test_an_uncertain_clock_voids_the_stage(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=10, window=10)
    stage.requests(100)
    start = stage.manifest.workers[0].clock_start
    assert start is not None
    stage.manifest.workers[0].clock_start = type(start)(at_ns=start.at_ns, offset_ns=0, uncertainty_ns=6_000_000)
    assert health(run).reasons == ["the workers' clocks are known to 6.0 ms only, over 5 ms"]


def test_a_step_of_the_wall_clock_is_reported_and_not_punished(run: RunBuilder, stage: StageBuilder) -> None:
    stage.requests(100)
    stage.manifest.workers[0].wall_step_ns = -2_000_000_000
    found = health(run)
    assert found.valid
    assert found.notes == ["the wall clock of worker 0 stepped by -2000.0 ms; the records are not affected"]


def test_a_closed_loop_has_no_lag_to_judge(run: RunBuilder) -> None:
    run.stage(concurrency=4, window=20).requests(50)
    found = health(run)
    assert found.valid
    assert found.dispatch_lag_p99_ms is None
    assert found.not_applicable == ["dispatched against planned", "dispatch lag"]
