"""The gates of a stage: which there are, the value of each, and whether it holds."""

from __future__ import annotations

import re
from collections.abc import Sequence

from llm_locust.analysis.histograms import holds
from llm_locust.analysis.measured import INFINITE, Measured
from llm_locust.analysis.quantiles import share, wilson
from llm_locust.analysis.server_against_client import between
from llm_locust.analysis.server_gates import measure_server
from llm_locust.analysis.words import number
from llm_locust.records.gates import DEFAULT_GATES, EVERY_SLICE, OF_THE_SERVER, STANDING_GATES, GateSpec, gate_figure
from llm_locust.records.summary import (
    BatchFigures,
    Figure,
    Gate,
    Interval,
    Percentile,
    StageSummary,
)


def stage_gates(stage: StageSummary, chosen: Sequence[GateSpec] = ()) -> list[Gate]:
    """The gates of a stage, evaluated.

    Chosen gates replace the defaults. What belongs to any pass stays beside them: no memory exhausted, in flight flat, and
    so what waits in the server if that was read, unless a chosen gate is about the same figure.
    """
    if not chosen:
        specs = [spec for spec in DEFAULT_GATES if _stands(spec, stage)]
        return [evaluate(spec, stage, default=True) for spec in specs]
    named = {spec.name for spec in chosen if spec.slice is None}
    standing = [spec for spec in STANDING_GATES if spec.name not in named and _stands(spec, stage)]
    return [evaluate(spec, stage) for spec in [*_each_slice(stage, chosen), *standing]]


def _stands(spec: GateSpec, stage: StageSummary) -> bool:
    """Whether there is anything for a gate to be held to that nobody chose."""
    if spec.name == "attainment":
        return bool(stage.limits)
    return spec.name != "waiting_trend" or stage.waiting_was_read


def _each_slice(stage: StageSummary, chosen: Sequence[GateSpec]) -> list[GateSpec]:
    """``*:`` gates once for each slice, but for slices with a gate of their own on the same figure."""
    named = {(spec.slice, spec.name) for spec in chosen}
    found: list[GateSpec] = []
    for spec in chosen:
        if spec.slice != EVERY_SLICE or not stage.slices:
            found.append(spec)
            continue
        found += [
            GateSpec(slice=of.name, name=spec.name, relation=spec.relation, limit=spec.limit)
            for of in stage.slices
            if (of.name, spec.name) not in named
        ]
    return found


def evaluate(spec: GateSpec, stage: StageSummary, default: bool = False) -> Gate:
    """One gate: a value equal to its limit holds; one that was not measured is undetermined, never a pass."""
    measured = measure(spec, stage)
    passed, signed, reason = _holds(spec, measured)
    return Gate(
        slice=spec.slice,
        name=spec.name,
        relation=spec.relation,
        limit=spec.limit,
        value=measured.value,
        passed=passed,
        signed=signed,
        applicable=measured.applicable,
        default=default,
        reason=reason if passed is None and measured.applicable else None,
    )


def _holds(spec: GateSpec, measured: Measured) -> tuple[bool | None, bool, str | None]:
    """Whether a gate holds, whether its interval says the same, and why it cannot be told."""
    value = INFINITE if measured.value == "inf" else measured.value
    if value is None or not measured.applicable:
        return None, False, measured.reason or "not measured"
    if isinstance(spec.limit, str):
        # A falling number in flight is no queue building up, but no steady state either: it neither fails nor passes.
        held = {"flat": True, "rising": False}.get(str(value))
        return held, held is not None, measured.reason  # the trend is a test in itself, with its own level
    assert isinstance(value, float | int)
    limit = spec.limit
    if measured.bucket is not None:
        held = holds(measured.bucket, limit)
        if held is None:
            return (
                None,
                False,
                f"the limit lies inside the bucket that it is known to be in ({between(measured.bucket)})",
            )
        return (None, False, measured.reason) if held and measured.reason is not None else (held, False, None)
    if spec.relation == ">=":
        passed = value >= limit
        bound = measured.low if passed else measured.high
        signed = bound is not None and (bound >= limit if passed else bound < limit)
    elif spec.relation == "<=":
        passed = value <= limit
        bound = measured.high if passed else measured.low
        signed = bound is not None and (bound <= limit if passed else bound > limit)
    else:
        passed = value == limit
        signed = not passed and measured.low is not None and measured.low > limit
    if passed and measured.reason is not None:
        return None, False, measured.reason
    return passed, signed or measured.exact, None


def measure(spec: GateSpec, stage: StageSummary) -> Measured:
    """The value that a gate is about."""
    if spec.name in OF_THE_SERVER and spec.name != "in_flight_trend":
        return measure_server(spec, stage)
    figures: BatchFigures | None = stage
    if spec.slice is not None:
        figures = next((of for of in stage.slices if of.name == spec.slice), None)
    if figures is None:
        return Measured(None, reason="no request of this slice was measured")
    figure = gate_figure(spec.name)
    kind = figure.kind if figure is not None else "count"
    if kind == "trend":
        return _in_flight_trend(stage)
    if kind == "latency":
        return _percentile(spec.name, figures, stage)
    if kind == "rate":
        return _goodput(figures)
    if kind == "share":
        return _share(spec.name, figures)
    return _count(spec, figures, stage)


def _in_flight_trend(stage: StageSummary) -> Measured:
    found = stage.in_flight_trend
    if found is None:
        return Measured(None, applicable=False)
    return Measured(found.state, reason=None if found.state in ("flat", "rising") else f"{found.state}: {found.detail}")


_PERCENTILE = re.compile(r"(?P<figure>\w+)_p(?P<percent>\d+)(?P<all>_all)?")


def _percentile(name: str, figures: BatchFigures, stage: StageSummary) -> Measured:
    match = _PERCENTILE.fullmatch(name)
    assert match is not None
    found = figures.percentiles.get(f"{match['figure']}_p{match['percent']}_ms{match['all'] or ''}")
    if found is None or found.value is None:
        return Measured(None, reason=_why_not(match["figure"], found, stage))
    reason = None
    if found.missing:
        reason = f"{match['figure']} is missing for {found.missing} requests"
    elif found.at_maximum:
        reason = f"P{match['percent']} of {found.n} is their maximum: too few to tell"
    return Measured(found.value, low=_bound(found.low), high=_bound(found.high), reason=reason)


def _why_not(figure: str, found: Percentile | None, stage: StageSummary) -> str:
    if stage.mode == "closed" and figure in ("client_wait", "dispatch_lag", "arrival_ttft", "arrival_e2e"):
        return "a closed loop plans no arrivals"
    if found is not None and found.missing:
        return f"{figure} is missing for all {found.missing} requests that should have it"
    return "no request has a value"


def _bound(value: Figure) -> float | None:
    return INFINITE if value == "inf" else value if isinstance(value, float | int) else None


def _goodput(figures: BatchFigures) -> Measured:
    interval, seconds = figures.attainment_interval, figures.seconds
    if figures.goodput_rps is None:
        return Measured(None, reason=_no_goodput(figures))
    if interval is None or seconds is None:
        return Measured(figures.goodput_rps)
    per = figures.measured / seconds
    return Measured(figures.goodput_rps, low=interval.low * per, high=interval.high * per)


def _no_goodput(figures: BatchFigures) -> str:
    return f"goodput cannot be given: {figures.goodput_unavailable or 'nothing was measured'}"


def _share(name: str, figures: BatchFigures) -> Measured:
    if name == "attainment":
        if figures.attainment is None:
            return Measured(None, reason=_no_goodput(figures))
        return _of_interval(figures.attainment, figures.attainment_interval)
    if name == "error_rate":
        return _of_interval(figures.error_rate, figures.error_rate_interval)
    if name == "quality_rate":
        checked = figures.quality_checked
        if not checked:
            return Measured(None, reason="no reply was checked for quality (--quality)")
        passed = checked - (figures.quality_failures or 0)
        errors = f"the check itself failed on {figures.quality_errors} replies" if figures.quality_errors else None
        return _of_interval(share(passed, checked), wilson(passed, checked))._replace(reason=errors)
    if name == "reject_rate":
        return Measured(figures.reject_rate)
    if name == "stall_share":
        if figures.stalls is None:
            return Measured(None, reason="no gaps between output events were kept")
        return Measured(figures.stalls.share)
    deadlines = figures.deadlines
    if deadlines is None:
        return Measured(None, reason="it needs a ttft and a tpot limit (--slo), and gaps that were kept")
    missing = f"{deadlines.missing} ok requests lack the gaps to judge them" if deadlines.missing else None
    return Measured(deadlines.share, reason=missing)


def _of_interval(value: float | None, interval: Interval | None) -> Measured:
    return Measured(value, low=interval.low if interval else None, high=interval.high if interval else None)


def _count(spec: GateSpec, figures: BatchFigures, stage: StageSummary) -> Measured:
    if spec.name == "oom" and spec.slice is None:
        # In the whole stage: memory that runs out during the warm-up has run out too.
        return Measured(None if stage.measured == 0 and stage.oom == 0 else float(stage.oom), exact=True)
    if figures.measured == 0:
        return Measured(None, reason="nothing was measured")
    if spec.name == "quality_failures":
        failures = figures.quality_failures
        why = "no reply was checked for quality (--quality)" if failures is None else None
        if figures.quality_errors:
            why = f"the check itself failed on {figures.quality_errors} replies"
        return Measured(None if failures is None else float(failures), exact=True, reason=why)
    if spec.name.startswith("http_") and spec.name[5:].isdigit():
        return Measured(float(figures.status_counts.get(spec.name[5:], 0)), exact=True)
    return Measured(float(figures.outcomes.get(spec.name, 0)), exact=True)


def gate_name(gate: Gate | GateSpec) -> str:
    """``ttft_p95``, with its slice when it is about one: ``faq:ttft_p95``."""
    return gate.name if gate.slice is None else f"{gate.slice}:{gate.name}"


def gate_text(gate: Gate | GateSpec) -> str:
    """``faq:ttft_p95 <= 800``."""
    return f"{gate_name(gate)} {gate.relation} {number(gate.limit)}"
