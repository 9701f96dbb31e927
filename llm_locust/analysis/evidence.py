"""Evidence records out of a judged run: what was run on what, what it showed, and how far that can be trusted."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import msgspec

from llm_locust.analysis.evidence_grade import grade
from llm_locust.analysis.gates import gate_name
from llm_locust.analysis.judgement import points
from llm_locust.analysis.server_facts import residency_facts, server_facts
from llm_locust.analysis.server_figures import stage_telemetry
from llm_locust.analysis.words import number
from llm_locust.analysis.workload_record import workload_fields
from llm_locust.records import NS_PER_S, Manifest, StageManifest, UsageError
from llm_locust.records.evidence import (
    FIXED_LIMITATIONS,
    NOT_READ,
    EvidenceRecord,
    RecordGate,
    RecordGenerator,
    StageTelemetry,
)
from llm_locust.records.facts import NO_FACTS, Facts, combine
from llm_locust.records.summary import Figure, RunSummary, StageSummary

DRAIN_POLICY = "no arrivals; every request ends or meets its deadline before the next stage"

PERCENTILE_METHOD = "nearest rank over ok requests"

RETEST_WHEN: tuple[str, ...] = (
    "the engine, its version or its configuration changes",
    "the model, its weights or their data type change",
    "the hardware, the driver or the network path changes",
    "the traffic mix, the context lengths or the limits change",
)
"""Changes that end the life of any result; the facts may add others."""

LATENCY_PERCENTILES: tuple[str, ...] = (
    *(f"{name}_p{at}_ms" for name in ("ttft", "tpot", "e2e") for at in (50, 95, 99)),
    *(f"{name}_p95_ms" for name in ("max_gap", "arrival_ttft", "arrival_e2e", "cap_wait", "client_wait")),
)
"""Percentiles of a record that may rest on too few requests."""


SAME_MEMORY = 0.02
"""A person's figure of the start-up peak is the measured one when it is within this share: people round."""

BYTES_PER_GB = 1_000_000_000


def evidence_record(
    manifest: Manifest,
    summary: RunSummary,
    stage: StageSummary,
    facts: Facts = NO_FACTS,
) -> EvidenceRecord:
    """The record of one stage.

    Args:
        manifest: The run's manifest.
        summary: The judged run.
        stage: One of its stages that was run.
        facts: What a person knows of the server.

    Raises:
        UsageError: a fact contradicts what the server said, or what was measured.
        ValueError: the stage was not run: a test that was not made is blank, and has no record.
    """
    result = stage.verdict.result
    if result == "not_run":
        raise ValueError(f"stage {stage.stage} was not run: it has no record")
    known: dict[str, Any] = (
        workload_fields(manifest.workload) | residency_facts(manifest) | combine(facts, server_facts(manifest))
    )
    telemetry = _telemetry(stage)
    seen: dict[str, Any] = msgspec.structs.asdict(telemetry)
    stated = known.pop("startup_peak_memory_gb", None)
    if telemetry.startup_peak_memory_gb is None:
        seen["startup_peak_memory_gb"] = stated
    elif stated is not None and not math.isclose(stated, telemetry.startup_peak_memory_gb, rel_tol=SAME_MEMORY):
        raise UsageError(
            f"{facts.where('startup_peak_memory_gb')}: startup_peak_memory_gb is {stated:g}, but "
            f"{number(telemetry.startup_peak_memory_gb)} was measured: correct the file, or leave it blank"
        )
    stated_cold = known.pop("cold_share", None)
    retest_when = [*RETEST_WHEN, *known.pop("retest_when", [])]
    stated_quality = known.pop("quality_precondition", None)
    location = known.pop("evidence_location", f"{manifest.run_id}/")
    run = _stage_manifest(manifest, stage)
    closed = stage.mode == "closed"
    uncounted = stage.successful - sum(stage.token_sources.values())
    record = EvidenceRecord(
        test_id=f"{manifest.run_id}.s{stage.stage}.r{stage.round}",
        run_id=manifest.run_id,
        stage=stage.stage,
        round=stage.round,
        tested_at=datetime.fromtimestamp(run.start_ns // NS_PER_S, UTC).isoformat(),
        evidence_stage=stage.label,
        synthetic_engine=manifest.synthetic_engine,
        workload_name=manifest.workload.name or None,
        workload_kind=manifest.workload.kind,
        dataset_source=manifest.workload.source or None,
        workload_sha256=manifest.workload.sha256 or None,
        slices=[part.name for part in stage.slices],
        arrival_mode=stage.mode,
        arrival_process=stage.arrivals,
        streaming=manifest.streaming,
        request_rate_rps=stage.rate_rps,
        achieved_rate_rps=stage.achieved_rate_rps,
        concurrency=stage.concurrency if closed else stage.peak_in_flight,
        max_in_flight=manifest.max_in_flight,
        input_tokens_p50=_tokens(stage, "input_tokens_p50"),
        input_tokens_p95=_tokens(stage, "input_tokens_p95"),
        input_tokens_p99=_tokens(stage, "input_tokens_p99"),
        input_tokens_max=_tokens(stage, "input_tokens_max"),
        output_tokens_p50=_tokens(stage, "output_tokens_p50"),
        output_tokens_p95=_tokens(stage, "output_tokens_p95"),
        output_tokens_p99=_tokens(stage, "output_tokens_p99"),
        output_tokens_max=_tokens(stage, "output_tokens_max"),
        output_tokens_sources=stage.token_sources | ({"missing": uncounted} if uncounted else {}),
        cold_share=stage.cold.share if stage.cold is not None else stated_cold,
        success_criterion=_success(manifest),
        quality_precondition=_quality(manifest, stated_quality),
        warmup_requests=stage.warmup_requests,
        measured_requests=stage.measured,
        test_minutes=None if run.end_ns is None else (run.end_ns - run.start_ns) / NS_PER_S / 60,
        seconds_method=stage.seconds_method,
        deadline_s=manifest.deadline_s,
        drain_policy=DRAIN_POLICY if manifest.transcribed is None else None,
        percentile_method=PERCENTILE_METHOD,
        planned=stage.planned,
        attempted=stage.attempted,
        not_sent=stage.not_sent,
        lost=stage.lost,
        dispatched=stage.dispatched if manifest.transcribed is None else None,
        sent=stage.sent,
        successful_requests=stage.successful,
        failed_requests=stage.failed,
        outcomes=stage.outcomes,
        status_counts=stage.status_counts,
        quality_failures=stage.quality_failures,
        request_throughput_rps=stage.request_throughput_rps,
        output_throughput_tps=stage.output_throughput_tps,
        total_throughput_tps=stage.total_throughput_tps,
        ttft_p50_ms=_figure(stage, "ttft_p50_ms"),
        ttft_p95_ms=_figure(stage, "ttft_p95_ms"),
        ttft_p99_ms=_figure(stage, "ttft_p99_ms"),
        tpot_p50_ms=_figure(stage, "tpot_p50_ms"),
        tpot_p95_ms=_figure(stage, "tpot_p95_ms"),
        tpot_p99_ms=_figure(stage, "tpot_p99_ms"),
        e2e_p50_ms=_figure(stage, "e2e_p50_ms"),
        e2e_p95_ms=_figure(stage, "e2e_p95_ms"),
        e2e_p99_ms=_figure(stage, "e2e_p99_ms"),
        itl_p95_ms=_figure(stage, "itl_p95_ms"),
        max_gap_p95_ms=_figure(stage, "max_gap_p95_ms"),
        arrival_ttft_p95_ms=_figure(stage, "arrival_ttft_p95_ms"),
        arrival_e2e_p95_ms=_figure(stage, "arrival_e2e_p95_ms"),
        dispatch_lag_p99_ms=_figure(stage, "dispatch_lag_p99_ms"),
        cap_wait_p95_ms=_figure(stage, "cap_wait_p95_ms"),
        client_wait_p95_ms=_figure(stage, "client_wait_p95_ms"),
        slo=summary.slo,
        good_requests=stage.good_requests,
        goodput_unavailable=stage.goodput_unavailable,
        goodput_rps=stage.goodput_rps,
        attainment=stage.attainment,
        error_rate=stage.error_rate,
        completed_in_window_rps=stage.completed_in_window_rps,
        goodput_vllm_rps=stage.goodput_vllm_rps,
        seconds=stage.seconds,
        drain_seconds=stage.drain_seconds,
        in_flight_at_window_end=stage.in_flight_at_window_end,
        gates=[
            RecordGate(
                name=gate_name(gate),
                relation=gate.relation,
                limit=gate.limit,
                value=gate.value,
                passed=gate.passed,
                signed=gate.signed,
                default=gate.default,
            )
            for gate in stage.verdict.gates
            if gate.applicable
        ],
        gates_set="after" if "after" in (summary.limits_set, summary.gates_set) else "before",
        result=result,
        result_strength=stage.verdict.strength,
        verdict=stage.verdict.sentence,
        failing_dimensions=stage.verdict.failing_dimensions,
        generator=None
        if manifest.transcribed is not None
        else RecordGenerator(valid=stage.generator.valid, reasons=stage.generator.reasons),
        server_changes=stage.server_changes,
        rounds=_valid_rounds(summary, stage),
        evidence_grade="partial",  # until the record is there to be graded
        evidence_location=location,
        limitations=_limitations(summary, stage),
        retest_when=retest_when,
        **seen,
        **known,
    )
    if manifest.transcribed is not None:
        record.evidence_grade = "transcribed"
        record.evidence_grade_reasons = [f"the figures are those of a file of {manifest.transcribed.tool}"]
    else:
        record.evidence_grade, record.evidence_grade_reasons = grade(record)
    return record


def _success(manifest: Manifest) -> str:
    if manifest.transcribed is not None:
        return f"what {manifest.transcribed.tool} counted as a success"
    left = f"; a client that leaves as planned ({manifest.cancel}) is a failure" if manifest.cancel is not None else ""
    return f"a finish reason, output and no error within {manifest.deadline_s:g} s{left}"


def _quality(manifest: Manifest, stated: str | None) -> str | None:
    """What a person says was checked, and what the run itself checked; the count of failures is a figure of its own."""
    checked = f"replies were checked in the run by {manifest.quality}" if manifest.quality is not None else None
    return "; ".join(filter(None, (stated, checked))) or None


def _telemetry(stage: StageSummary) -> StageTelemetry:
    """What was read from the server and its devices during the stage."""
    found = stage_telemetry(stage.server) if stage.server is not None else NOT_READ
    device = stage.device
    if device is None:
        return found
    return msgspec.structs.replace(
        found,
        startup_peak_memory_gb=_gb(device.startup_peak_memory_bytes),
        peak_memory_gb=_gb(device.peak_memory_bytes),
        memory_tool=device.memory_tool,
        memory_scope=device.memory_scope,
        memory_kind=device.memory_kind,
    )


def _gb(size: int | None) -> float | None:
    # Of what cannot be none, 0 bytes is a reading that failed.
    return size / BYTES_PER_GB if size else None


def _stage_manifest(manifest: Manifest, stage: StageSummary) -> StageManifest:
    return next(m for m in manifest.stages if (m.spec.stage, m.spec.round) == (stage.stage, stage.round))


def _figure(stage: StageSummary, name: str) -> Figure:
    found = stage.percentiles.get(name)
    return found.value if found else None


def _tokens(stage: StageSummary, name: str) -> int | None:
    value = _figure(stage, name)
    return int(value) if isinstance(value, float) else None


def _valid_rounds(summary: RunSummary, stage: StageSummary) -> int:
    """Rounds of the stage's test point that measured something of one server with a valid generator."""
    point = next(p for p in points(summary.stages) if any(s is stage for s in p.stages))
    return sum(s.generator.valid and not s.server_changes and s.measured > 0 for s in point.stages)


def _limitations(summary: RunSummary, stage: StageSummary) -> list[str]:
    """What never is said, what the run does not say, and what this stage does not."""
    found = [*FIXED_LIMITATIONS, *(said for said in summary.limitations if said not in FIXED_LIMITATIONS)]
    few = [
        f"{name} (n = {stage.percentiles[name].n})"
        for name in LATENCY_PERCENTILES
        if name in stage.percentiles and stage.percentiles[name].at_maximum
    ]
    if few:
        found.append(f"Too few requests to tell these percentiles from the maximum: {', '.join(few)}.")
    if stage.buffered_requests:
        found.append(f"{stage.buffered_requests} replies were buffered on their way: they have no TPOT.")
    return found
