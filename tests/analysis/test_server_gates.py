"""Gates about the server: when each passes, fails or cannot be told, and which take part when nobody chose any."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llm_locust.analysis.gates import stage_gates
from llm_locust.analysis.judgement import conclude
from llm_locust.records import NS_PER_S, RunFolder
from llm_locust.records.device_sample import DeviceSample
from llm_locust.records.gates import parse_gates
from llm_locust.records.server_sample import CumulativeHistogram
from llm_locust.records.summary import Gate, RunSummary, StageSummary
from llm_locust.report import merge_run
from tests.analysis.run_builder import METRICS, RunBuilder, StageBuilder

Tell = Callable[[float], dict[str, Any]]


def told(at: float) -> dict[str, Any]:
    """A server with two requests running, none waiting, at most 40 % of its cache in use; one preemption before load."""
    return {
        "running": 2,
        "waiting": 0,
        "kv_usage_max": 0.4 if at < 30 else 0.3,
        "kv_usage_mean": 0.3,
        "preemptions": 1,
        "evictions": 0,
        "queue_time": queue(at),
    }


def queue(at: float) -> CumulativeHistogram:
    """Two requests a second from 0 to 60 s, each of which waited some 150 ms: P95 lies between 100 and 250 ms."""
    n = 2.0 * min(max(at, 0.0), 60.0)
    return CumulativeHistogram(le=(0.1, 0.25, 0.5), n=(0.0, n, n), count=n)


def run_with(tmp_path: Path, tell: Tell = told, **scraped: Any) -> RunBuilder:
    run = RunBuilder(tmp_path, slo={"ttft": 500})
    stage = run.stage(rate=2)
    stage.requests(120)
    stage.scraped(tell, **scraped)
    return run


def summary(run: RunBuilder, *gates: str) -> RunSummary:
    merged = merge_run(run.write()).summary
    return conclude(merged, parse_gates(gates)) if gates else merged


def judged(run: RunBuilder, *gates: str) -> StageSummary:
    (stage,) = summary(run, *gates).stages
    return stage


def only(stage: StageSummary, name: str) -> Gate:
    (gate,) = [gate for gate in stage.verdict.gates if gate.name == name]
    return gate


def test_what_waits_in_the_server_is_among_the_defaults_when_it_was_read(tmp_path: Path) -> None:
    found = summary(run_with(tmp_path))
    (stage,) = found.stages
    assert [(gate.name, gate.passed, gate.default) for gate in stage.verdict.gates] == [
        ("attainment", True, True),
        ("error_rate", True, True),
        ("oom", True, True),
        ("in_flight_trend", True, True),
        ("waiting_trend", True, True),
    ]
    assert stage.verdict.sentence == (
        "attainment 100 %, error rate 0 %, in-flight flat, waiting in the server flat, 120 measured"
    )
    assert not any("queue was not read" in said for said in found.limitations)
    assert any("in-flight flat, waiting flat), not chosen" in said for said in found.limitations)


def test_a_queue_that_builds_up_in_the_server_fails_the_stage(tmp_path: Path) -> None:
    stage = judged(run_with(tmp_path, lambda at: told(at) | {"waiting": at + 6}))
    assert stage.verdict.result == "fail"
    # One more a second: the means of the first and the last six of 60 s.
    assert [(d.name, d.detail) for d in stage.verdict.failing_dimensions] == [
        ("waiting_trend", "rose from 9 to 63 over the window")
    ]


def test_a_queue_read_too_seldom_is_undetermined_and_says_why(tmp_path: Path) -> None:
    stage = judged(run_with(tmp_path, every=10.0))
    assert stage.verdict.result == "undetermined"
    assert stage.verdict.sentence == "waiting_trend: 6 samples are too few: some span of the window holds none"


def test_where_some_stages_were_not_read_the_run_says_how_many(tmp_path: Path) -> None:
    run = run_with(tmp_path)
    run.stage(rate=3).requests(180)
    found = summary(run)
    assert [stage.verdict.result for stage in found.stages] == ["pass", "pass"]
    assert (
        "The server's own queue was not read in 1 of 2 stages: waiting_trend took no part in the verdict."
        in found.limitations
    )


def test_a_closed_loop_is_not_held_to_its_own_queue(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(concurrency=8)
    stage.requests(100)
    stage.scraped(lambda at: told(at) | {"waiting": 6 if at > 0 else 0})
    found = judged(run)
    assert only(found, "waiting_trend").applicable is False
    assert found.verdict.result == "pass"


def test_a_target_that_never_answered_takes_no_part_and_the_queue_counts_as_not_read(tmp_path: Path) -> None:
    found = summary(run_with(tmp_path, lambda at: {"engine": None, "verified": None, "error": "HTTP 404"}))
    assert [gate.name for gate in found.stages[0].verdict.gates][-1] == "in_flight_trend"
    assert "The server's own queue was not read: waiting_trend took no part in the verdict." in found.limitations
    chosen = judged(run_with(tmp_path, lambda at: {"engine": None, "error": "HTTP 404"}), "waiting_trend=flat")
    assert chosen.verdict.sentence == f"waiting_trend: no page of {METRICS} could be read: HTTP 404"


@pytest.mark.parametrize(
    ("gate", "passed", "signed", "reason"),
    [
        # The P95 is known to lie above 100 and not above 250 ms.
        ("queue_p95<=250", True, False, None),
        ("queue_p95<=300", True, False, None),
        ("queue_p95<=100", False, False, None),
        ("queue_p95<=50", False, False, None),
        (
            "queue_p95<=200", None, False,
            "the limit lies inside the bucket that it is known to be in (100 to 250 ms)",
        ),
        ("kv_cache_peak_pct<=95", True, False, None),
        ("kv_cache_peak_pct<=40", True, False, None),
        ("kv_cache_peak_pct<=39.9", False, True, None),
        ("preemptions=0", True, True, None),
        ("evictions<=3", True, True, None),
        ("waiting_peak<=0", True, False, None),
        ("waiting_peak=0", True, False, None),
        ("running_peak<=2", True, False, None),
        ("running_peak<=1", False, True, None),
        ("running_peak=1", False, True, None),
        ("gpu_memory_peak_pct<=95", None, False, "no GPU was sampled"),
    ],
)  # fmt: skip
def test_each_gate_holds_or_not_and_a_sampled_peak_never_signs_a_pass(
    tmp_path: Path, gate: str, passed: bool | None, signed: bool, reason: str | None
) -> None:
    found = judged(run_with(tmp_path), gate).verdict.gates[0]
    assert (found.passed, found.signed, found.reason) == (passed, signed, reason)


def test_preemptions_in_the_window_fail_their_gate(tmp_path: Path) -> None:
    found = judged(run_with(tmp_path, lambda at: told(at) | {"preemptions": 1 if at < 30 else 4}), "preemptions=0")
    assert [(d.name, d.detail) for d in found.verdict.failing_dimensions] == [("preemptions", "3, not 0")]
    assert found.verdict.strength == "signed"


def test_what_failed_is_said_with_its_bounds_and_units(tmp_path: Path) -> None:
    found = judged(run_with(tmp_path), "queue_p95<=50", "kv_cache_peak_pct<=30", "running_peak<=1")
    assert found.verdict.sentence == (
        "queue_p95: 100 to 250 ms, over 50 ms; kv_cache_peak_pct: 40 %, over 30 %; running_peak: 2, at most 1"
    )


def test_what_passed_is_said_with_its_bounds(tmp_path: Path) -> None:
    found = judged(run_with(tmp_path), "queue_p95<=300", "kv_cache_peak_pct<=95", "preemptions=0")
    assert found.verdict.sentence == (
        "attainment 100 %, error rate 0 %, queue_p95 100 to 250 ms, kv_cache_peak_pct 40 %, preemptions 0, in-flight flat, "
        "waiting in the server flat, 120 measured"
    )


@pytest.mark.parametrize("gate", ["queue_p95<=300", "kv_cache_peak_pct<=95", "evictions=0", "running_peak<=9"])
def test_what_the_server_does_not_export_is_undetermined_with_that_reason(tmp_path: Path, gate: str) -> None:
    found = judged(run_with(tmp_path, lambda at: {"waiting": 0, "requests": 1}), gate)
    assert found.verdict.sentence == f"{gate.split('<')[0].split('=')[0]}: {METRICS} (vllm) does not export it"


@pytest.mark.parametrize("gate", ["kv_cache_peak_pct<=95", "preemptions=0", "running_peak<=9"])
def test_without_metrics_a_chosen_gate_is_undetermined(tmp_path: Path, gate: str) -> None:
    run = RunBuilder(tmp_path)
    run.stage(rate=2).requests(120)
    found = judged(run, gate)
    assert found.verdict.result == "undetermined"
    assert found.verdict.gates[0].reason == "the server's metrics were not read"


def test_a_percentile_above_the_last_bucket_fails_any_limit_below_it_and_tells_of_no_other(tmp_path: Path) -> None:
    def slow(at: float) -> dict[str, Any]:
        n = 2.0 * min(max(at, 0.0), 60.0)
        return told(at) | {"queue_time": CumulativeHistogram(le=(0.1, 0.5), n=(0.0, 0.0), count=n)}

    run = run_with(tmp_path, slow)
    found = judged(run, "queue_p95<=400")
    assert (only(found, "queue_p95").value, only(found, "queue_p95").passed) == ("inf", False)
    assert found.verdict.failing_dimensions[0].detail == "over 500 ms, over 400 ms"
    assert only(judged(run, "queue_p95<=900"), "queue_p95").passed is None


def test_a_percentile_of_too_few_observations_cannot_pass(tmp_path: Path) -> None:
    def few(at: float) -> dict[str, Any]:
        n = 12.0 if at > 30 else 0.0
        return told(at) | {"queue_time": CumulativeHistogram(le=(0.1, 0.5), n=(n, n), count=n)}

    found = only(judged(run_with(tmp_path, few), "queue_p95<=400"), "queue_p95")
    assert (found.passed, found.reason) == (None, "P95 of 12 is their maximum: too few to tell")


def test_a_server_that_started_over_cannot_pass_by_what_it_counted(tmp_path: Path) -> None:
    def restarted(at: float) -> dict[str, Any]:
        return told(at) | {"preemptions": 5 if at < 30 else 0, "queue_time": queue(at if at < 30 else at - 30)}

    run = run_with(tmp_path, restarted)
    lost = "the server started over in between, and what it had counted just before is not known"
    for gate in ("preemptions=0", "queue_p95<=300"):
        found = judged(run, gate).verdict.gates[0]
        assert (found.passed, found.reason) == (None, lost)


def test_a_peak_cannot_pass_when_part_of_the_window_was_not_seen_but_it_can_fail(tmp_path: Path) -> None:
    def deaf(at: float) -> dict[str, Any]:
        return {"engine": None, "error": "timed out"} if 20 < at < 40 else told(at)

    run = run_with(tmp_path, deaf)
    found = judged(run, "running_peak<=2").verdict.gates[0]
    # Read at 19.5 and again at 40.5 s.
    assert (found.passed, found.reason) == (
        None,
        "not read for 21 of 60 s of the window, when it may have been higher",
    )
    assert judged(run, "running_peak<=1").verdict.gates[0].passed is False


def gpu(stage: StageBuilder, at: float, used: int | None, gpu: int = 0, error: str | None = None) -> DeviceSample:
    return DeviceSample(
        at_ns=stage.window_start_ns + round(at * NS_PER_S),
        kind="gpu",
        gpu=gpu,
        uuid=f"GPU-{gpu}",
        memory_kind="vram",
        memory_used_bytes=used,
        memory_total_bytes=None if error else 80_000_000_000,
        error=error,
    )


def test_the_fullest_gpu_is_the_one_that_counts(tmp_path: Path) -> None:
    run = run_with(tmp_path)
    stage = run.stages[0]
    run.devices = [gpu(stage, at, used, k) for at in range(60) for k, used in enumerate((60 * 10**9, 72 * 10**9))]
    assert only(judged(run, "gpu_memory_peak_pct<=90"), "gpu_memory_peak_pct").passed is True  # 72 of 80 GB
    found = judged(run, "gpu_memory_peak_pct<=89")
    assert found.verdict.failing_dimensions[0].detail == "90 %, over 89 %"


def test_a_gpu_that_stopped_answering_cannot_pass(tmp_path: Path) -> None:
    run = run_with(tmp_path)
    run.devices = [gpu(run.stages[0], at, 10**9) for at in range(30)]
    run.devices += [gpu(run.stages[0], at, None, error="GPU is lost") for at in range(30, 60)]
    found = only(judged(run, "gpu_memory_peak_pct<=90"), "gpu_memory_peak_pct")
    assert (found.passed, found.reason) == (None, "GPU 0 did not answer all the time: GPU is lost")


def test_the_same_gates_come_out_of_the_summary_as_out_of_the_files(tmp_path: Path) -> None:
    run = run_with(tmp_path)
    merged = merge_run(run.write()).summary
    loaded = RunSummary.load(RunFolder(run.folder.path).summary)
    chosen = parse_gates(["queue_p95<=200", "kv_cache_peak_pct<=95"])
    assert stage_gates(loaded.stages[0], chosen) == stage_gates(merged.stages[0], chosen)
