"""What a release requires, each thing as a function of its own: of the runs as they are, and of the point that is released.

Everything is asked, whatever else is not met, so that a refusal names all its reasons. What the released point would have to
show cannot be told where no point passed. Some follow from others (without a measured memory a record is no performance
either): both are then said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from llm_locust.analysis.boundary import ROUNDS_TO_PUBLISH
from llm_locust.analysis.cost import cost_per_million_good_tokens
from llm_locust.analysis.evidence_rules import violations
from llm_locust.analysis.gates import gate_name, gate_text
from llm_locust.analysis.judgement import judge_requirements
from llm_locust.analysis.release.pooled import Ladder, PooledPoint, ReleasedRun, Round
from llm_locust.analysis.settings import differing_services
from llm_locust.analysis.verdict import needs_words
from llm_locust.analysis.words import number
from llm_locust.records import Requirements, format_slo
from llm_locust.records.envelope import ReleaseRequirement
from llm_locust.records.figures import Figure
from llm_locust.records.gates import LATENCIES
from llm_locust.records.summary import Gate, WhenSet

FELT = tuple(name for name in LATENCIES if name not in ("itl", "client_wait", "cap_wait", "dispatch_lag", "queue"))
"""Latencies that one requester waits for, and whose percentiles have bounds."""

NO_POINT = "no rate passed of which this could be asked"

SHOWN = 3
"""Of several like things, as many are named."""


class Price(NamedTuple):
    """What the machines under test cost per hour."""

    per_hour: float | None
    """``None``: not given, or not the same in all runs."""
    set_: WhenSet = "before"
    """``after``: with the release."""
    reason: str | None = None
    """Why there is none."""


def price_of(runs: Sequence[ReleasedRun], given: float | None) -> Price:
    """The price given with the release, else that of the runs."""
    if given is not None:
        return Price(given, "after")
    prices = {run.summary.price_per_hour for run in runs}
    if len(prices) > 1:
        said = ", ".join(f"{run.manifest.run_id}: {number(run.summary.price_per_hour)}" for run in runs)
        return Price(None, reason=f"not one price in all runs ({said}): give the one that holds with --price-per-hour")
    (price,) = prices
    return Price(
        price or None, reason=None if price else "no price was given: --price-per-hour PRICE, with the run or here"
    )


def cost_of(one: Round, price: Price) -> Figure:
    """Cost per million good output tokens of one round, in the currency of the price.

    Price per hour / (output tokens of good requests that came out inside the window, per hour) x 1,000,000. A good request
    is ok and meets every chosen limit. The machines are paid for the whole window, also for failed requests, replies over
    their limits and idle time, whose tokens do not count. ``None`` without a price, or where it is not known which requests
    were good; ``"inf"`` when no good token came out. A release says that of its dearest round.
    """
    return cost_per_million_good_tokens(price.per_hour, one.stage.good_output_tokens_in_window_tps)


# --- of the runs -------------------------------------------------------------------------------------------------------


def of_the_runs(
    runs: Sequence[ReleasedRun], rounds: Sequence[Round], found: Ladder, asked: Requirements
) -> Iterator[ReleaseRequirement]:
    """What is required of the runs as they are."""
    yield _records(rounds)
    yield _one_service(runs)
    yield _workload(runs)
    yield _limits(runs)
    yield _gates(runs)
    yield from _own(runs, found, asked)


def _records(rounds: Sequence[Round]) -> ReleaseRequirement:
    wrong = [f"{one.record.test_id}: {problem}" for one in rounds if (problem := _record_problem(one)) is not None]
    return ReleaseRequirement(
        name="records",
        required="every stage has its evidence record, valid and as its run gives it",
        found=_listed(wrong) if wrong else f"{len(rounds)} of {len(rounds)} are",
        met=not wrong,
    )


def _record_problem(one: Round) -> str | None:
    merge = f"run llm-locust merge {one.run.manifest.run_id} again"
    if one.file is None:
        return f"it has none: {merge}"
    if one.file.document is None:
        return f"{one.file.name} is no JSON: {merge}"
    if wrong := violations(one.file.document):
        return f"{one.file.name} is not valid ({wrong[0].field}: {wrong[0].rule}): see llm-locust validate"
    if one.file.document != msgspec.json.decode(msgspec.json.encode(one.record)):
        return f"{one.file.name} does not say what its run says: {merge}"
    return None


def _one_service(runs: Sequence[ReleasedRun]) -> ReleaseRequirement:
    differ = [
        f"{one.name}: {' against '.join(one.values)}"
        for one in differing_services([run.manifest for run in runs], [run.summary for run in runs])
        if one.role == "compared"
    ]
    alike = "one run" if len(runs) == 1 else f"nothing that matters differs between {len(runs)} runs"
    return ReleaseRequirement(
        name="one_service",
        required="all runs are of one model, engine, hardware, workload, and limits",
        found=f"the runs differ in {'; '.join(differ)}" if differ else alike,
        met=not differ,
    )


def _workload(runs: Sequence[ReleasedRun]) -> ReleaseRequirement:
    kinds = {f"{run.manifest.workload.name}, {run.manifest.workload.kind}": None for run in runs}
    made_up = any(run.manifest.workload.kind != "representative" for run in runs)
    why = ": a synthetic workload supports no capacity conclusion" if made_up else ""
    return ReleaseRequirement(
        name="workload", required="a representative workload", found="; ".join(kinds) + why, met=not made_up
    )


def _limits(runs: Sequence[ReleasedRun]) -> ReleaseRequirement:
    wrong = []
    for run in runs:
        if not run.summary.slo:
            wrong.append(f"{run.manifest.run_id} has none (--slo ttft=500,e2e=3000)")
        elif run.summary.limits_set == "after" or run.summary.slo != run.manifest.slo:
            wrong.append(f"those of {run.manifest.run_id} were set after the run")
    return ReleaseRequirement(
        name="limits",
        required="limits per request, chosen before load",
        found=_listed(wrong) if wrong else format_slo(runs[0].summary.slo),
        met=not wrong,
    )


def _gates(runs: Sequence[ReleasedRun]) -> ReleaseRequirement:
    wrong = []
    for run in runs:
        if not run.summary.gates:
            wrong.append(f"those of {run.manifest.run_id} are defaults, chosen by nobody (--gate)")
        elif run.summary.gates_set == "after" or set(run.summary.gates) != set(run.manifest.gates):
            wrong.append(f"those of {run.manifest.run_id} were set after the run")
    return ReleaseRequirement(
        name="gates",
        required="gates chosen before load",
        found=_listed(wrong) if wrong else "; ".join(runs[0].summary.gates),
        met=not wrong,
    )


def _own(runs: Sequence[ReleasedRun], found: Ladder, asked: Requirements) -> Iterator[ReleaseRequirement]:
    """What the runs were required to show before load, and what is required beside it now."""
    whole = [point.point for point in found.points]
    chosen: list[tuple[Requirements, WhenSet]] = [(run.manifest.requirements, "before") for run in runs]
    seen = set()
    for requirements, when in [*chosen, (asked, "after")]:
        for one in judge_requirements(whole, requirements, when):
            if one.text not in seen:
                seen.add(one.text)
                shown = {True: "it was shown", False: "it was not", None: "what decides it is undetermined"}[one.met]
                yield ReleaseRequirement(name="required", required=one.text, found=shown, met=one.met)


# --- of the released point ---------------------------------------------------------------------------------------------


def rate_requirement(found: Ladder, rounds: Sequence[Round]) -> ReleaseRequirement:
    """A rate of open arrivals passed: a closed loop slows down with its server, and shows no rate."""
    invalid = [f"{one.stage.label}: {one.stage.verdict.sentence}" for one in rounds if not one.counts]
    met: bool | None = False
    if found.passed_rates:
        said, met = f"{found.passed_rates[0].point.name} passed", True
    elif found.rates:
        results = [f"{one.point.name}: {one.point.result}" for one in found.rates]
        said = f"none passed below the first that failed ({_listed(results)})"
        met = None if all(one.point.result == "undetermined" for one in found.rates) else False
    elif any(one.stage.mode == "open" and not one.counts for one in rounds):
        said, met = f"no stage of open arrivals is valid ({_listed(invalid)})", None
    else:
        said = "no open arrivals were run: a closed loop slows down with its server"
    return ReleaseRequirement(name="rate", required="a rate of open arrivals that passed", found=said, met=met)


def of_the_point(point: PooledPoint | None, price: Price | None) -> list[ReleaseRequirement]:
    """What is required of a point that is released.

    Args:
        point: Passed; ``None``: there is none.
        price: What is paid; ``None`` where no cost is asked for (a closed loop beside the released rate).
    """
    asks: list[tuple[str, str, Callable[[PooledPoint], tuple[bool, str]]]] = [
        ("rounds", f"{ROUNDS_TO_PUBLISH} valid rounds with fresh arrivals", _rounds),
        ("signed", "every gate signed in every round: its confidence interval clears its limit", _signed),
        ("p95", "a gate on the P95 of a latency, chosen before load", lambda of: _percentile(of, 95)),
        ("p99", "a gate on the P99 of a latency, chosen before load", lambda of: _percentile(of, 99)),
        ("errors", "a gate on the error rate, chosen before load", _errors),
        ("memory", "peak memory measured in every round", _memory),
    ]
    if price is not None:
        asks.append(("cost", "a cost per million good output tokens", lambda of: _cost(of, price)))
    asks.append(("grade", "evidence of the grade performance in every round", _grade))
    found = []
    for name, required, ask in asks:
        met, said = (None, NO_POINT) if point is None else ask(point)
        found.append(ReleaseRequirement(name=name, required=required, found=said, met=met))
    return found


def graded_without_point(rounds: Sequence[Round], asked: ReleaseRequirement) -> ReleaseRequirement:
    """The grade where no point passed: what was run on the simulator, or elsewhere, is never performance."""
    grades = {one.record.evidence_grade: one.record.evidence_grade_reasons for one in rounds}
    for never in ("protocol-only", "transcribed"):
        if never in grades:
            return msgspec.structs.replace(asked, found=f"{never}: {'; '.join(grades[never])}", met=False)
    return asked


def _rounds(point: PooledPoint) -> tuple[bool, str]:
    valid, fresh = len(point.rounds), point.fresh_rounds
    said = f"{valid} of {point.point.name}"
    if fresh < valid:
        said += f", of which {fresh} with fresh arrivals (give each run another --seed)"
    return fresh >= ROUNDS_TO_PUBLISH, said if fresh >= ROUNDS_TO_PUBLISH else f"{said} (--rounds {ROUNDS_TO_PUBLISH})"


def _signed(point: PooledPoint) -> tuple[bool, str]:
    wrong = []
    for one in point.rounds:
        verdict = one.stage.verdict
        if verdict.strength != "signed":
            unsigned = [gate_text(gate) for gate in verdict.gates if gate.applicable and not gate.signed]
            needs = needs_words(verdict.requests_needed, verdict.seconds_needed, one.stage.measured)
            wrong.append(f"{one.record.test_id}: {', '.join(unsigned)} not{f' ({needs})' if needs else ''}")
    return not wrong, _listed(wrong) if wrong else f"signed in {len(point.rounds)} rounds of {point.point.name}"


def _percentile(point: PooledPoint, percent: int) -> tuple[bool, str]:
    pattern = re.compile(rf"({'|'.join(FELT)})_p{percent}(_all)?")
    return _chosen(point, lambda gate: pattern.fullmatch(gate.name) is not None, f"--gate 'ttft_p{percent}<=MS'")


def _errors(point: PooledPoint) -> tuple[bool, str]:
    return _chosen(point, lambda gate: gate.name == "error_rate", "--gate 'error_rate<=0.01'")


def _chosen(point: PooledPoint, about: Callable[[Gate], bool], option: str) -> tuple[bool, str]:
    """A gate of all requests together that a person chose, in every round; its worst value is said."""
    values: dict[str, list[float]] = {}
    for one in point.rounds:
        for gate in one.stage.verdict.gates:
            if gate.slice is None and not gate.default and gate.applicable and about(gate):
                values.setdefault(gate_text(gate), []).append(float(gate.value) if gate.value is not None else 0.0)
    whole = {text: max(of) for text, of in values.items() if len(of) == len(point.rounds)}
    if not whole:
        return False, f"none was chosen ({option})"
    return True, "; ".join(f"{text}: at most {number(value)} in every round" for text, value in whole.items())


def _memory(point: PooledPoint) -> tuple[bool, str]:
    without = [one.record.test_id for one in point.rounds if one.record.peak_memory_gb is None]
    if without:
        return False, (
            f"not measured in {_listed(without)} (llm-locust telemetry on the machine under test, or --metrics of its "
            "DCGM exporter)"
        )
    most = max((one.record for one in point.rounds), key=lambda record: record.peak_memory_gb or 0.0)
    return True, f"at most {number(most.peak_memory_gb)} GB ({memory_words(most)})"


def memory_words(record: msgspec.Struct) -> str:
    """``vram of the device, by NVML``."""
    kind, scope, tool = (getattr(record, name) for name in ("memory_kind", "memory_scope", "memory_tool"))
    return f"{kind} of the {scope}, by {tool}"


def _cost(point: PooledPoint, price: Price) -> tuple[bool, str]:
    if price.per_hour is None:
        return False, price.reason or "no price was given: --price-per-hour PRICE"
    costs = {one.record.test_id: cost_of(one, price) for one in point.rounds}
    for one in point.rounds:
        cost = costs[one.record.test_id]
        if not isinstance(cost, float):
            why = "no good token came out" if cost == "inf" else one.stage.goodput_unavailable
            return False, f"{one.record.test_id} has none: {why or 'its good output tokens were not counted'}"
    dearest = max(cost for cost in costs.values() if isinstance(cost, float))
    return True, f"{number(dearest)} in the dearest round, at {number(price.per_hour)} an hour"


def _grade(point: PooledPoint) -> tuple[bool, str]:
    wrong: dict[str, list[str]] = {}
    for one in point.rounds:
        found, reasons = point.graded(one)
        if found != "performance":
            wrong.setdefault(f"{found}: {'; '.join(reasons)}", []).append(one.record.test_id)
    said = [f"{grade} ({_listed(of)})" for grade, of in wrong.items()]
    return not wrong, _listed(said) if said else f"performance in {len(point.rounds)} rounds"


def _listed(of: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    more = len(of) - SHOWN
    return "; ".join(of[:SHOWN]) + (f"; and {more} more" if more > 0 else "")


def unmet(requirements: Sequence[ReleaseRequirement]) -> list[ReleaseRequirement]:
    """Those that are not met, or cannot be told."""
    return [one for one in requirements if one.met is not True]


def gate_names(point: PooledPoint) -> set[str]:
    """Figures that the gates of a point are about, with their slices."""
    return {gate_name(gate) for one in point.rounds for gate in one.stage.verdict.gates if not gate.default}
