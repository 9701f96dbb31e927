"""Where open arrivals stop being served well, and where a closed loop stops gaining."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from llm_locust.analysis.points import Point
from llm_locust.analysis.words import number, percent
from llm_locust.records.summary import Boundary, Knee, Percentile, Strength

ROUNDS_TO_PUBLISH = 3

NEARLY_ALL = 0.95
"""Of the throughput to be had within the limits: what more in flight adds beyond is bought with latency alone."""


def ladder_of(found: Sequence[Point]) -> list[Point]:
    """The open points of the arrival process that most of them have: other processes are bursts or replays beside it."""
    rates = [point for point in found if point.stages[0].mode == "open" and point.stages[0].condition is None]
    processes = [point.stages[0].arrivals for point in rates]
    main = max(dict.fromkeys(processes), key=processes.count, default=None)
    return [point for point in rates if point.stages[0].arrivals == main]


def boundary(found: Sequence[Point]) -> tuple[Point | None, Point | None]:
    """The highest rate that passed below the lowest that failed, and that lowest failing one."""
    rates = ladder_of(found)
    failing = next((point for point in rates if point.result == "fail"), None)
    below = rates[: rates.index(failing)] if failing else rates
    passing = [point for point in below if point.result == "pass"]
    return (passing[-1] if passing else None), failing


def describe_boundary(found: Sequence[Point]) -> Boundary | None:
    """The boundary as numbers, and what it leaves open; ``None`` without open arrivals."""
    rates = ladder_of(found)
    if not rates:
        return None
    passing, failing = boundary(found)
    last = passing.stages[0].rate_rps if passing else None
    first = failing.stages[0].rate_rps if failing else None
    bursts = [
        point
        for point in found
        if point.stages[0].mode == "open" and point not in rates and last is not None and _same_rate(point, last)
    ]
    burst = bursts[0] if bursts else None
    return Boundary(
        last_pass_rps=last,
        first_fail_rps=first,
        interval_share=(first - last) / last if first is not None and last else None,
        failing_dimensions=failing.deciding.verdict.failing_dimensions if failing else [],
        burst=burst.result if burst else None,
        burst_name=burst.name if burst else None,
        not_tested=_not_tested(rates, passing, failing, burst),
    )


def _same_rate(point: Point, rate_rps: float) -> bool:
    other = point.stages[0].rate_rps
    return other is not None and abs(other - rate_rps) <= 0.01 * rate_rps


def _not_tested(rates: list[Point], passing: Point | None, failing: Point | None, burst: Point | None) -> list[str]:
    found = []
    if passing is None and failing is not None:
        found.append(f"rates below {number(rates[0].stages[0].rate_rps)} req/s")
    if passing is not None and failing is not None:
        found.append(
            f"rates between {number(passing.stages[0].rate_rps)} and {number(failing.stages[0].rate_rps)} req/s"
        )
    if failing is None:
        found.append(f"rates above {number(rates[-1].stages[0].rate_rps)} req/s")
    if passing is not None and burst is None:
        found.append("a burst or a trace of the same mean rate")
    if passing is not None and len(passing.stages) < ROUNDS_TO_PUBLISH:
        found.append(f"three rounds with fresh seeds (there is {len(passing.stages)})")
    return found


class SweepPoint(NamedTuple):
    """One concurrency of a closed-loop sweep."""

    concurrency: int
    output_tps: float | None
    """Output tokens per second that came out inside the window."""
    p95: dict[str, Percentile]
    """The P95 in milliseconds of every figure that has a limit, by name."""
    rounds: int = 1
    """Those that count."""
    valid: bool = True
    """``False``: it says nothing of the server, so it is neither the knee nor a neighbour of it."""


def knee(sweep: Sequence[SweepPoint], limits_ms: dict[str, float]) -> Knee:
    """The least concurrency that gives 95 % of the throughput to be had with every P95 within its limit.

    It is ``signed`` only when each P95 has an upper bound within its limit and there are three rounds; else it is a
    candidate, and the warnings say what it rests on. Points that are not valid are left out, and named; of a single valid
    one nothing can be told.
    """
    void = _in_flight(point for point in sweep if not point.valid)
    tested = len(sweep)
    sweep = [point for point in sweep if point.valid]
    if void and len(sweep) < 2:
        valid = f"only {_in_flight(sweep)} is valid" if sweep else f"none of the {tested} concurrencies is valid"
        return Knee(concurrency=None, strength="candidate", sentence=f"no knee can be told: {valid} ({void} invalid)")
    known = sorted((p for p in sweep if p.output_tps is not None), key=lambda p: p.concurrency)
    within = [point for point in known if all(_within(point, *limit) for limit in limits_ms.items())]
    warnings = [f"throughput of {p.concurrency} in flight was not measured" for p in sweep if p.output_tps is None]
    if void:
        warnings.append(f"left out as invalid: {void}; the knee may lie there")
    limits = ", ".join(f"{name} P95 within {number(limit)} ms" for name, limit in limits_ms.items())
    if not within:
        which = "valid" if void else "tested"
        sentence = f"no {which} concurrency kept {limits}" if known else "no throughput was measured"
        return Knee(concurrency=None, strength="candidate", sentence=sentence, warnings=warnings)
    best = max(_tps(point) for point in within)
    found = next(point for point in within if _tps(point) >= NEARLY_ALL * best)
    after = next((point for point in known if point.concurrency > found.concurrency), None)
    for name in limits_ms:
        for point in (found, after):
            of = point.p95.get(name) if point else None
            if point is not None and of is not None and of.at_maximum:
                warnings.append(
                    f"{name} P95 of {point.concurrency} in flight is the maximum of its {of.n} requests: too few to tell"
                )
    if found.rounds < ROUNDS_TO_PUBLISH:
        warnings.append("fewer than three rounds")
    bounded = all(_bounded(found, name, limit) for name, limit in limits_ms.items())
    strength: Strength = "signed" if bounded and limits_ms and found.rounds >= ROUNDS_TO_PUBLISH else "candidate"
    sentence = f"{found.concurrency} in flight ({strength}): {_said(found, limits_ms)}"
    if after is None:
        sentence += f"; it is the highest {'valid one' if void else 'tested'}, so the knee may lie above"
    else:
        more = _tps(after) / _tps(found) - 1 if _tps(found) else 0.0
        sign = "+" if more >= 0 else "-"
        sentence += f"; {after.concurrency} in flight: {_said(after, limits_ms)} ({sign}{percent(abs(more))} tokens)"
    if not limits_ms:
        sentence += "; no limits were chosen, so it rests on throughput alone"
    return Knee(concurrency=found.concurrency, strength=strength, sentence=sentence, warnings=warnings)


def _in_flight(sweep: Iterable[SweepPoint]) -> str:
    """``2, 4 in flight``; empty for none."""
    found = ", ".join(str(point.concurrency) for point in sweep)
    return f"{found} in flight" if found else ""


def _tps(point: SweepPoint) -> float:
    assert point.output_tps is not None
    return point.output_tps


def _within(point: SweepPoint, name: str, limit: float) -> bool:
    of = point.p95.get(name)
    return of is not None and isinstance(of.value, float | int) and of.value <= limit


def _bounded(point: SweepPoint, name: str, limit: float) -> bool:
    high = point.p95[name].high
    return isinstance(high, float | int) and high <= limit


def _said(point: SweepPoint, limits_ms: dict[str, float]) -> str:
    parts = [f"{number(point.output_tps)} output tokens/s"]
    for name, limit in limits_ms.items():
        of = point.p95.get(name)
        value = of.value if of is not None else None
        side = "within" if _within(point, name, limit) else "over"
        parts.append(f"{name} P95 {number(value)} ms, {side} {number(limit)} ms" if value is not None else f"no {name}")
    return ", ".join(parts)


def sweep_of(found: Sequence[Point], limits: Sequence[str]) -> list[SweepPoint]:
    """The closed points of a run as a sweep: the worst P95 and the least throughput of the rounds of each.

    A round that is invalid, or was not run, does not count; a point that is so as a whole is not valid.
    """
    sweep = []
    for point in found:
        stages = point.stages
        concurrency = stages[0].concurrency
        if stages[0].mode != "closed" or concurrency is None or stages[0].condition is not None:
            continue
        if point.result == "invalid":
            sweep.append(SweepPoint(concurrency, None, {}, 0, valid=False))
            continue
        stages = [stage for stage in stages if stage.verdict.result not in ("invalid", "not_run")] or stages
        speeds = [stage.output_tokens_in_window_tps for stage in stages]
        p95 = {}
        for name in limits:
            of = [stage.percentiles[f"{name}_p95_ms"] for stage in stages if f"{name}_p95_ms" in stage.percentiles]
            if of:
                p95[name] = max(of, key=_size)
        known = [speed for speed in speeds if speed is not None]
        sweep.append(SweepPoint(concurrency, min(known) if len(known) == len(speeds) else None, p95, len(stages)))
    return sweep


def _size(found: Percentile) -> float:
    return float("inf") if found.value == "inf" or found.value is None else float(found.value)
