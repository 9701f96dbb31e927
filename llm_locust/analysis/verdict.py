"""The judgement of one stage in a word and a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from llm_locust.analysis.gates import gate_name, stage_gates
from llm_locust.analysis.samples import requests_needed
from llm_locust.analysis.server_against_client import between
from llm_locust.analysis.server_gates import queue_percentile
from llm_locust.analysis.words import counts, number, percent
from llm_locust.records.gates import OF_THE_SERVER, GateSpec, Kind, gate_figure
from llm_locust.records.quality import QUALITY
from llm_locust.records.summary import (
    BatchFigures,
    FailingDimension,
    Gate,
    Result,
    StageSummary,
    StageVerdict,
    Strength,
)

NOT_JUDGED = StageVerdict(result="undetermined", sentence="not judged yet")
"""The verdict of figures that nobody has judged yet."""


def judge_stage(stage: StageSummary, chosen: Sequence[GateSpec] = (), *, capped: bool = False) -> StageVerdict:
    """The verdict of a stage. What voids it is asked before what it shows: losses, then cuts, then the gates.

    Args:
        stage: Its figures.
        chosen: What it must hold; none for the defaults.
        capped: Whether the run had a cap (``--max-in-flight``), which can hold open arrivals back.
    """
    gates = stage_gates(stage, chosen)
    failing = failing_dimensions(stage, gates)

    def verdict(result: Result, sentence: str, strength: Strength | None = None) -> StageVerdict:
        return StageVerdict(
            result=result,
            strength=strength,
            sentence=sentence,
            gates=gates,
            failing_dimensions=failing if result == "fail" else [],
        )

    if stage.planned == 0:
        return verdict("not_run", "not run: no arrival was due")
    if stage.measured == 0 and stage.interrupted is not None:
        return verdict("undetermined", f"interrupted ({stage.interrupted}) before anything was measured")
    if stage.transcribed_from is not None:
        return verdict("undetermined", _transcribed(stage.transcribed_from, gates, failing))
    voided = [] if stage.generator.valid else ["generator-limited: " + "; ".join(stage.generator.reasons)]
    if stage.server_changes:
        voided.append("not the same server from start to end of the run: " + "; ".join(stage.server_changes))
    if voided:
        return verdict("invalid", "; ".join(voided))
    if stage.measured == 0:
        return verdict("undetermined", "nothing was due inside the measurement window: only warm-up or cool-down ran")
    if stage.interrupted is not None:
        sofar = f"{number(stage.seconds)} s of the window were measured: {_so_far(stage)}"
        return verdict("undetermined", f"cut short ({stage.interrupted}); {sofar}")
    asked = [gate for gate in gates if gate.applicable]
    failed = [gate for gate in asked if gate.passed is False]
    if failed:
        strength: Strength = "signed" if any(gate.signed for gate in failed) else "candidate"
        found = verdict("fail", "; ".join(f"{d.name}: {d.detail}" for d in failing), strength)
    elif any(gate.passed is None for gate in asked):
        found = verdict("undetermined", _undetermined(asked))
    else:
        strength = "signed" if all(gate.signed for gate in asked) else "candidate"
        found = verdict("pass", _shown(stage, gates, capped=capped), strength)
    return _with_needs(stage, asked, found)


def _transcribed(tool: str, gates: list[Gate], failing: list[FailingDimension]) -> str:
    """What the gates say of rows that another tool's load generator made."""
    asked = [gate for gate in gates if gate.applicable]
    if any(gate.passed is False for gate in asked):
        shown = "by its rows it fails: " + "; ".join(f"{d.name}: {d.detail}" for d in failing)
    elif any(gate.passed is None for gate in asked):
        shown = "by its rows it cannot be told: " + _undetermined(asked)
    else:
        shown = "by its rows every gate holds"
    return f"transcribed from {tool}, whose load generator was not seen, so neither pass nor fail; {shown}"


def _with_needs(stage: StageSummary, asked: list[Gate], found: StageVerdict) -> StageVerdict:
    """How many requests, and how long a window, could sign the result."""
    if found.strength == "signed":
        return found
    needed = requests_needed(stage, asked, found.result)
    if needed is None or needed <= stage.measured:
        return found
    seconds = None if not stage.seconds else math.ceil(needed * stage.seconds / stage.measured)
    return msgspec.structs.replace(found, requests_needed=needed, seconds_needed=seconds)


def needs_words(requests: int | None, seconds: float | None, measured: int) -> str | None:
    """``too few samples (120): to sign it, at least 381 are needed, a window of 191 s at this rate``."""
    if requests is None:
        return None
    long = f", a window of {number(seconds)} s at this rate" if seconds is not None else ""
    return f"too few samples ({measured}): to sign it, at least {requests} are needed{long}"


def _so_far(stage: StageSummary) -> str:
    """What there is of a stage that was cut short: counts, since shares would hold the cut against the server."""
    ours = ("cancelled", "not_sent")
    parts = [f"{stage.successful} of {stage.measured} ok"]
    parts += [f"{stage.outcomes[name]} {name.replace('_', ' ')}" for name in ours if stage.outcomes.get(name)]
    failed = stage.failed - sum(stage.outcomes.get(name, 0) for name in ours)
    if failed:
        parts.append(f"{failed} failed")
    return ", ".join(parts)


def _shown(stage: StageSummary, gates: list[Gate], *, capped: bool) -> str:
    parts = []
    if stage.attainment is not None:
        parts.append(f"attainment {percent(stage.attainment)}")
    parts.append(f"error rate {percent(stage.error_rate, up=True)}")
    parts += [f"{gate_name(gate)} {_value(gate, stage)}" for gate in gates if _kind(gate) in _SHOWN]
    if stage.in_flight_trend is not None:
        parts.append(f"in-flight {stage.in_flight_trend.state}")
    if stage.waiting_trend is not None and any(gate.name == "waiting_trend" and gate.applicable for gate in gates):
        parts.append(f"waiting in the server {stage.waiting_trend.state}")
    parts.append(f"{stage.measured} measured")
    wait = stage.percentiles["cap_wait_p95_ms"].value if "cap_wait_p95_ms" in stage.percentiles else None
    judged = any(gate.name.startswith(("cap_wait", "client_wait", "arrival_")) for gate in gates)
    waited = wait == "inf" or (isinstance(wait, float) and wait > stage.generator.lag_bound_ms)
    # In a closed loop nothing is planned, so nothing waits: there it is the moment from making a request to sending it.
    if waited and not judged and stage.mode == "open":
        whose = "held back by --max-in-flight" if capped else "sent late by the generator, after they were taken up,"
        parts.append(
            f"{whose} for P95 {number(wait)} ms (only the limits arrival_ttft and arrival_e2e count this wait)"
        )
    if not stage.limits and not any(_kind(gate) == "latency" for gate in gates):
        parts.append("no limits were chosen, so latency was not judged")
    return ", ".join(parts)


_SHOWN = ("latency", "level", "percent")
"""Kinds of gates whose values stand in the sentence of a pass."""


def _kind(gate: Gate) -> Kind:
    figure = gate_figure(gate.name)
    return figure.kind if figure is not None else "count"


def _value(gate: Gate, stage: StageSummary) -> str:
    """The value of a gate with its unit; of a percentile out of a histogram as much as is known."""
    bucket = queue_percentile(gate.name, stage)
    return _quantity(gate, gate.value) if bucket is None else between(bucket)


def _quantity(gate: Gate, value: float | str | None) -> str:
    """A value or a limit with its unit."""
    kind = _kind(gate)
    if kind == "share" and isinstance(value, float | int):
        return percent(value, up=gate.relation == "<=")
    unit = {"latency": " ms", "rate": " req/s", "percent": " %"}.get(kind, "")
    return f"{number(value)}{unit}"


def _undetermined(asked: list[Gate]) -> str:
    reasons = []
    for gate in asked:
        if gate.passed is not None:
            continue
        reason = gate.reason or "not measured"
        if gate.slice is None and gate.name in ("attainment", "goodput"):
            reasons.append(reason)
        elif gate.name == "in_flight_trend":
            reasons.append(f"in-flight {reason}")
        else:
            reasons.append(f"{gate_name(gate)}: {reason}")
    return "; ".join(dict.fromkeys(reasons))


def failing_dimensions(stage: StageSummary, gates: list[Gate]) -> list[FailingDimension]:
    """Which gates failed and what is behind them: the greatest number of requests first, then figures, then slices."""
    found = _of_batch(stage, [gate for gate in gates if gate.slice is None], "")
    for of in stage.slices:
        found += _of_batch(of, [gate for gate in gates if gate.slice == of.name], f"{of.name}:")
    return [*found, *(_of_server(stage, gate) for gate in gates if gate.name in OF_THE_SERVER and gate.passed is False)]


def _of_server(stage: StageSummary, gate: Gate) -> FailingDimension:
    """A failed gate about the server (or the number in flight) as a whole."""
    trend = {"in_flight_trend": stage.in_flight_trend, "waiting_trend": stage.waiting_trend}.get(gate.name)
    if trend is not None:
        return FailingDimension(name=gate.name, detail=trend.detail)
    side = f"{_side(gate)} {number(gate.limit)}" if _kind(gate) == "level" else f"over {_quantity(gate, gate.limit)}"
    return FailingDimension(name=gate.name, detail=f"{_value(gate, stage)}, {side}")


def _of_batch(figures: BatchFigures, gates: list[Gate], prefix: str) -> list[FailingDimension]:
    failed = {gate.name: gate for gate in gates if gate.passed is False}
    bad = {name: count for name, count in figures.outcomes.items() if name != "ok"}
    found: list[tuple[float, FailingDimension]] = []

    def add(name: str, detail: str, requests: float = 0) -> None:
        found.append((requests, FailingDimension(name=prefix + name, detail=detail)))

    if failed.keys() & {"attainment", "goodput"}:
        for limit in figures.limits:
            if limit.missed:
                what = "not passed" if limit.name == QUALITY else f"over {number(limit.limit_ms)} ms"
                add(limit.name, f"{limit.missed} of {limit.judged} {what}", limit.missed)
    if figures.failed and failed.keys() & {"attainment", "error_rate", "goodput"}:
        # Of a stage that ran its time, only the cap leaves arrivals unsent: that is this run's choice, not the server's.
        cap = ", held back by this run's own --max-in-flight" if bad.get("not_sent") else ""
        add("error_rate", f"{figures.failed} of {figures.measured} failed: {counts(bad)}{cap}", figures.failed)
    for name, gate in failed.items():
        if name in OF_THE_SERVER or name in ("attainment", "error_rate"):
            continue
        if name == "oom" and isinstance(gate.value, float):
            add("oom", f"{number(gate.value)} requests found the server out of memory", gate.value)
        elif _kind(gate) == "count" and isinstance(gate.value, float):
            add(name, f"{number(gate.value)} of {figures.measured}, {_side(gate)} {number(gate.limit)}", gate.value)
        else:
            over = "under" if gate.relation == ">=" else "over"
            add(name, f"{_quantity(gate, gate.value)}, {over} {_quantity(gate, gate.limit)}")
    found.sort(key=lambda pair: -pair[0])
    return [dimension for _, dimension in found]


def _side(gate: Gate) -> str:
    return "at most" if gate.relation == "<=" else "not"
