"""Each kind of stage and run gets its verdict in words, and the exit status that goes with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_locust.analysis.judgement import exit_code
from llm_locust.records import NS_PER_S, WorkloadFacts
from llm_locust.records.summary import RunSummary
from llm_locust.report import merge_run
from tests.analysis.run_builder import RunBuilder, StageBuilder


def judged(run: RunBuilder) -> RunSummary:
    return merge_run(run.write()).summary


def add(run: RunBuilder, rate: float, *, good: int, slow: int = 0, failed: int = 0, **stage: object) -> StageBuilder:
    """A stage of a minute whose arrivals are spread evenly: its number in flight is flat."""
    found = run.stage(rate=rate, **stage)  # type: ignore[arg-type]
    found.requests(good, ttft=300)
    found.requests(slow, ttft=700, first=0.01)
    found.requests(failed, outcome="rejected", status=429, first=0.02)
    return found


@pytest.fixture
def run(tmp_path: Path) -> RunBuilder:
    return RunBuilder(tmp_path, slo={"ttft": 500})


def test_a_ladder_names_the_sustained_rate_and_what_the_first_failing_one_failed_on(run: RunBuilder) -> None:
    add(run, 2, good=117, slow=3)
    add(run, 6, good=59, slow=31)
    summary = judged(run)
    assert summary.verdict == (
        "Sustained 2 req/s (candidate): attainment 97.5 %; first failing rate 6 req/s, on ttft (31 of 90 over 500 ms)."
    )
    assert (summary.sustained_rate_rps, summary.first_failing_rate_rps) == (2.0, 6.0)
    assert [stage.verdict.result for stage in summary.stages] == ["pass", "fail"]
    assert exit_code(summary) == 0


def test_a_pass_is_signed_when_the_wilson_intervals_clear_the_limits(run: RunBuilder) -> None:
    # 400 of 400 good: Wilson from 0.9905; 0 of 400 failed: to 0.0095. With 380 the latter reaches 0.01001.
    add(run, 6, good=400)
    add(run, 7, good=380)
    first, second = judged(run).stages
    assert (first.verdict.result, first.verdict.strength) == ("pass", "signed")
    assert (second.verdict.result, second.verdict.strength) == ("pass", "candidate")


def test_a_fail_is_signed_when_an_interval_is_wholly_on_the_wrong_side(run: RunBuilder) -> None:
    add(run, 2, good=94, slow=6)  # 94 % of 100: Wilson to 0.972
    add(run, 3, good=60, slow=40)
    first, second = judged(run).stages
    assert (first.verdict.result, first.verdict.strength) == ("fail", "candidate")
    assert (second.verdict.result, second.verdict.strength) == ("fail", "signed")


def test_errors_are_named_by_outcome_and_the_greater_cause_comes_first(run: RunBuilder) -> None:
    add(run, 2, good=70, slow=10, failed=20)
    (stage,) = judged(run).stages
    assert stage.verdict.sentence == "error_rate: 20 of 100 failed: 20 rejected; ttft: 10 of 80 over 500 ms"


def test_memory_exhaustion_fails_a_stage_even_in_the_warm_up(run: RunBuilder) -> None:
    stage = add(run, 2, good=100)
    stage.request(-1, phase="warmup", outcome="oom", status=500)
    verdict = judged(run).stages[0].verdict
    assert (verdict.result, verdict.strength) == ("fail", "signed")
    assert [d.name for d in verdict.failing_dimensions] == ["oom"]


def test_default_gates_are_recorded_as_defaults(run: RunBuilder) -> None:
    add(run, 2, good=100)
    gates = judged(run).stages[0].verdict.gates
    assert [(g.name, g.relation, g.limit, g.default) for g in gates] == [
        ("attainment", ">=", 0.95, True),
        ("error_rate", "<=", 0.01, True),
        ("oom", "=", 0.0, True),
        ("in_flight_trend", "=", "flat", True),
    ]


def test_without_limits_the_other_gates_hold_and_the_verdict_says_so(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    add(run, 2, good=120)
    summary = judged(run)
    (stage,) = summary.stages
    assert stage.goodput_rps is None
    assert stage.attainment is None
    assert [gate.name for gate in stage.verdict.gates] == ["error_rate", "oom", "in_flight_trend"]
    assert stage.verdict.result == "pass"
    assert summary.verdict == (
        "Kept up at 2 req/s (candidate): error rate 0 %, in-flight flat; no tested rate failed. "
        "No limits were chosen (--slo), so latency was not judged and there is no goodput."
    )
    assert exit_code(summary) == 0


def test_an_invalid_stage_is_no_result_in_either_direction(run: RunBuilder) -> None:
    add(run, 2, good=100)
    late = run.stage(rate=4)
    late.requests(100, ttft=900, lag=80)
    summary = judged(run)
    assert summary.first_failing_rate_rps is None
    assert summary.verdict == (
        "Sustained 2 req/s (candidate): attainment 100 %; no tested rate failed. "
        "4 req/s is invalid: generator-limited: dispatch was late: 100 of 100 arrivals by more than 5 ms (lag P99 80.0 ms)."
    )
    assert exit_code(summary) == 4


def test_a_run_whose_every_rate_fails_says_so(run: RunBuilder) -> None:
    add(run, 2, good=50, slow=50)
    summary = judged(run)
    assert summary.verdict == (
        "No tested rate was sustained: 2 req/s (signed) failed, on ttft (50 of 100 over 500 ms); it was the lowest tested."
    )
    assert exit_code(summary) == 0


def test_a_pass_above_a_fail_is_pointed_out(run: RunBuilder) -> None:
    add(run, 2, good=50, slow=50)
    add(run, 4, good=100)
    summary = judged(run)
    assert summary.sustained_rate_rps is None
    assert summary.verdict.endswith("4 req/s passed though 2 req/s failed: repeat both.")


def test_a_rate_passes_only_if_every_round_does(run: RunBuilder) -> None:
    add(run, 2, good=100, stage=0, round=0)
    add(run, 2, good=50, slow=50, stage=0, round=1)
    summary = judged(run)
    assert [stage.verdict.result for stage in summary.stages] == ["pass", "fail"]
    assert summary.sustained_rate_rps is None
    assert summary.first_failing_rate_rps == 2.0


def test_no_successes_fail(run: RunBuilder) -> None:
    add(run, 2, good=0, failed=60)
    summary = judged(run)
    (stage,) = summary.stages
    assert stage.verdict.result == "fail"
    assert (stage.attainment, stage.error_rate) == (0.0, 1.0)
    assert stage.percentiles["ttft_p95_ms"].value is None
    assert stage.percentiles["ttft_p95_ms_all"].value == "inf"


def test_a_single_request_is_undetermined(run: RunBuilder) -> None:
    add(run, 0.02, good=1)
    summary = judged(run)
    (stage,) = summary.stages
    assert stage.verdict.result == "undetermined"
    assert "1 arrivals are too few" in stage.verdict.sentence
    assert exit_code(summary) == 4


def test_only_warm_up_is_undetermined(run: RunBuilder) -> None:
    stage = run.stage(rate=2, warmup=10)
    stage.request(-5)
    summary = judged(run)
    found = summary.stages[0]
    assert found.verdict.result == "undetermined"
    assert found.verdict.sentence == "nothing was due inside the measurement window: only warm-up or cool-down ran"
    assert (found.measured, found.error_rate, found.attainment, found.goodput_rps) == (0, None, None, 0.0)
    assert summary.verdict.startswith("No rate was judged")


def test_a_run_that_sent_nothing_exits_with_2(run: RunBuilder) -> None:
    run.stage(rate=2)
    summary = judged(run)
    assert summary.stages[0].verdict.result == "not_run"
    assert summary.verdict == "Nothing was sent, so nothing was measured."
    assert exit_code(summary) == 2


def test_a_run_without_stages_has_a_verdict(run: RunBuilder) -> None:
    summary = judged(run)
    assert summary.stages == []
    assert summary.verdict == "Nothing was sent, so nothing was measured."
    assert exit_code(summary) == 2


def test_arrivals_that_our_own_cap_held_back_fail_the_stage_and_name_the_cap(run: RunBuilder) -> None:
    stage = run.stage(rate=2)
    stage.requests(60)
    for n in range(60):
        stage.request(30 + n / 2.5, outcome="not_sent", sent_ns=None, phase="measure")
    (found,) = judged(run).stages
    assert found.verdict.result == "fail"
    (error_rate,) = (d for d in found.verdict.failing_dimensions if d.name == "error_rate")
    assert error_rate.detail.endswith("60 not_sent, held back by this run's own --max-in-flight")


def test_a_stage_cut_short_is_judged_on_what_was_measured_and_undetermined(run: RunBuilder) -> None:
    stage = run.stage(rate=2, interrupted="Ctrl-C")
    stage.manifest.window_end_ns = stage.manifest.arrivals_end_ns = stage.window_start_ns + 30 * NS_PER_S
    stage.requests(60, over=30)
    stage.request(31, outcome="not_sent", dispatched_ns=None, phase="measure")
    summary = judged(run)
    (found,) = summary.stages
    assert (found.measured, found.seconds, found.seconds_method) == (60, 30.0, "window_cut_short")
    assert found.goodput_rps == 2.0
    assert found.verdict.result == "undetermined"
    assert found.verdict.sentence == "cut short (Ctrl-C); 30 s of the window were measured: 60 of 60 ok"
    assert exit_code(summary) == 4


def test_a_stage_interrupted_in_its_warm_up_is_undetermined_and_not_the_generators_fault(run: RunBuilder) -> None:
    stage = run.stage(rate=2, warmup=10, interrupted="Ctrl-C")
    stage.manifest.window_end_ns = stage.manifest.arrivals_end_ns = stage.window_start_ns - 5 * NS_PER_S
    stage.request(-8)
    found = judged(run).stages[0]
    assert found.seconds is None
    assert found.verdict.result == "undetermined"
    assert found.verdict.sentence == "interrupted (Ctrl-C) before anything was measured"


def test_a_closed_loop_is_judged_without_a_rate_or_a_trend(run: RunBuilder) -> None:
    run.stage(concurrency=8).requests(100)
    summary = judged(run)
    gate = summary.stages[0].verdict.gates[-1]
    assert (gate.name, gate.applicable, gate.value) == ("in_flight_trend", False, None)
    assert summary.sustained_rate_rps is None
    assert summary.verdict == (
        "With 8 in flight (closed loop): pass (candidate), attainment 100 %, error rate 0 %, 100 measured."
    )


def test_a_synthetic_engine_is_never_called_performance(tmp_path: Path) -> None:
    workload = WorkloadFacts(name="w", kind="synthetic", source="generated", sha256="00" * 32)
    run = RunBuilder(tmp_path, slo={"ttft": 500}, synthetic_engine=True, workload=workload)
    add(run, 2, good=100)
    summary = judged(run)
    assert summary.verdict.startswith("The engine is synthetic: nothing here is performance. Sustained 2 req/s")
    assert summary.limitations[0] == "The engine is synthetic: nothing here is performance."
    assert "The workload is synthetic: it supports no capacity conclusion." in summary.limitations


def test_the_fixed_limitations_are_always_there(run: RunBuilder) -> None:
    add(run, 2, good=100)
    limitations = judged(run).limitations
    assert "Goodput is not answer quality, not maximum sustainable capacity and not a number of users." in limitations
    assert "The server's own queue was not read: waiting_trend took no part in the verdict." in limitations


def test_a_value_equal_to_its_gate_holds(run: RunBuilder) -> None:
    add(run, 2, good=95, slow=4, failed=1)
    gates = {gate.name: gate for gate in judged(run).stages[0].verdict.gates}
    assert (gates["attainment"].value, gates["attainment"].passed) == (0.95, True)
    assert (gates["error_rate"].value, gates["error_rate"].passed) == (0.01, True)


def test_a_round_that_failed_fails_its_rate_though_another_was_invalid(run: RunBuilder) -> None:
    run.stage(rate=2, stage=0, round=0).requests(100, lag=80)
    add(run, 2, good=50, slow=50, stage=0, round=1)
    summary = judged(run)
    assert [stage.verdict.result for stage in summary.stages] == ["invalid", "fail"]
    assert summary.first_failing_rate_rps == 2.0
    assert exit_code(summary) == 4
