"""The envelope of a release as a page for people: the maxima first, then for what they hold and what they leave out."""

from __future__ import annotations

from collections.abc import Mapping

from llm_locust.analysis.words import NOT_MEASURED, number, percent
from llm_locust.records import format_slo
from llm_locust.records.envelope import Envelope, EnvelopePoint, EnvelopeRound
from llm_locust.records.facts import FactValue
from llm_locust.report.inert import LONGEST_NAME, LONGEST_SENTENCE, escape
from llm_locust.report.markdown_pieces import bullets, escaped, table


def render_envelope(envelope: Envelope) -> str:
    """The page. Text from elsewhere is inert."""
    service = envelope.service
    title = f"{service.get('model_id') or 'the model'} on {_hardware(service)}"
    blocks = [
        f"# Release envelope: {escape(title, LONGEST_NAME)}",
        f"Released {escape(envelope.released_at)} by {escape(envelope.released_by)}"
        + (f"; {escape(envelope.owner, LONGEST_NAME)} answers for it." if envelope.owner else "."),
        bullets(_maxima(envelope)),
        "## Not covered",
        bullets(escape(one, LONGEST_SENTENCE) for one in envelope.not_covered),
        "## What it does not say",
        bullets(escape(one, LONGEST_SENTENCE) for one in envelope.limitations),
        "## Held to",
        bullets(_limits(envelope)),
        "## Service",
        _facts(envelope.service),
        "## Workload",
        _facts(envelope.workload),
        "## The figures, round by round",
    ]
    for point in envelope.points:
        blocks += [f"### {escape(point.name, LONGEST_NAME)}", _rounds(point)]
    blocks += ["## What a release requires", _requirements(envelope)]
    blocks += ["## Evidence", _runs(envelope), _evidence(envelope)]
    blocks += ["## Test again when", bullets(escape(one, LONGEST_SENTENCE) for one in envelope.retest_when)]
    return "\n\n".join(blocks) + "\n"


def _hardware(service: Mapping[str, FactValue | None]) -> str:
    count, name = service.get("accelerator_count"), service.get("accelerator")
    if name is None:
        return str(service.get("cpu") or "its hardware")
    return f"{count} x {name}" if count is not None else str(name)


def _maxima(envelope: Envelope) -> list[str]:
    unit = "conversations/s" if envelope.conversations else "req/s"
    after = " (given with the release)" if envelope.price_set == "after" else ""
    lines = [
        f"Maximum sustained rate: **{number(envelope.max_rate_rps)} {unit}** ({escape(envelope.arrivals)} arrivals)",
        f"Maximum concurrency: **{envelope.max_concurrency} requests in flight** "
        f"({escape(envelope.max_concurrency_at, LONGEST_NAME)})",
        f"Cost per million good output tokens at that rate: **{number(envelope.cost_per_million_good_tokens)}**, in the "
        f"currency of the price: {number(envelope.price_per_hour)} an hour{after}",
    ]
    if envelope.first_failing_rate_rps is None:
        lines.append("First failing rate: none was seen to fail")
    else:
        failed = "; ".join(f"{one.name}: {one.detail}" for one in envelope.failing_dimensions)
        lines.append(
            f"First failing rate: {number(envelope.first_failing_rate_rps)} {unit}, on {escape(failed, LONGEST_SENTENCE)}"
        )
    if envelope.closed_loop_first_failing is not None:
        lines.append(f"First failing closed loop: {envelope.closed_loop_first_failing} requests kept in flight")
    if envelope.burst is not None:
        lines.append(f"The same mean rate as {escape(envelope.burst.name, LONGEST_NAME)}: {envelope.burst.result}")
    return lines


def _limits(envelope: Envelope) -> list[str]:
    limits = envelope.limits
    deadline = NOT_MEASURED if limits.deadline_s is None else f"{number(limits.deadline_s)} s"
    return [
        f"Limits per request, in ms: {escape(format_slo(limits.slo))}",
        f"Gates: {escape('; '.join(limits.gates), LONGEST_SENTENCE)}",
        "Both were fixed before load; every gate holds with its 95 % confidence interval, in every round.",
        f"Deadline of a request: {deadline}; cap on requests in flight: {limits.max_in_flight or 'none'}",
    ]


def _facts(of: Mapping[str, FactValue | None]) -> str:
    """What is known, and the names of what is not."""
    rows = [[name, _value(value)] for name, value in of.items() if value not in (None, [])]
    unknown = [name for name, value in of.items() if value is None]
    text = table(["field", "value"], escaped(rows), [True, True])
    return f"{text}\n\nNot known, or not applicable: {escape(', '.join(unknown))}." if unknown else text


def _value(value: FactValue | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else str(value)


def _rounds(point: EnvelopePoint) -> str:
    names = list(dict.fromkeys(name for one in point.rounds for name in one.percentiles))
    header = ["round", "measured", "attained", "errors", "good req/s", "peak in flight", "memory GB", "cost"]
    rows = [[*_round(one), *(_percentile(one, name) for name in names)] for one in point.rounds]
    columns = [*header, *(f"{name.replace('_', ' ').upper()} ms" for name in names)]
    text = table(columns, escaped(rows), [True] + [False] * (len(columns) - 1))
    return f"{text}\n\nBehind a percentile, in brackets, what the true one is at most with 95 % confidence."


def _round(one: EnvelopeRound) -> list[str]:
    return [
        one.test_id,
        str(one.measured_requests),
        percent(one.attainment),
        percent(one.error_rate, up=True),
        number(one.goodput_rps),
        number(one.in_flight_peak),
        number(one.peak_memory_gb),
        number(one.cost_per_million_good_tokens),
    ]


def _percentile(one: EnvelopeRound, name: str) -> str:
    found = one.percentiles.get(name)
    return NOT_MEASURED if found is None else f"{number(found.value_ms)} ({number(found.at_most_ms)})"


def _requirements(envelope: Envelope) -> str:
    rows = [[one.name, one.required, one.found] for one in envelope.requirements]
    return table(["requirement", "required", "found"], escaped(rows), [True] * 3)


def _runs(envelope: Envelope) -> str:
    rows = [[run.run_id, run.started_at, run.ended_at or NOT_MEASURED] for run in envelope.runs]
    return table(["run", "started", "ended"], escaped(rows), [True] * 3)


def _evidence(envelope: Envelope) -> str:
    rows = [
        [
            one.file,
            one.label,
            one.result if one.counted else f"{one.result}, not counted",
            one.evidence_grade,
            one.sha256,
        ]
        for one in envelope.evidence
    ]
    return table(["record", "stage", "result", "grade as filed", "SHA-256"], escaped(rows), [True] * 5)
