"""What holds between the fields of an evidence record, beyond its types: sums, orders, rates, nulls, and what it may claim.

Each rule is a generator of :class:`~llm_locust.records.evidence_schema.Violation`; a quantity that is null takes part in
none. Records made here are exact; transcribed figures were rounded by whoever printed them, so for those a rate may be off
by half a unit of its third digit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping

import msgspec

from llm_locust.analysis.evidence_grade import grade
from llm_locust.records import SLO_NAMES, Outcome
from llm_locust.records.evidence import FIXED_LIMITATIONS, EvidenceRecord, RecordGate
from llm_locust.records.evidence_schema import Violation, form_violations, integral
from llm_locust.records.users_claim import claimed_users, names_users

ROUNDED = 5e-3
EXACT = 1e-9

PERCENTILE_FAMILIES: tuple[tuple[str, ...], ...] = (
    *(tuple(f"{name}_p{at}_ms" for at in (50, 95, 99)) for name in ("ttft", "tpot", "e2e")),
    *(tuple(f"{name}_{at}" for at in ("p50", "p95", "p99", "max")) for name in ("input_tokens", "output_tokens")),
)

OF_OK_REQUESTS: tuple[str, ...] = (
    *(name for family in PERCENTILE_FAMILIES for name in family),
    "itl_p95_ms", "max_gap_p95_ms", "arrival_ttft_p95_ms", "arrival_e2e_p95_ms",
)  # fmt: skip
"""Percentiles over ok requests."""

OPEN_ONLY: tuple[str, ...] = (
    "request_rate_rps", "arrival_process", "dispatch_lag_p99_ms", "client_wait_p95_ms", "arrival_ttft_p95_ms",
    "arrival_e2e_p95_ms",
)  # fmt: skip
"""What a closed loop does not have: nothing was planned."""

STREAMED_ONLY: tuple[str, ...] = (
    *(f"{name}_p{at}_ms" for name in ("ttft", "tpot") for at in (50, 95, 99)),
    "itl_p95_ms", "max_gap_p95_ms", "arrival_ttft_p95_ms",
)  # fmt: skip

GOODPUT: tuple[str, ...] = ("good_requests", "goodput_rps", "goodput_vllm_rps", "attainment")

RATES: tuple[tuple[str, str, str], ...] = (
    ("request_throughput_rps", "successful_requests", "seconds"),
    ("goodput_rps", "good_requests", "seconds"),
    ("achieved_rate_rps", "sent", "seconds"),
    ("attainment", "good_requests", "measured_requests"),
    ("error_rate", "failed_requests", "measured_requests"),
)
"""Quotient, numerator and denominator."""

SERVER_READINGS: tuple[str, ...] = (
    "running_peak", "waiting_peak", "kv_cache_peak_pct", "prefix_cache_hit_rate", "queue_time_p95_ms", "preemptions",
    "evictions",
)  # fmt: skip

NAMES_OF_OTHERS = frozenset({"dataset_source"})
"""Texts that tell where something comes from; a data set may well have been taken from so many people."""

Rule = Callable[[EvidenceRecord], Iterator[Violation]]


def violations(document: object) -> list[Violation]:
    """Everything that is wrong with a decoded JSON document as an evidence record; empty when nothing is.

    A document that is not of the record's form is told so field by field; the rules between fields need a record.
    """
    if not isinstance(document, dict):
        return [Violation("", document, "a record is one JSON object")]
    users = list(invented_users(document))
    told = {violation.field for violation in users}
    form = [violation for violation in form_violations(document) if violation.field not in told]
    if form or any(names_users(name) for name in document):
        return [*form, *users]
    record = msgspec.convert(integral(document), EvidenceRecord)
    return [*(violation for rule in RULES for violation in rule(record)), *users]


def invented_users(document: Mapping[str, object]) -> Iterator[Violation]:
    """No field and no text turns a figure into a number of users."""
    for path, name, value in _leaves(document):
        if names_users(name):
            yield Violation(path, value, "no field of a record is a number of users")
        elif isinstance(value, str) and path not in NAMES_OF_OTHERS and (claim := claimed_users(value)):
            yield Violation(path, value, f"no figure is a number of users, but this says {claim!r}")


def _leaves(value: object, path: str = "", name: str = "") -> Iterator[tuple[str, str, object]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key), str(key))
    elif isinstance(value, list):
        for k, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{k}]")
    else:
        yield path, name, value


def counts_add_up(record: EvidenceRecord) -> Iterator[Violation]:
    """successful + failed = measured, planned = attempted + not_sent + lost, and parts are not more than their whole."""
    measured = record.measured_requests
    for whole, parts in (
        ("measured_requests", ("successful_requests", "failed_requests")),
        ("planned", ("attempted", "not_sent", "lost")),
    ):
        total, addends = getattr(record, whole), [getattr(record, part) for part in parts]
        if total is not None and None not in addends and total != sum(addends):
            sums = " + ".join(f"{part} {n}" for part, n in zip(parts, addends, strict=True))
            yield Violation(whole, total, f"{whole} = {' + '.join(parts)}, but {sums} = {sum(addends)}")
    for part, whole in (
        ("good_requests", "successful_requests"),
        ("quality_failures", "measured_requests"),
        ("dispatched", "measured_requests"),
        ("sent", "measured_requests"),
        ("measured_requests", "planned"),
        ("warmup_requests", "planned"),
    ):
        few, many = getattr(record, part), getattr(record, whole)
        if few is not None and many is not None and few > many:
            yield Violation(part, few, f"{part} <= {whole}, which is {many}")
    if record.outcomes is not None and measured is not None and sum(record.outcomes.values()) != measured:
        yield Violation("outcomes", record.outcomes, f"they sum to measured_requests, which is {measured}")
    if record.outcomes is not None and record.outcomes.get("ok", 0) != (record.successful_requests or 0):
        yield Violation("outcomes", record.outcomes, f"ok = successful_requests, which is {record.successful_requests}")
    if record.status_counts is not None and measured is not None and sum(record.status_counts.values()) > measured:
        yield Violation("status_counts", record.status_counts, f"their sum <= measured_requests, which is {measured}")
    sources, successful = record.output_tokens_sources, record.successful_requests
    if sources is not None and successful is not None and sum(sources.values()) != successful:
        yield Violation("output_tokens_sources", sources, f"they sum to successful_requests, which is {successful}")


def keys_are_known(record: EvidenceRecord) -> Iterator[Violation]:
    """Outcomes, statuses and limits are named as everywhere."""
    known = {str(outcome) for outcome in Outcome}
    for name, count in (record.outcomes or {}).items():
        if name not in known:
            yield Violation(f"outcomes.{name}", count, f"an outcome is one of {', '.join(sorted(known))}")
    for status, count in (record.status_counts or {}).items():
        if not (status.isascii() and status.isdigit() and len(status) == 3):
            yield Violation(f"status_counts.{status}", count, "an HTTP status has three digits")
    for name, limit in record.slo.items():
        if name not in SLO_NAMES:
            yield Violation(f"slo.{name}", limit, f"a limit is one of {', '.join(SLO_NAMES)}")


def percentiles_are_ordered(record: EvidenceRecord) -> Iterator[Violation]:
    """p50 <= p95 <= p99 <= max, infinity being the largest."""
    for family in PERCENTILE_FAMILIES:
        known = [(name, value) for name in family if (value := getattr(record, name)) is not None]
        for (lower, low), (higher, high) in itertools.pairwise(known):
            if float(low) > float(high):
                yield Violation(lower, low, f"{lower} <= {higher}, which is {high}")


def null_is_not_measured(record: EvidenceRecord) -> Iterator[Violation]:
    """What cannot have been measured is null, and what was measured is not."""

    def null(names: tuple[str, ...], why: str) -> Iterator[Violation]:
        for name in names:
            if (value := getattr(record, name)) is not None:
                yield Violation(name, value, f"null {why}")

    def known(names: tuple[str, ...], why: str) -> Iterator[Violation]:
        for name in names:
            if getattr(record, name) is None:
                yield Violation(name, None, f"not null {why}")

    if record.arrival_mode == "closed":
        yield from null(OPEN_ONLY, "in a closed loop: nothing was planned")
        yield from known(("concurrency",), "in a closed loop: it is what was asked for")
    if record.streaming is False:
        yield from null(STREAMED_ONLY, "when replies were not streamed")
    if record.successful_requests == 0:
        yield from null(OF_OK_REQUESTS, "when no request was ok")
        yield from null(("output_throughput_tps", "total_throughput_tps"), "when no request was ok")
    if record.measured_requests == 0:
        yield from null(("attainment", "error_rate"), "when measured_requests is 0")
    if not record.slo:
        yield from null(GOODPUT, "when no limit was chosen: there is no good then")
    elif record.good_requests is None and record.measured_requests is not None:
        yield from known(("goodput_unavailable",), "when limits were chosen and good_requests is null")
    if record.good_requests is not None:
        yield from null(("goodput_unavailable",), "when good_requests is known")
    yield from _memory_is_told_in_full(record)
    read = {name: value for name in SERVER_READINGS if (value := getattr(record, name)) is not None}
    # A trend is only known of what was read again and again: then short requests fell between the samples.
    sampled = record.running_trend is not None or record.waiting_trend is not None
    if record.successful_requests and read and not any(read.values()) and not sampled:
        for name, value in read.items():
            yield Violation(
                name, value, "null when the server's metrics were not read: it answered, yet all of them are 0"
            )
    if record.evidence_grade != "transcribed":
        counts = ("run_id", "measured_requests", "successful_requests", "failed_requests", "result", "generator")
        yield from known(counts, "in a record that was measured")


def _memory_is_told_in_full(record: EvidenceRecord) -> Iterator[Violation]:
    told = ("memory_tool", "memory_scope", "memory_kind")
    for name in told:
        if record.peak_memory_gb is not None and getattr(record, name) is None:
            yield Violation(name, None, "not null when peak_memory_gb is known: it says nothing without")


def rates_follow_from_counts(record: EvidenceRecord) -> Iterator[Violation]:
    """Every rate and share is its numerator / its denominator; without a denominator there is none."""
    tolerance = ROUNDED if record.evidence_grade == "transcribed" else EXACT
    for quotient, numerator, denominator in RATES:
        found = getattr(record, quotient)
        above, below = getattr(record, numerator), getattr(record, denominator)
        if found is None or below == 0:
            continue
        if above is None or below is None:
            unknown = numerator if above is None else denominator
            if record.evidence_grade != "transcribed":
                yield Violation(quotient, found, f"{quotient} = {numerator} / {denominator}, but {unknown} is null")
        elif not math.isclose(found, above / below, rel_tol=tolerance, abs_tol=EXACT):
            due = f"{above} / {below:g} = {above / below:.6g}"
            yield Violation(quotient, found, f"{quotient} = {numerator} / {denominator}, which is {due}")
    output, total = record.output_throughput_tps, record.total_throughput_tps
    if output is not None and total is not None and output > total:
        yield Violation(
            "output_throughput_tps", output, f"output_throughput_tps <= total_throughput_tps, which is {total}"
        )
    minutes, seconds = record.test_minutes, record.seconds
    if minutes is not None and seconds is not None and seconds > minutes * 60 * (1 + tolerance):
        yield Violation("seconds", seconds, f"seconds <= test_minutes x 60, which is {minutes * 60:g}")


def verdict_follows_from_gates(record: EvidenceRecord) -> Iterator[Violation]:
    """A gate passes if its value holds; a stage passes if all do, fails on one that does not, and never on the generator."""
    for gate in record.gates:
        yield from _gate_holds(gate)
    result, gates = record.result, record.gates
    valid = record.generator.valid if record.generator is not None else None
    if result == "pass" and (not gates or any(gate.passed is not True for gate in gates)):
        yield Violation("result", result, "a pass needs gates, and every one of them passed")
    if result == "fail" and not any(gate.passed is False for gate in gates):
        yield Violation("result", result, "a fail needs a gate that failed")
    if result in ("pass", "fail") and valid is False:
        yield Violation("result", result, "neither pass nor fail when the load generator was not valid")
    if result in ("pass", "fail") and record.server_changes:
        yield Violation("result", result, "neither pass nor fail when the server changed during the run")
    if result == "invalid" and valid is True and not record.server_changes:
        yield Violation(
            "result", result, "invalid only when the load generator was not valid, or the server changed during the run"
        )
    if valid is False and record.generator is not None and not record.generator.reasons:
        yield Violation("generator.reasons", [], "a generator that is not valid says why")
    if (result == "fail") != bool(record.failing_dimensions):
        told = [dimension.name for dimension in record.failing_dimensions]
        yield Violation("failing_dimensions", told, "a fail names what it is due to, and nothing else does")
    if (result in ("pass", "fail")) != (record.result_strength is not None):
        yield Violation("result_strength", record.result_strength, "candidate or signed for pass and fail, else null")


def _gate_holds(gate: RecordGate) -> Iterator[Violation]:
    field = f"gates.{gate.name}"
    if gate.value is None:
        if gate.passed is not None:
            yield Violation(field, gate.passed, "pass is null when the value was not measured")
        return
    if isinstance(gate.limit, str):
        holds = gate.value == gate.limit
    elif isinstance(gate.value, str) and gate.value != "inf":
        yield Violation(field, gate.value, f"a number, as its limit {gate.limit:g} is")
        return
    else:
        value = float(gate.value)
        holds = {"<=": value <= gate.limit, ">=": value >= gate.limit, "=": value == gate.limit}[gate.relation]
    # Null is no contradiction: a value can be known and say nothing (a falling trend, a limit inside a bucket).
    if gate.passed is not None and gate.passed is not holds:
        shown = f"{gate.value} {gate.relation} {gate.limit}"
        yield Violation(field, gate.passed, f"pass is {str(holds).lower()}: {shown} does {'' if holds else 'not '}hold")


def grade_is_earned(record: EvidenceRecord) -> Iterator[Violation]:
    """The grade is the one that the record's own fields earn; transcribed figures earn none."""
    if record.evidence_grade == "transcribed":
        return
    earned, reasons = grade(record)
    if record.evidence_grade != earned:
        why = f": {'; '.join(reasons)}" if reasons else ": it lacks nothing"
        yield Violation("evidence_grade", record.evidence_grade, f"{earned}, by what the record holds{why}")
    elif reasons and not record.evidence_grade_reasons:
        yield Violation("evidence_grade_reasons", [], "a grade below performance says what is lacking")
    if "simulator" in (record.engine or "") and not record.synthetic_engine:
        yield Violation("synthetic_engine", False, f"true for the engine {record.engine}")


def limitations_are_printed(record: EvidenceRecord) -> Iterator[Violation]:
    """What no record says stands in every record."""
    for said in FIXED_LIMITATIONS:
        if said not in record.limitations:
            yield Violation("limitations", record.limitations, f"they hold the sentence {said!r}")


RULES: tuple[Rule, ...] = (
    counts_add_up,
    keys_are_known,
    percentiles_are_ordered,
    null_is_not_measured,
    rates_follow_from_counts,
    verdict_follows_from_gates,
    grade_is_earned,
    limitations_are_printed,
)
