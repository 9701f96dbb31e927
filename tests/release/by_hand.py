"""Runs that earn a release, written by hand: 100 measured in 60 s at 2 req/s, all good, three rounds, every gate signed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from llm_locust.analysis.evidence import evidence_record
from llm_locust.analysis.release import RecordFile, ReleasedRun, ReleaseVerdict, judge_release
from llm_locust.records import NS_PER_S, Manifest, StageManifest, StageSpec
from llm_locust.records.facts import Facts
from llm_locust.records.summary import FailingDimension, Gate, Reconciliation, RunSummary, StageSummary, StageVerdict
from tests.evidence import by_hand

GATES = ["attainment>=0.95", "error_rate<=0.01", "ttft_p95<=1000", "ttft_p99<=1500"]

AT = "2026-11-30T12:00:00+00:00"


def gate(name: str, relation: Any, limit: float | str, value: float | str, **changes: Any) -> Gate:
    given: dict[str, Any] = {"passed": True, "signed": True, "default": False}
    return Gate(name=name, relation=relation, limit=limit, value=value, **(given | changes))


def gates(**changes: Gate | None) -> list[Gate]:
    """The chosen gates and those that stand beside them; ``None`` leaves one out."""
    found = {
        "attainment": gate("attainment", ">=", 0.95, 1.0),
        "error_rate": gate("error_rate", "<=", 0.01, 0.0),
        "ttft_p95": gate("ttft_p95", "<=", 1000.0, 800.0),
        "ttft_p99": gate("ttft_p99", "<=", 1500.0, 950.0),
        "oom": gate("oom", "=", 0.0, 0.0),
        "in_flight_trend": gate("in_flight_trend", "=", "flat", "flat"),
    }
    return [one for one in (found | changes).values() if one is not None]


def verdict(result: Any = "pass", strength: Any = "signed", of: list[Gate] | None = None) -> StageVerdict:
    failing = [FailingDimension(name="ttft", detail="60 of 100 over 500 ms")] if result == "fail" else []
    found = gates() if of is None else of
    if result == "fail":
        found = gates(attainment=gate("attainment", ">=", 0.95, 0.4, passed=False))
    return StageVerdict(
        result=result,
        strength=strength if result in ("pass", "fail") else None,
        sentence="as it was judged",
        gates=found,
        failing_dimensions=failing,
    )


def passing(stage: int = 0, round: int = 0, rate: float | None = 2.0, **changes: Any) -> StageSummary:
    """A round in which all 100 were good, 50 good output tokens per second, at most 9 in flight."""
    given: dict[str, Any] = {
        "stage": stage, "round": round, "label": f"open {rate:g}/s poisson" if rate else "closed", "rate_rps": rate,
        "successful": 100, "failed": 0, "sent": 100, "outcomes": {"ok": 100}, "status_counts": {"200": 100},
        "achieved_rate_rps": 100 / 60, "request_throughput_rps": 100 / 60, "good_requests": 100, "goodput_rps": 100 / 60,
        "attainment": 1.0, "error_rate": 0.0, "token_sources": {"usage": 100}, "verdict": verdict(),
        "good_output_tokens_in_window_tps": 50.0, **by_hand.SEEN,
    }  # fmt: skip
    return by_hand.stage(**(given | changes))


def failing(stage: int = 1, round: int = 0, rate: float = 4.0, **changes: Any) -> StageSummary:
    given: dict[str, Any] = {"good_requests": 40, "goodput_rps": 40 / 60, "attainment": 0.4, "verdict": verdict("fail")}
    return passing(stage, round, rate, **(given | changes))


def closed(concurrency: int, stage: int = 2, round: int = 0, **changes: Any) -> StageSummary:
    percentiles = {
        name: of
        for name, of in by_hand.percentiles().items()
        if not name.startswith(("arrival_", "dispatch_lag", "client_wait"))
    }
    given: dict[str, Any] = {
        "label": f"closed C={concurrency}", "mode": "closed", "arrivals": None, "concurrency": concurrency,
        "peak_in_flight": concurrency, "percentiles": percentiles,
    }  # fmt: skip
    return passing(stage, round, None, **(given | changes))


def rounds(of: Any, count: int = 3, **changes: Any) -> list[StageSummary]:
    return [of(round=k, **changes) for k in range(count)]


def run(
    *stages: StageSummary,
    run_id: str = "run-1",
    summary: dict[str, Any] | None = None,
    minutes: float = 1.5,
    **changes: Any,
) -> ReleasedRun:
    """A run of these stages, each as long; ``summary`` changes its summary, ``changes`` its manifest."""
    seed = changes.get("seed", 1)
    given: dict[str, Any] = {
        "run_id": run_id,
        "gates": GATES,
        "facts": by_hand.FACTS,
        "stages": [_manifest(stage, seed, minutes) for stage in stages],
        "ended_at": "2026-09-21T14:20:00+00:00",
    }
    manifest = by_hand.manifest(**(given | changes))
    of_summary: dict[str, Any] = {
        "run_id": run_id,
        "gates": GATES,
        "price_per_hour": 3.6,
        "workload_kind": manifest.workload.kind,
        "slo": manifest.slo,
        "reconciliation": Reconciliation(planned=142, attempted=140, not_sent=2, lost=0),
    }
    found = by_hand.summary(*stages, **(of_summary | (summary or {})))
    return ReleasedRun(manifest, found, filed(manifest, found))


def _manifest(stage: StageSummary, seed: int, minutes: float) -> StageManifest:
    open_ = stage.mode == "open"
    spec = StageSpec(
        stage=stage.stage, round=stage.round, mode=stage.mode, rate_rps=stage.rate_rps, concurrency=stage.concurrency,
        arrivals=stage.arrivals or "poisson", warmup_s=10.0, window_s=60.0, cooldown_s=10.0 if open_ else 0.0, seed=seed,
        first_index=0,
    )  # fmt: skip
    (like,) = by_hand.manifest().stages
    return msgspec.structs.replace(like, spec=spec, end_ns=like.start_ns + round(minutes * 60 * NS_PER_S))


def filed(manifest: Manifest, summary: RunSummary) -> dict[tuple[int, int], RecordFile]:
    found = {}
    for stage in summary.stages:
        if stage.verdict.result == "not_run":
            continue
        record = evidence_record(manifest, summary, stage, Facts(manifest.facts))
        raw = msgspec.json.encode(record)
        name = f"{manifest.run_id}/records/stage-{stage.stage}-round-{stage.round}.json"
        found[stage.stage, stage.round] = RecordFile(name, hashlib.sha256(raw).hexdigest(), msgspec.json.decode(raw))
    return found


def released(*runs: ReleasedRun, **options: Any) -> ReleaseVerdict:
    return judge_release(runs, at=AT, version="0.1.0", **options)


def unmet(found: ReleaseVerdict) -> dict[str, str]:
    """What is not met, with what was found."""
    return {one.name: one.found for one in found.refused_for if one.met is False}


def undecided(found: ReleaseVerdict) -> Sequence[str]:
    return [one.name for one in found.refused_for if one.met is None]
