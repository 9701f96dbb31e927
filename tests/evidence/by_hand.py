"""One judged stage, written by hand: 60 s, 100 measured, 90 ok, 80 good, on a real engine."""

from __future__ import annotations

from typing import Any

import msgspec

from llm_locust.analysis.evidence import evidence_record
from llm_locust.records import NS_PER_S, Manifest, StageManifest, StageSpec, WorkloadFacts
from llm_locust.records.device_figures import DeviceFigures
from llm_locust.records.evidence import EvidenceRecord
from llm_locust.records.facts import NO_FACTS, Facts
from llm_locust.records.server_figures import BucketPercentile, ServerFigures
from llm_locust.records.summary import (
    FailingDimension,
    Gate,
    GeneratorHealth,
    InFlightTrend,
    Percentile,
    Reconciliation,
    RunSummary,
    StageSummary,
    StageVerdict,
)

START_NS = 1_790_000_000 * NS_PER_S  # 2026-09-21T14:13:20Z

FACTS: dict[str, Any] = {
    "accelerator": "NVIDIA H100 80GB HBM3",
    "accelerator_count": 1,
    "available_memory_gb": 80.0,
    "driver_runtime_host": "driver 570.86, Docker 28.0",
    "model_revision": "0123abc",
    "owner": "Inference team",
}

FLAT = InFlightTrend(state="flat", detail="from 0 to 0 over the window, which is within the noise")

SEEN: dict[str, Any] = {
    "server": ServerFigures(
        targets=["http://127.0.0.1:8000/metrics"],
        engines=["vllm"],
        verified=True,
        samples=60,
        running_peak=32,
        running_trend=FLAT,
        waiting_peak=0,
        waiting_trend=FLAT,
        kv_cache_peak_pct=41.5,
        prefix_cache_hit_rate=0.0,
        preemptions=0,
        evictions=0,
        percentiles={"queue_time_p95_ms": BucketPercentile(value_ms=12.5, low_ms=10.0, high_ms=20.0, n=90)},
    ),
    "device": DeviceFigures(
        peak_memory_bytes=71_500_000_000, memory_scope="device", memory_kind="vram", memory_tool="NVML"
    ),
}
"""What server and device showed in a stage."""


def manifest(*, rounds: int = 1, **changes: Any) -> Manifest:
    """The manifest of a run of one rate: 10 s of warm-up, 60 s of window, ended after 90 s."""
    spec = StageSpec(stage=0, rate_rps=2.0, warmup_s=10.0, window_s=60.0, cooldown_s=10.0, seed=1, first_index=0)
    stages = [
        StageManifest(
            spec=msgspec.structs.replace(spec, round=k),
            start_ns=START_NS,
            window_start_ns=START_NS + 10 * NS_PER_S,
            window_end_ns=START_NS + 70 * NS_PER_S,
            arrivals_end_ns=START_NS + 80 * NS_PER_S,
            end_ns=START_NS + 90 * NS_PER_S,
        )
        for k in range(rounds)
    ]
    given: dict[str, Any] = {
        "run_id": "run-1",
        "state": "complete",
        "started_at": "2026-09-21T14:13:10+00:00",
        "host": "http://127.0.0.1:8000",
        "model": "Qwen/Qwen3-8B",
        "versions": {"engine": "vLLM", "engine_version": "0.11.0"},
        "seed": 1,
        "deadline_s": 30.0,
        "max_in_flight": 64,
        "slo": {"ttft": 500.0},
        "workload": WorkloadFacts(name="faq", kind="representative", source="support log", sha256="ab" * 32),
        "stages": stages,
    }
    return Manifest(**(given | changes))


def percentiles() -> dict[str, Percentile]:
    values: dict[str, Any] = {
        "ttft_p50_ms": 120.0, "ttft_p95_ms": 800.0, "ttft_p99_ms": 950.0,
        "tpot_p50_ms": 20.0, "tpot_p95_ms": 31.5, "tpot_p99_ms": 40.0,
        "e2e_p50_ms": 2000.0, "e2e_p95_ms": 4000.0, "e2e_p99_ms": 4500.0,
        "itl_p95_ms": 33.0, "max_gap_p95_ms": 90.0,
        "arrival_ttft_p95_ms": 810.0, "arrival_e2e_p95_ms": 4010.0,
        "dispatch_lag_p99_ms": 0.5, "cap_wait_p95_ms": 0.0, "client_wait_p95_ms": 0.5,
        "input_tokens_p50": 200.0, "input_tokens_p95": 900.0, "input_tokens_p99": 1000.0, "input_tokens_max": 1024.0,
        "output_tokens_p50": 100.0, "output_tokens_p95": 128.0, "output_tokens_p99": 128.0, "output_tokens_max": 128.0,
    }  # fmt: skip
    return {name: Percentile(value=value, n=90, at_maximum="_p99" in name) for name, value in values.items()}


def stage(**changes: Any) -> StageSummary:
    """100 measured, 10 of them rejected, 10 too slow: 1.5 req/s ok, 1.333 good, attainment 80 %, errors 10 %."""
    verdict = StageVerdict(
        result="fail",
        strength="signed",
        sentence="ttft: 10 of 90 over 500 ms; error_rate: 10 of 100 failed: 10 rejected",
        gates=[
            Gate(name="attainment", relation=">=", limit=0.95, value=0.8, passed=False, signed=True),
            Gate(name="error_rate", relation="<=", limit=0.01, value=0.1, passed=False, signed=True),
            Gate(name="oom", relation="=", limit=0, value=0.0, passed=True, signed=True),
            Gate(name="waiting_trend", relation="=", limit="flat", value=None, passed=None, applicable=False),
        ],
        failing_dimensions=[
            FailingDimension(name="ttft", detail="10 of 90 over 500 ms"),
            FailingDimension(name="error_rate", detail="10 of 100 failed: 10 rejected"),
        ],
    )
    given: dict[str, Any] = {
        "stage": 0, "round": 0, "label": "open 2/s poisson", "mode": "open", "rate_rps": 2.0, "arrivals": "poisson",
        "concurrency": None, "planned": 142, "attempted": 140, "not_sent": 2, "lost": 0, "warmup_requests": 20,
        "cooldown_requests": 22, "measured": 100, "successful": 90, "failed": 10, "dispatched": 100, "sent": 99,
        "outcomes": {"ok": 90, "rejected": 10}, "status_counts": {"200": 90, "429": 6, "503": 4},
        "seconds": 60.0, "seconds_method": "window", "achieved_rate_rps": 99 / 60, "request_throughput_rps": 1.5,
        "output_throughput_tps": 150.0, "total_throughput_tps": 510.0, "completed_in_window_rps": 1.45,
        "good_requests": 80, "goodput_rps": 80 / 60, "goodput_vllm_rps": 1.2, "attainment": 0.8, "error_rate": 0.1,
        "peak_in_flight": 9, "in_flight_at_window_end": 3, "drain_seconds": 2.5, "percentiles": percentiles(),
        "token_sources": {"usage": 90}, "generator": GeneratorHealth(valid=True, lag_bound_ms=5.0), "verdict": verdict,
    }  # fmt: skip
    return StageSummary(**(given | changes))


def summary(*stages: StageSummary, **changes: Any) -> RunSummary:
    given: dict[str, Any] = {
        "run_id": "run-1",
        "state": "complete",
        "started_at": "2026-09-21T14:13:10+00:00",
        "host": "http://127.0.0.1:8000",
        "workload": "faq",
        "workload_kind": "representative",
        "workload_sha256": "ab" * 32,
        "deadline_s": 30.0,
        "slo": {"ttft": 500.0},
        "verdict": "No tested rate was sustained.",
        "sent": 140,
        "reconciliation": Reconciliation(planned=142, attempted=140, not_sent=2, lost=0),
        "stages": list(stages),
        "limitations": ["Confidence intervals assume independent requests."],
    }
    return RunSummary(**(given | changes))


def record_of(one: StageSummary, facts: Facts = NO_FACTS, **changes: Any) -> EvidenceRecord:
    """``changes`` are of the manifest."""
    return evidence_record(manifest(**changes), summary(one), one, facts)


def performance_record() -> EvidenceRecord:
    """A record that lacks nothing: the third of three rounds, all ok, with facts and telemetry."""
    ok = StageVerdict(
        result="pass",
        strength="signed",
        sentence="attainment 100 %",
        gates=[Gate(name="attainment", relation=">=", limit=0.95, value=1.0, passed=True, signed=True)],
    )
    rounds = [
        stage(
            round=k,
            successful=100,
            failed=0,
            sent=100,
            outcomes={"ok": 100},
            status_counts={"200": 100},
            achieved_rate_rps=100 / 60,
            request_throughput_rps=100 / 60,
            good_requests=100,
            goodput_rps=100 / 60,
            attainment=1.0,
            error_rate=0.0,
            token_sources={"usage": 100},
            verdict=ok,
            **SEEN,
        )
        for k in range(3)
    ]
    return evidence_record(manifest(rounds=3), summary(*rounds), rounds[2], Facts(FACTS))


def document(record: EvidenceRecord | None = None, **changes: Any) -> dict[str, Any]:
    """A record as it stands in its file, with fields changed."""
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(record or performance_record()))
    return decoded | changes
