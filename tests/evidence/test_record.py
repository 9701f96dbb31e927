"""The record of a stage: every figure in its field, what was not measured as null, and the limitations with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from llm_locust.analysis.evidence import PERCENTILE_METHOD, RETEST_WHEN, evidence_record
from llm_locust.analysis.evidence_files import write_records
from llm_locust.analysis.evidence_rules import violations
from llm_locust.records import RunFolder, UsageError
from llm_locust.records.evidence import FIXED_LIMITATIONS, EvidenceRecord
from llm_locust.records.facts import Facts
from llm_locust.records.summary import Percentile, StageVerdict
from llm_locust.report import merge_run
from tests.analysis.run_builder import RunBuilder
from tests.evidence.by_hand import FACTS, SEEN, document, manifest, record_of, stage, summary

EXPECTED: dict[str, Any] = {
    # identity
    "schema_version": "1.1",
    "test_id": "run-1.s0.r0",
    "run_id": "run-1",
    "stage": 0,
    "round": 0,
    "tested_at": "2026-09-21T14:13:20+00:00",
    "evidence_stage": "open 2/s poisson",
    "synthetic_engine": False,
    "engine": "vLLM",
    "engine_version": "0.11.0",
    "model_id": "Qwen/Qwen3-8B",
    "model_revision": "0123abc",
    "accelerator": "NVIDIA H100 80GB HBM3",
    "accelerator_count": 1,
    "available_memory_gb": 80.0,
    "driver_runtime_host": "driver 570.86, Docker 28.0",
    # workload
    "workload_name": "faq",
    "workload_kind": "representative",
    "dataset_source": "support log",
    "workload_sha256": "ab" * 32,
    "slices": [],
    "arrival_mode": "open",
    "arrival_process": "poisson",
    "streaming": True,
    "request_rate_rps": 2.0,
    "achieved_rate_rps": 1.65,
    "concurrency": 9,
    "max_in_flight": 64,
    "input_tokens_p50": 200,
    "input_tokens_p95": 900,
    "input_tokens_p99": 1000,
    "input_tokens_max": 1024,
    "output_tokens_p50": 100,
    "output_tokens_p95": 128,
    "output_tokens_p99": 128,
    "output_tokens_max": 128,
    "output_tokens_sources": {"usage": 90},
    "success_criterion": "a finish reason, output and no error within 30 s",
    "warmup_requests": 20,
    "measured_requests": 100,
    "test_minutes": 1.5,
    "seconds_method": "window",
    "deadline_s": 30.0,
    "drain_policy": "no arrivals; every request ends or meets its deadline before the next stage",
    "percentile_method": PERCENTILE_METHOD,
    # results
    "planned": 142,
    "attempted": 140,
    "not_sent": 2,
    "lost": 0,
    "dispatched": 100,
    "sent": 99,
    "successful_requests": 90,
    "failed_requests": 10,
    "outcomes": {"ok": 90, "rejected": 10},
    "status_counts": {"200": 90, "429": 6, "503": 4},
    "request_throughput_rps": 1.5,
    "output_throughput_tps": 150.0,
    "total_throughput_tps": 510.0,
    "ttft_p50_ms": 120.0,
    "ttft_p95_ms": 800.0,
    "ttft_p99_ms": 950.0,
    "tpot_p50_ms": 20.0,
    "tpot_p95_ms": 31.5,
    "tpot_p99_ms": 40.0,
    "e2e_p50_ms": 2000.0,
    "e2e_p95_ms": 4000.0,
    "e2e_p99_ms": 4500.0,
    "itl_p95_ms": 33.0,
    "max_gap_p95_ms": 90.0,
    "arrival_ttft_p95_ms": 810.0,
    "arrival_e2e_p95_ms": 4010.0,
    "dispatch_lag_p99_ms": 0.5,
    "cap_wait_p95_ms": 0.0,
    "client_wait_p95_ms": 0.5,
    "queue_time_p95_ms": 12.5,
    "running_peak": 32,
    "running_trend": "flat",
    "waiting_peak": 0,
    "waiting_trend": "flat",
    "kv_cache_peak_pct": 41.5,
    "prefix_cache_hit_rate": 0.0,
    "peak_memory_gb": 71.5,
    "memory_tool": "NVML",
    "memory_scope": "device",
    "memory_kind": "vram",
    "preemptions": 0,
    "evictions": 0,
    # goodput
    "slo": {"ttft": 500.0},
    "good_requests": 80,
    "goodput_rps": 80 / 60,
    "attainment": 0.8,
    "error_rate": 0.1,
    "completed_in_window_rps": 1.45,
    "goodput_vllm_rps": 1.2,
    "seconds": 60.0,
    "drain_seconds": 2.5,
    "in_flight_at_window_end": 3,
    # verdict
    "gates": [
        {"name": "attainment", "relation": ">=", "limit": 0.95, "value": 0.8, "pass": False}
        | {"signed": True, "default": True},
        {"name": "error_rate", "relation": "<=", "limit": 0.01, "value": 0.1, "pass": False}
        | {"signed": True, "default": True},
        {"name": "oom", "relation": "=", "limit": 0, "value": 0.0, "pass": True, "signed": True, "default": True},
    ],
    "gates_set": "before",
    "result": "fail",
    "result_strength": "signed",
    "verdict": "ttft: 10 of 90 over 500 ms; error_rate: 10 of 100 failed: 10 rejected",
    "failing_dimensions": [
        {"name": "ttft", "detail": "10 of 90 over 500 ms"},
        {"name": "error_rate", "detail": "10 of 100 failed: 10 rejected"},
    ],
    "generator": {"valid": True, "reasons": []},
    "server_changes": [],
    "rounds": 1,
    "success_threshold": 0.99,
    "evidence_grade": "partial",
    "evidence_grade_reasons": [
        "1 valid round of this test point, not 3",
        "90 of 100 requests succeeded, fewer than 99 %",
    ],
    "evidence_location": "run-1/",
    "limitations": [
        *FIXED_LIMITATIONS,
        "Confidence intervals assume independent requests.",
        "Too few requests to tell these percentiles from the maximum: "
        "ttft_p99_ms (n = 90), tpot_p99_ms (n = 90), e2e_p99_ms (n = 90).",
    ],
    "owner": "Inference team",
    "retest_when": list(RETEST_WHEN),
}  # fmt: skip


def test_a_stage_becomes_its_record_and_what_is_not_known_is_null() -> None:
    found = document(record_of(stage(**SEEN), Facts(FACTS)))
    assert {name: value for name, value in found.items() if value is not None} == EXPECTED
    assert set(found) - set(EXPECTED) == {
        "environment", "image_digest", "weights_sha256", "quantization_dtype", "kv_cache_dtype", "tokenizer_revision",
        "chat_template_sha256", "interconnect", "parallelism", "gpu_residency", "cuda", "cpu", "ram_gb", "numa",
        "power_limit_w", "replicas", "server_admission_cap", "prefix_caching", "batching_limits", 
        "max_active_sequences", "context_limit_tokens", "shared_prefix_share", "cold_share", "cache_state", "sampling",
        "quality_precondition", "quality_failures", "kv_cache_size_tokens", "kv_cache_max_concurrency",
        "startup_peak_memory_gb", "offload", "goodput_unavailable",
    }  # fmt: skip


def test_the_record_written_by_hand_breaks_no_rule() -> None:
    assert violations(document(record_of(stage(**SEEN), Facts(FACTS)))) == []


def test_an_infinite_percentile_is_inf_in_the_file() -> None:
    one = stage(percentiles={"cap_wait_p95_ms": Percentile(value="inf", n=100)})
    assert document(record_of(one))["cap_wait_p95_ms"] == "inf"


def test_ok_requests_without_a_token_count_are_counted_as_missing() -> None:
    assert record_of(stage(token_sources={"usage": 80, "events": 4})).output_tokens_sources == {
        "usage": 80,
        "events": 4,
        "missing": 6,
    }


def test_what_the_run_checked_and_who_was_to_leave_stand_in_the_record() -> None:
    record = record_of(stage(), quality="regex:Paris", cancel="share=0.1,after=2s")
    assert record.quality_precondition == "replies were checked in the run by regex:Paris"
    assert record.success_criterion == (
        "a finish reason, output and no error within 30 s; a client that leaves as planned (share=0.1,after=2s) is a failure"
    )
    read = Facts({"quality_precondition": "40 answers were read before the run"})
    assert record_of(stage(), read).quality_precondition == "40 answers were read before the run"
    assert record_of(stage(), read, quality="regex:Paris").quality_precondition == (
        "40 answers were read before the run; replies were checked in the run by regex:Paris"
    )


def test_facts_may_say_where_the_files_are_and_when_else_to_test_again() -> None:
    facts = Facts({"evidence_location": "s3://load/1", "retest_when": ["the prompt template changes"]})
    record = record_of(stage(), facts)
    assert record.evidence_location == "s3://load/1"
    assert record.retest_when == [*RETEST_WHEN, "the prompt template changes"]


def test_a_fact_against_what_the_server_said_is_an_error_that_names_both() -> None:
    with pytest.raises(UsageError, match=r"^the facts: engine_version is '0\.10\.0', but the server said '0\.11\.0'"):
        record_of(stage(), Facts({"engine_version": "0.10.0"}))


def test_a_stage_cut_short_by_a_crash_has_no_duration() -> None:
    torn = manifest()
    torn.stages[0].end_ns = None
    one = stage()
    assert evidence_record(torn, summary(one), one).test_minutes is None


def test_rounds_that_the_generator_spoilt_or_that_measured_nothing_do_not_count() -> None:
    spoilt = stage(round=1)
    spoilt.generator = msgspec.structs.replace(spoilt.generator, valid=False)
    rounds = [stage(), spoilt, stage(round=2, measured=0), stage(round=3)]
    assert evidence_record(manifest(rounds=4), summary(*rounds), rounds[0]).rounds == 2


def test_limits_set_after_the_run_are_marked() -> None:
    one = stage()
    assert evidence_record(manifest(), summary(one, limits_set="after"), one).gates_set == "after"


def test_one_file_per_stage_and_round_and_none_for_a_stage_that_was_not_run(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    not_run = StageVerdict(result="not_run", sentence="not run: no arrival was due")
    stages = [stage(), stage(round=1), stage(round=2, verdict=not_run)]
    paths = write_records(folder, manifest(rounds=3), summary(*stages))
    assert [str(path.relative_to(tmp_path)) for path in paths] == [
        "records/stage-0-round-0.json",
        "records/stage-0-round-1.json",
    ]
    assert sorted(tmp_path.rglob("*.*")) == paths
    assert EvidenceRecord.load(paths[1]).test_id == "run-1.s0.r1"
    with pytest.raises(ValueError, match="was not run"):
        evidence_record(manifest(rounds=3), summary(*stages), stages[2])


def test_writing_again_writes_the_same_bytes(tmp_path: Path) -> None:
    (path,) = write_records(RunFolder(tmp_path), manifest(), summary(stage()))
    before = path.read_bytes()
    write_records(RunFolder(tmp_path), manifest(), summary(stage()))
    assert path.read_bytes() == before


def test_facts_that_contradict_the_server_leave_the_records_as_they_were(tmp_path: Path) -> None:
    (path,) = write_records(RunFolder(tmp_path), manifest(), summary(stage()))
    before = path.read_bytes()
    with pytest.raises(UsageError):
        write_records(RunFolder(tmp_path), manifest(), summary(stage()), Facts({"engine": "SGLang"}))
    assert path.read_bytes() == before


def test_records_of_a_merged_run_break_no_rule_whatever_became_of_its_stages(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 500, "tpot": 200}, versions={"engine": "vLLM 0.11.0"})
    run.stage(rate=2).requests(120, ttft=300, e2e=1000 / 3)
    run.stage(rate=6).requests(90, ttft=700)
    run.stage(concurrency=8).requests(50, ttft=100.1)
    run.stage(rate=1).requests(60, outcome="rejected", status=429)
    run.stage(rate=1).requests(60, tokens=1)
    run.stage(rate=1).requests(60, tokens=None)
    run.stage(rate=1).requests(5, first=-5, over=5)
    run.stage(rate=1).requests(60, lag=900)
    run.stage(rate=1).requests(60, outcome="not_sent")
    run.stage(rate=1, interrupted="Ctrl-C").requests(30, over=30)
    run.stage(rate=1)
    path = run.write()
    merged = merge_run(path).summary
    results = [one.verdict.result for one in merged.stages]
    assert set(results) == {"pass", "fail", "invalid", "undetermined", "not_run"}
    paths = write_records(RunFolder(path), run.manifest, merged)
    assert len(paths) == len(results) - 1
    found = {path.name: violations(msgspec.json.decode(path.read_bytes())) for path in paths}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_records_of_a_run_without_limits_break_no_rule(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, streaming=False)
    run.stage(rate=2).requests(120, first_output_ns=None, last_output_ns=None)
    path = run.write()
    (written,) = write_records(RunFolder(path), run.manifest, merge_run(path).summary)
    record = EvidenceRecord.load(written)
    assert (record.good_requests, record.goodput_unavailable) == (None, "no limits were chosen (--slo)")
    assert violations(document(record)) == []
