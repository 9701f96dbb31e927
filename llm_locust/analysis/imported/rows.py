"""An imported run in the form of an own one: its manifest, the rows that were issued, the rows of what became of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from llm_locust.analysis.imported.base import NS_PER_S, ImportedRequest, ImportedRun, ImportedStage
from llm_locust.records import (
    Manifest,
    PlanRow,
    RequestRecord,
    StageManifest,
    StageSpec,
    StageWorker,
    Transcribed,
    WorkloadFacts,
)
from llm_locust.records.run import request_id


def transcribed_manifest(run: ImportedRun, run_id: str, file: str, sha256: str, slo: dict[str, float]) -> Manifest:
    """The manifest of an imported run.

    Args:
        run: What the file holds.
        run_id: The name of its folder.
        file: The name of the file.
        sha256: Of its bytes.
        slo: Per-request limits in milliseconds, set afterwards.
    """
    first = min(request.sent_ns for stage in run.stages for request in stage.requests)
    stages, index = [], 0
    for number, stage in enumerate(run.stages):
        stages.append(_stage(run, stage, number, index))
        index += len(stage.requests)
    return Manifest(
        run_id=run_id,
        state="complete",
        started_at=datetime.fromtimestamp(first // NS_PER_S, UTC).isoformat().replace("+00:00", "Z"),
        host=run.target or "not told",
        model=run.model,
        users=[run.tool],
        seed=0,
        deadline_s=run.deadline_s,
        max_in_flight=run.max_in_flight,
        streaming=run.streaming,
        slo=slo,
        workload=WorkloadFacts(name=run.workload, kind="synthetic", source=f"{run.tool}, {file}", sha256=""),
        stages=stages,
        transcribed=Transcribed(tool=run.tool, version=run.version, file=file, sha256=sha256, lacks=run.lacks),
    )


def _stage(run: ImportedRun, stage: ImportedStage, number: int, first_index: int) -> StageManifest:
    measured = [request for request in stage.requests if request.phase == "measure"]
    return StageManifest(
        spec=StageSpec(
            stage=number,
            mode=stage.mode,
            rate_rps=stage.rate_rps,
            arrivals=stage.arrivals,
            concurrency=stage.concurrency,
            warmup_s=0.0,
            window_s=None,
            requests=len(measured),
            cooldown_s=0.0,
            seed=0,
            first_index=first_index,
        ),
        start_ns=min(request.sent_ns for request in stage.requests),
        window_start_ns=min(request.sent_ns for request in measured),
        window_end_ns=None,
        end_ns=max(request.end_ns for request in stage.requests) + 1,
        workers=[StageWorker(worker=0, client_id=run.tool, rank=0)],
    )


def run_records(run: ImportedRun, run_id: str) -> tuple[list[PlanRow], list[RequestRecord]]:
    """Every request as an issued row and as a terminal one, in the order of sending."""
    issued, records = [], []
    for number, index, request in _numbered(run):
        name = request.request_id or request_id(run_id, index)
        issued.append(
            PlanRow(
                run_id=run_id,
                stage=number,
                phase=request.phase,
                index=index,
                request_id=name,
                worker=0,
                user=run.tool,
                planned_ns=request.planned_ns,
            )
        )
        records.append(
            RequestRecord(
                run_id=run_id,
                stage=number,
                phase=request.phase,
                index=index,
                request_id=name,
                worker=0,
                user=run.tool,
                planned_ns=request.planned_ns,
                sent_ns=request.sent_ns,
                first_output_ns=request.first_output_ns,
                first_answer_ns=request.first_answer_ns,
                last_output_ns=request.last_output_ns,
                complete_ns=request.complete_ns,
                end_ns=request.end_ns,
                outcome=request.outcome,
                status=request.status,
                error=request.error,
                prompt_tokens=request.prompt_tokens,
                output_tokens=request.output_tokens,
                output_tokens_source=request.output_tokens_source,
                cached_tokens=request.cached_tokens,
                output_events=request.output_events,
                max_gap_ns=request.max_gap_ns,
                gaps_us=request.gaps_us,
            )
        )
    return issued, records


def _numbered(run: ImportedRun) -> Iterator[tuple[int, int, ImportedRequest]]:
    index = 0
    for number, stage in enumerate(run.stages):
        for request in sorted(stage.requests, key=lambda one: one.sent_ns):
            yield number, index, request
            index += 1
