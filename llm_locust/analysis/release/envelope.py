"""The envelope out of what a release found: the maxima, for what they hold, what they rest on and what they leave out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from llm_locust.analysis.boundary import ROUNDS_TO_PUBLISH
from llm_locust.analysis.judgement import limitations
from llm_locust.analysis.release.pooled import Ladder, PooledPoint, ReleasedRun, Round
from llm_locust.analysis.release.requirements import Price, cost_of, gate_names, memory_words
from llm_locust.analysis.settings import HOST, LOAD_SETTINGS, differing_services
from llm_locust.analysis.words import number, percent
from llm_locust.records.envelope import (
    SERVICE_FIELDS,
    WORKLOAD_FIELDS,
    BoundedPercentile,
    Envelope,
    EnvelopeBurst,
    EnvelopeEvidence,
    EnvelopeLimits,
    EnvelopePoint,
    EnvelopeRound,
    EnvelopeRun,
    ReleaseRequirement,
)
from llm_locust.records.evidence import FIXED_LIMITATIONS
from llm_locust.records.summary import StageSummary

SOAK_S = 3600.0
"""A window of at least this shows how a service holds for long."""

PUBLISHED = tuple(f"{name}_p{at}" for name in ("ttft", "tpot", "e2e") for at in (50, 95, 99))


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The points that an envelope is read from."""

    rate: PooledPoint
    closed: PooledPoint | None
    """The largest closed loop that meets what the rate does, but for the cost; ``None``: there is none."""
    lower: list[PooledPoint]
    """Lower rates that meet it too."""
    lacking: dict[str, list[str]]
    """Points that passed and lack something, by name, with the requirements that they do not meet."""


def make_envelope(
    runs: Sequence[ReleasedRun],
    rounds: Sequence[Round],
    found: Ladder,
    chosen: Chosen,
    price: Price,
    requirements: list[ReleaseRequirement],
    at: str,
    version: str,
) -> Envelope:
    """The envelope of a release whose requirements are all met."""
    released = chosen.rate
    first, stage = released.rounds[0], released.point.stages[0]
    assert stage.rate_rps is not None
    assert price.per_hour is not None
    costs = [cost for one in released.rounds if isinstance(cost := cost_of(one, price), float)]
    failing = found.failing_rate.point if found.failing_rate else None
    concurrency, where = _most_in_flight(chosen)
    closed_fails = found.failing_closed.point.stages[0].concurrency if found.failing_closed else None
    burst = _burst(found, stage.rate_rps)
    manifest = first.run.manifest
    pooled = [one.stage for point in (released, chosen.closed) if point is not None for one in point.rounds]
    return Envelope(
        released_at=at,
        released_by=f"llm-locust {version}",
        max_rate_rps=stage.rate_rps,
        arrivals=stage.arrivals or "poisson",
        conversations=stage.conversations,
        max_concurrency=concurrency,
        max_concurrency_at=where,
        closed_loop_passed=chosen.closed.point.stages[0].concurrency if chosen.closed else None,
        closed_loop_first_failing=closed_fails,
        cost_per_million_good_tokens=max(costs),
        price_per_hour=price.per_hour,
        price_set=price.set_,
        first_failing_rate_rps=failing.stages[0].rate_rps if failing else None,
        failing_dimensions=failing.deciding.verdict.failing_dimensions if failing else [],
        burst=EnvelopeBurst(name=burst.point.name, result=burst.point.result) if burst else None,
        points=[_point(point, price) for point in (released, chosen.closed) if point is not None],
        service_of=first.record.test_id,
        service={name: getattr(first.record, name) for name in SERVICE_FIELDS},
        workload={name: getattr(first.record, name) for name in WORKLOAD_FIELDS},
        limits=EnvelopeLimits(
            slo=first.run.summary.slo,
            gates=first.run.summary.gates,
            deadline_s=manifest.deadline_s,
            max_in_flight=manifest.max_in_flight,
        ),
        owner=first.record.owner,
        retest_when=first.record.retest_when,
        runs=[
            EnvelopeRun(
                run_id=run.manifest.run_id,
                started_at=run.manifest.started_at,
                ended_at=run.manifest.ended_at,
                llm_locust=run.manifest.versions.get("llm-locust"),
            )
            for run in runs
        ],
        evidence=list(_evidence(rounds)),
        requirements=requirements,
        not_covered=list(_not_covered(runs, rounds, found, chosen, burst)),
        limitations=_limitations(runs, first, pooled),
    )


def _most_in_flight(chosen: Chosen) -> tuple[int, str]:
    """The most in flight at a point that meets everything, and where that was."""
    seen = []
    for point in (chosen.rate, *chosen.lower):
        seen += [
            (one.stage.peak_in_flight or 0, f"the peak at {point.point.name}, {one.record.test_id}")
            for one in point.rounds
        ]
    if chosen.closed is not None:
        seen.append((chosen.closed.point.stages[0].concurrency or 0, f"kept at {chosen.closed.point.name}"))
    return max(seen, key=lambda pair: pair[0])


def _burst(found: Ladder, rate_rps: float) -> PooledPoint | None:
    """Another arrival process of the released mean rate: of several the one that came out worst, a pass being best."""
    rates = set(map(id, found.rates))
    beside = [
        one
        for one in found.points
        if one.point.stages[0].mode == "open"
        and id(one) not in rates
        and one.point.stages[0].condition is None
        and abs((one.point.stages[0].rate_rps or 0) - rate_rps) <= 0.01 * rate_rps
    ]
    return min(beside, key=lambda one: one.point.result == "pass", default=None)


def _point(point: PooledPoint, price: Price) -> EnvelopePoint:
    stage = point.point.stages[0]
    return EnvelopePoint(
        name=point.point.name,
        mode=stage.mode,
        rate_rps=stage.rate_rps,
        concurrency=stage.concurrency,
        rounds=[_round(one, price) for one in point.rounds],
    )


def _round(one: Round, price: Price) -> EnvelopeRound:
    stage, cost = one.stage, cost_of(one, price)
    return EnvelopeRound(
        test_id=one.record.test_id,
        tested_at=one.record.tested_at,
        measured_requests=stage.measured,
        seconds=stage.seconds,
        attainment=stage.attainment,
        goodput_rps=stage.goodput_rps,
        error_rate=stage.error_rate,
        in_flight_peak=stage.peak_in_flight,
        peak_memory_gb=one.record.peak_memory_gb,
        memory=memory_words(one.record) if one.record.peak_memory_gb is not None else None,
        good_output_tokens_per_s=stage.good_output_tokens_in_window_tps,
        cost_per_million_good_tokens=cost if isinstance(cost, float) else None,
        percentiles=_percentiles(stage),
    )


def _percentiles(stage: StageSummary) -> dict[str, BoundedPercentile]:
    return {
        name: BoundedPercentile(value_ms=of.value, at_most_ms=of.high, requests=of.n)
        for name in PUBLISHED
        if (of := stage.percentiles.get(f"{name}_ms")) is not None and of.value is not None
    }


def _evidence(rounds: Sequence[Round]) -> Iterator[EnvelopeEvidence]:
    for one in rounds:
        assert one.file is not None  # a release requires every record
        yield EnvelopeEvidence(
            test_id=one.record.test_id,
            file=one.file.name,
            sha256=one.file.sha256,
            label=one.stage.label,
            result=one.stage.verdict.result,
            evidence_grade=one.record.evidence_grade,
            counted=one.counts,
        )


def _not_covered(
    runs: Sequence[ReleasedRun],
    rounds: Sequence[Round],
    found: Ladder,
    chosen: Chosen,
    burst: PooledPoint | None,
) -> Iterator[str]:
    """What was not tested, or was tested and is not part of it, as sentences."""
    released = chosen.rate.point
    rate, unit = released.stages[0].rate_rps, "conversations/s" if released.stages[0].conversations else "req/s"
    if found.failing_rate is not None:
        above = number(found.failing_rate.point.stages[0].rate_rps)
        yield f"Rates between {number(rate)} and {above} {unit} were not tested, or not well enough."
    else:
        yield f"Rates above {number(rate)} {unit} were not tested, or not well enough: no rate failed."
    for name, lacks in chosen.lacking.items():
        yield f"{name} passed, but is no part of this, for want of: {', '.join(lacks)}."
    for point in found.points:
        if point.point.result == "undetermined":
            yield f"{point.point.name} is undetermined: {point.point.deciding.verdict.sentence}."
    if burst is None:
        yield f"A burst, or a trace played again, of the mean rate {number(rate)} {unit} was not run."
    elif burst.point.result != "pass":
        yield f"Arrivals that come in bursts: {burst.point.name} came to {burst.point.result}."
    elif len(burst.rounds) < ROUNDS_TO_PUBLISH:
        yield f"{burst.point.name} passed in {len(burst.rounds)} of the {ROUNDS_TO_PUBLISH} rounds that a figure needs."
    if not found.closed:
        yield "No closed loop was run: the number in flight is a peak of open arrivals, not one that was kept."
    elif found.failing_closed is not None:
        fails, most = found.failing_closed.point, _most_in_flight(chosen)[0]
        if (fails.stages[0].concurrency or 0) <= most:
            yield f"{fails.name} failed, though open arrivals passed with {most} in flight at a moment."
    if not any(one.counts and (one.stage.seconds or 0) >= SOAK_S for one in rounds):
        longest = max((one.stage.seconds or 0 for one in rounds), default=0.0)
        yield f"No soak was run: the longest window was {number(longest)} s."
    if not any(stage.condition for point in found.points for stage in point.point.stages):
        yield "Cold start was not measured: neither after idling nor with the model unloaded."
    yield from _workload_not_covered(runs, chosen)
    invalid = [one.record.test_id for one in rounds if not one.counts]
    if invalid:
        yield f"Invalid, and counted in neither direction: {', '.join(invalid)}."


def _workload_not_covered(runs: Sequence[ReleasedRun], chosen: Chosen) -> Iterator[str]:
    gated, record = gate_names(chosen.rate), chosen.rate.rounds[0].record
    if "attainment" not in gated:
        least = min(
            (one.stage.attainment for one in chosen.rate.rounds if one.stage.attainment is not None), default=None
        )
        yield f"No gate was on attainment: at least {percent(least)} of the requests of each round met all limits together."
    slices = sorted({of.name for one in chosen.rate.rounds for of in one.stage.slices})
    alone = [name for name in slices if not any(gate.startswith(f"{name}:") for gate in gated)]
    if alone:
        yield f"No gate was on these slices alone: {', '.join(alone)}."
    if any(run.manifest.quality is None for run in runs):
        yield "Answer quality was not checked (--quality)."
    prompts = max(one.record.input_tokens_max or 0 for one in chosen.rate.rounds)
    replies = max(one.record.output_tokens_max or 0 for one in chosen.rate.rounds)
    yield f"No prompt was longer than {prompts} tokens, and no reply than {replies}."
    if record.replicas is not None:
        yield f"Other than {record.replicas} replica{'' if record.replicas == 1 else 's'} of the service were not tested."


def _limitations(runs: Sequence[ReleasedRun], first: Round, pooled: list[StageSummary]) -> list[str]:
    """What no record says, what the runs together do not say, and in what they were not made alike."""
    whole = msgspec.structs.replace(first.run.summary, stages=pooled)
    found = list(dict.fromkeys([*FIXED_LIMITATIONS, *limitations(whole)]))
    notes = dict.fromkeys(run.summary.prompts_note for run in runs if run.summary.prompts_note is not None)
    found += [note for note in notes if note not in found]
    noted = [
        one.name if one.name == HOST else f"{one.name} ({' against '.join(one.values)})"  # an address is not to publish
        for one in differing_services([run.manifest for run in runs], [run.summary for run in runs])
        if one.name not in LOAD_SETTINGS and one.name != "seed"
    ]
    if noted:
        found.append(f"The runs were not made alike in: {'; '.join(noted)}.")
    return found
