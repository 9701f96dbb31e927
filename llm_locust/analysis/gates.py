"""What a stage must hold to pass, and the judgement of one stage in a word and a sentence."""

from __future__ import annotations

from typing import NamedTuple

from llm_locust.analysis.words import counts, number, percent
from llm_locust.records.summary import (
    FailingDimension,
    Figure,
    Gate,
    GeneratorHealth,
    InFlightTrend,
    Interval,
    LimitCount,
    Result,
    StageVerdict,
    Strength,
)

MIN_ATTAINMENT = 0.95
MAX_ERROR_RATE = 0.01


class Evidence(NamedTuple):
    """The figures of a stage that its verdict rests on."""

    planned: int
    """Arrivals due in the whole stage."""
    measured: int
    failed: int
    outcomes: dict[str, int]
    """Of the batch."""
    oom: int
    """In the whole stage: memory that runs out during the warm-up has run out too."""
    limits: list[LimitCount]
    attainment: float | None
    attainment_interval: Interval | None
    goodput_unavailable: str | None
    error_rate: float | None
    error_rate_interval: Interval | None
    trend: InFlightTrend | None
    generator: GeneratorHealth
    interrupted: str | None
    seconds: float | None
    cap_wait_p95_ms: Figure
    """Named in the sentence when it is felt: limits from ``sent`` on do not see it."""


def default_gates(evidence: Evidence) -> list[Gate]:
    """Attainment >= 0.95 (when limits were chosen), error rate <= 0.01, oom = 0, in-flight flat (open arrivals)."""
    gates: list[Gate] = []
    if evidence.limits:
        value, interval = evidence.attainment, evidence.attainment_interval
        passed = None if value is None else value >= MIN_ATTAINMENT
        signed = interval is not None and (interval.low >= MIN_ATTAINMENT if passed else interval.high < MIN_ATTAINMENT)
        gates.append(
            Gate(name="attainment", relation=">=", limit=MIN_ATTAINMENT, value=value, passed=passed, signed=signed)
        )
    value, interval = evidence.error_rate, evidence.error_rate_interval
    passed = None if value is None else value <= MAX_ERROR_RATE
    signed = interval is not None and (interval.high <= MAX_ERROR_RATE if passed else interval.low > MAX_ERROR_RATE)
    gates.append(
        Gate(name="error_rate", relation="<=", limit=MAX_ERROR_RATE, value=value, passed=passed, signed=signed)
    )
    nothing = evidence.measured == 0 and evidence.oom == 0
    gates.append(
        Gate(
            name="oom",
            relation="=",
            limit=0,
            value=None if nothing else float(evidence.oom),
            passed=None if nothing else evidence.oom == 0,
            signed=not nothing,  # a count of what happened has no interval to clear
        )
    )
    trend = evidence.trend
    # A falling number in flight is no queue building up, but no steady state either: it neither fails nor passes.
    held = None if trend is None else {"flat": True, "rising": False}.get(trend.state)
    gates.append(
        Gate(
            name="in_flight_trend",
            relation="=",
            limit="flat",
            value=None if trend is None else trend.state,
            passed=held,
            signed=held is not None,  # the trend is a test in itself, with its own level
            applicable=trend is not None,
        )
    )
    return gates


def judge_stage(evidence: Evidence) -> StageVerdict:
    """The verdict of a stage. What voids it is asked before what it shows: losses, then cuts, then the gates."""
    gates = default_gates(evidence)
    failing = _failing_dimensions(evidence, gates)

    def verdict(result: Result, sentence: str, strength: Strength | None = None) -> StageVerdict:
        shown = failing if result == "fail" else []
        return StageVerdict(result=result, strength=strength, sentence=sentence, gates=gates, failing_dimensions=shown)

    if evidence.planned == 0:
        return verdict("not_run", "not run: no arrival was due")
    if evidence.measured == 0 and evidence.interrupted is not None:
        return verdict("undetermined", f"interrupted ({evidence.interrupted}) before anything was measured")
    if not evidence.generator.valid:
        return verdict("invalid", "generator-limited: " + "; ".join(evidence.generator.reasons))
    if evidence.measured == 0:
        return verdict("undetermined", "nothing was due inside the measurement window: only warm-up or cool-down ran")
    if evidence.interrupted is not None:
        sofar = f"{number(evidence.seconds)} s of the window were measured: {_shown(evidence)}"
        return verdict("undetermined", f"cut short ({evidence.interrupted}); {sofar}")
    asked = [gate for gate in gates if gate.applicable]
    failed = [gate for gate in asked if gate.passed is False]
    if failed:
        strength: Strength = "signed" if any(gate.signed for gate in failed) else "candidate"
        return verdict("fail", "; ".join(f"{d.name}: {d.detail}" for d in failing), strength)
    if any(gate.passed is None for gate in asked):
        return verdict("undetermined", _undetermined(evidence, asked))
    strength = "signed" if all(gate.signed for gate in asked) else "candidate"
    return verdict("pass", _shown(evidence), strength)


def _shown(evidence: Evidence) -> str:
    parts = []
    if evidence.attainment is not None:
        parts.append(f"attainment {percent(evidence.attainment)}")
    parts.append(f"error rate {percent(evidence.error_rate, up=True)}")
    if evidence.trend is not None:
        parts.append(f"in-flight {evidence.trend.state}")
    parts.append(f"{evidence.measured} measured")
    wait = evidence.cap_wait_p95_ms
    if wait == "inf" or (isinstance(wait, float) and wait > evidence.generator.lag_bound_ms):
        parts.append(f"held back by --max-in-flight for P95 {number(wait)} ms, which only limits from arrival count")
    if not evidence.limits:
        parts.append("no limits were chosen, so latency was not judged")
    return ", ".join(parts)


def _undetermined(evidence: Evidence, asked: list[Gate]) -> str:
    reasons = []
    for gate in asked:
        if gate.passed is None and gate.name == "attainment":
            reasons.append(f"goodput cannot be given: {evidence.goodput_unavailable or 'nothing was measured'}")
        elif gate.passed is None and gate.name == "in_flight_trend" and evidence.trend is not None:
            reasons.append(f"in-flight {evidence.trend.state}: {evidence.trend.detail}")
        elif gate.passed is None:
            reasons.append(f"{gate.name} was not measured")
    return "; ".join(reasons)


def _failing_dimensions(evidence: Evidence, gates: list[Gate]) -> list[FailingDimension]:
    """Which gates failed and what is behind them, the greatest number of requests first."""
    failed = {gate.name for gate in gates if gate.passed is False}
    bad = {name: count for name, count in evidence.outcomes.items() if name != "ok"}
    found: list[tuple[float, FailingDimension]] = []
    if "attainment" in failed:
        found += [
            (
                limit.missed,
                FailingDimension(
                    name=limit.name, detail=f"{limit.missed} of {limit.judged} over {number(limit.limit_ms)} ms"
                ),
            )
            for limit in evidence.limits
            if limit.missed
        ]
    if evidence.failed and failed & {"attainment", "error_rate"}:
        detail = f"{evidence.failed} of {evidence.measured} failed: {counts(bad)}"
        found.append((evidence.failed, FailingDimension(name="error_rate", detail=detail)))
    if "oom" in failed:
        detail = f"{evidence.oom} requests found the server out of memory"
        found.append((evidence.oom, FailingDimension(name="oom", detail=detail)))
    found.sort(key=lambda pair: -pair[0])
    dimensions = [dimension for _, dimension in found]
    if "in_flight_trend" in failed and evidence.trend is not None:
        dimensions.append(FailingDimension(name="in_flight_trend", detail=evidence.trend.detail))
    return dimensions
