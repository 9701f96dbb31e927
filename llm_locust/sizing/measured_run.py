"""What a judged run says for sizing: the output tokens it gave, and up to where tail latency and errors held.

Only what passed counts: throughput beyond the limits is no supply, and a pass above a fail is no bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from llm_locust.analysis.boundary import ladder_of
from llm_locust.analysis.points import Point, points
from llm_locust.records.gates import TRENDS, gate_figure
from llm_locust.records.stage_summary import Gate, StageSummary
from llm_locust.records.summary import RunSummary

Side = Literal["tail_latency", "error_rate"]
"""The two kinds of limit that a measurement is asked for."""


class MeasuredBound(msgspec.Struct, frozen=True, kw_only=True):
    """Up to where one kind of limit held in a run."""

    concurrency: int | None = None
    """Requests in flight of the highest point that held it: chosen in a closed loop, at the peak of open arrivals. 0: the
    lowest point did not. ``None``: cannot be told, and ``reason`` says why."""
    rate_rps: float | None = None
    """The rate of that point; ``None`` for a closed loop."""
    held: str | None = None
    """The point in words."""
    broken: str | None = None
    """The first point that did not hold it; ``None``: none that was tested."""
    reason: str | None = None


class MeasuredRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run as far as sizing goes."""

    run_id: str
    output_tokens_s: float | None
    """The most that a passing point gave inside its window, of its slowest round."""
    output_tokens_at: str | None
    """That point."""
    tail_latency: MeasuredBound
    error_rate: MeasuredBound


def measured_run(summary: RunSummary) -> MeasuredRun:
    """Read the bounds and the supply out of a run's summary."""
    found = points(summary.stages)
    # One mode per curve: a closed loop says concurrencies; else the ladder of rates, without bursts beside it.
    closed = [point for point in found if point.stages[0].mode == "closed"]
    ladder = closed or ladder_of(found)
    best: tuple[float, str] | None = None
    for point in found:
        tokens = [stage.output_tokens_in_window_tps for stage in point.stages]
        known = [value for value in tokens if value is not None]
        if point.result == "pass" and known and len(known) == len(tokens):
            best = max(best or (0.0, ""), (min(known), point.name))
    return MeasuredRun(
        run_id=summary.run_id,
        output_tokens_s=best[0] if best else None,
        output_tokens_at=best[1] if best else None,
        tail_latency=_bound(ladder, "tail_latency"),
        error_rate=_bound(ladder, "error_rate"),
    )


def _bound(ladder: Sequence[Point], side: Side) -> MeasuredBound:
    if not ladder:
        return MeasuredBound(reason="the run has no stage")
    held: Point | None = None
    told = False
    for point in ladder:
        holds = [_holds(stage, side) for stage in point.stages]
        if False in holds:
            return _up_to(held, point)
        if None not in holds:
            held, told = point, True
    if told:
        return _up_to(held, None)
    if side == "tail_latency" and not any(_latency_gates(stage) for point in ladder for stage in point.stages):
        return MeasuredBound(
            reason="the run was held to no latency limit: run it with --slo or a gate such as ttft_p95"
        )
    return MeasuredBound(reason="no stage of the run was judged: they are invalid or undetermined")


def _up_to(held: Point | None, broken: Point | None) -> MeasuredBound:
    name = None if broken is None else broken.name
    if held is None:
        return MeasuredBound(concurrency=0, broken=name)
    first = held.stages[0]
    if first.mode == "closed":
        return MeasuredBound(concurrency=first.concurrency, held=held.name, broken=name)
    peaks = [stage.peak_in_flight for stage in held.stages]
    known = [peak for peak in peaks if peak is not None]
    return MeasuredBound(
        concurrency=min(known) if len(known) == len(peaks) else None,
        rate_rps=first.rate_rps,
        held=held.name,
        broken=name,
        reason=None if len(known) == len(peaks) else "how many were in flight was not measured",
    )


def _holds(stage: StageSummary, side: Side) -> bool | None:
    """Whether one stage kept this kind of limit; ``None`` when it cannot be told."""
    verdict = stage.verdict
    if verdict.result in ("invalid", "not_run"):
        return None
    # What an attainment below its limit is due to is in the failing dimensions, so they decide and not the gate.
    if any(_side(dimension.name) == side for dimension in verdict.failing_dimensions):
        return False
    gates = _latency_gates(stage) if side == "tail_latency" else [g for g in verdict.gates if _side(g.name) == side]
    if not gates or any(gate.passed is None for gate in gates if gate.applicable):
        return None
    return True


def _latency_gates(stage: StageSummary) -> list[Gate]:
    """Gates that a slow request can break; that nothing piles up is no latency limit yet."""
    found = [gate for gate in stage.verdict.gates if _side(gate.name) == "tail_latency"]
    return found if any(gate.name not in TRENDS for gate in found) else []


def _side(name: str) -> Side:
    """The kind of limit behind a gate or a failing dimension, with its slice or without; what is no error is latency."""
    name = name.rpartition(":")[2]
    if name in ("error_rate", "reject_rate", "quality", "quality_rate"):
        return "error_rate"
    figure = gate_figure(name)
    return "error_rate" if figure is not None and figure.kind == "count" else "tail_latency"
