"""Chosen gates: what they replace, what each is held against, when one cannot be told."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_locust.analysis.judgement import conclude
from llm_locust.records.gates import parse_gates
from llm_locust.records.summary import Gate, RunSummary, StageSummary
from llm_locust.report import merge_run
from tests.analysis.run_builder import RunBuilder


def judged(run: RunBuilder, *gates: str) -> StageSummary:
    (stage,) = summary(run, *gates).stages
    return stage


def summary(run: RunBuilder, *gates: str) -> RunSummary:
    return conclude(merge_run(run.write()).summary, parse_gates(gates))


def only(stage: StageSummary, name: str) -> Gate:
    (gate,) = [gate for gate in stage.verdict.gates if gate.name == name]
    return gate


@pytest.fixture
def run(tmp_path: Path) -> RunBuilder:
    """A minute of 120 requests with a TTFT of 300 ms."""
    run = RunBuilder(tmp_path, slo={"ttft": 500})
    run.stage(rate=2).requests(120, ttft=300)
    return run


def test_chosen_gates_replace_the_defaults_but_for_what_belongs_to_any_pass(run: RunBuilder) -> None:
    stage = judged(run, "ttft_p95<=1000")
    assert [(g.name, g.default) for g in stage.verdict.gates] == [
        ("ttft_p95", False),
        ("oom", False),
        ("in_flight_trend", False),
    ]
    assert stage.verdict.result == "pass"
    assert stage.verdict.sentence == "attainment 100 %, error rate 0 %, ttft_p95 300 ms, in-flight flat, 120 measured"


def test_a_chosen_gate_takes_the_place_of_a_standing_one_of_the_same_figure(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=2)
    stage.requests(118)
    stage.requests(2, outcome="oom", status=500, first=0.1)
    found = judged(run, "oom<=2")
    assert [g.name for g in found.verdict.gates] == ["oom", "in_flight_trend"]
    assert found.verdict.result == "pass"


def test_a_percentile_gate_is_signed_by_its_order_statistics_bound(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=2)
    for k in range(100):
        stage.request(k * 0.6, ttft=100 + k)
    # Of 100 values 100..199: P95 is the 95th, 194 ms; its upper bound is the 99th, 198 ms, its lower the 91st, 190 ms.
    assert {
        limit: (gate.passed, gate.signed)
        for limit in (189, 190, 193, 194, 197, 198)
        for gate in [only(judged(run, f"ttft_p95<={limit}"), "ttft_p95")]
    } == {
        189: (False, True),
        190: (False, False),
        193: (False, False),
        194: (True, False),  # equal to the limit holds
        197: (True, False),
        198: (True, True),
    }


def test_a_percentile_of_too_few_cannot_pass_but_it_can_fail(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    run.stage(rate=0.3).requests(19, ttft=300)
    stage = judged(run, "ttft_p95<=1000")
    assert stage.verdict.result == "undetermined"
    assert stage.verdict.sentence == "ttft_p95: P95 of 19 is their maximum: too few to tell"
    assert (stage.verdict.requests_needed, stage.verdict.seconds_needed) == (59, 187)
    assert judged(run, "ttft_p95<=200").verdict.result == "fail"


def test_a_figure_that_some_request_lacks_is_undetermined_and_says_how_many(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=2)
    stage.requests(119)
    record = stage.request(1)
    record.last_output_ns = record.complete_ns = record.first_output_ns  # eleven tokens at one instant
    found = judged(run, "tpot_p95<=1000")
    assert found.verdict.result == "undetermined"
    assert found.verdict.sentence == "tpot_p95: tpot is missing for 1 requests"


def test_failures_as_infinity_fail_a_gate_that_ok_requests_alone_would_pass(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=2)
    stage.requests(90, ttft=300)
    stage.requests(10, outcome="timeout", first=0.1)
    assert judged(run, "ttft_p95<=1000").verdict.result == "pass"
    found = judged(run, "ttft_p95_all<=1000")
    assert found.verdict.result == "fail"
    assert [(d.name, d.detail) for d in found.verdict.failing_dimensions] == [("ttft_p95_all", "inf ms, over 1000 ms")]


def test_what_the_server_did_not_tell_is_undetermined_never_a_pass(run: RunBuilder) -> None:
    stage = judged(run, "queue_p95<=300", "waiting_trend=flat")
    assert stage.verdict.result == "undetermined"
    assert stage.verdict.sentence == (
        "queue_p95: the server's queue was not read; waiting_trend: the server's queue was not read"
    )


def test_statuses_and_outcomes_are_counted_apart(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=2)
    stage.requests(117)
    stage.requests(2, outcome="rejected", status=503, first=0.1)
    stage.request(3, outcome="rejected", status=429)
    assert judged(run, "http_503<=2", "http_429=1", "rejected<=3", "timeout=0").verdict.result == "pass"
    found = judged(run, "http_503=0", "reject_rate<=0.025")
    assert found.reject_rate == 0.025
    assert [(d.name, d.detail) for d in found.verdict.failing_dimensions] == [("http_503", "2 of 120, not 0")]
    assert found.verdict.strength == "signed"


def test_goodput_is_gated_per_second_and_signed_by_wilson(run: RunBuilder) -> None:
    # 120 of 120 good in 60 s: 2 a second; Wilson from 0.96898, which is 1.938 a second.
    assert (
        only(judged(run, "goodput>=1.93"), "goodput").passed,
        only(judged(run, "goodput>=1.93"), "goodput").signed,
    ) == (
        True,
        True,
    )
    assert only(judged(run, "goodput>=1.94"), "goodput").signed is False
    found = judged(run, "goodput>=2.1")
    assert [(d.name, d.detail) for d in found.verdict.failing_dimensions] == [("goodput", "2 req/s, under 2.1 req/s")]


def test_stalls_and_deadlines_can_be_gated(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 100, "tpot": 50, "max_gap": 200})
    stage = run.stage(rate=2)
    fields = {"ttft": 100, "tokens": 3, "output_events": 3}
    stage.requests(90, e2e=200, gaps_us=[50_000, 50_000], max_gap_ns=50_000_000, **fields)
    stage.requests(30, e2e=450, gaps_us=[50_000, 300_000], max_gap_ns=300_000_000, first=0.1, **fields)
    found = judged(run, "stall_share<=0.125", "deadline_miss_share<=0.2")
    assert found.stalls is not None
    assert (found.stalls.gaps, found.stalls.stalled, found.stalls.share) == (240, 30, 0.125)
    assert found.deadlines is not None
    # 90 replies of three deadlines met; in 30 the first two are met and the silence of 300 ms misses six.
    assert (found.deadlines.deadlines, found.deadlines.missed) == (90 * 3 + 30 * 8, 180)
    assert only(found, "stall_share").passed is True
    assert only(found, "deadline_miss_share").passed is False


def test_a_closed_loop_has_no_waits_from_planned_times(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    run.stage(concurrency=2).requests(100)
    found = judged(run, "client_wait_p95<=10")
    assert found.verdict.sentence == "client_wait_p95: a closed loop plans no arrivals"


def test_gates_set_afterwards_are_said_to_be(run: RunBuilder) -> None:
    before = merge_run(run.write()).summary
    after = conclude(before, parse_gates(["ttft_p95<=1000"]), "after")
    assert (after.gates, after.gates_set) == (["ttft_p95<=1000"], "after")
    assert "The gates were set after the run: such a judgement never earns a release." in after.limitations
    assert not any("defaults" in said for said in after.limitations)
    assert any("defaults" in said for said in before.limitations)


def test_a_sustained_rate_is_named_with_what_was_gated(run: RunBuilder) -> None:
    assert summary(run, "ttft_p95<=1000").verdict == (
        "Sustained 2 req/s (signed): attainment 100 %, error rate 0 %, ttft_p95 300 ms, in-flight flat, 120 measured; "
        "no tested rate failed."
    )
