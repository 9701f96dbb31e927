"""The run as a whole: every stage judged, the ladder read from below, the verdict in one sentence, the exit status."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pandas as pd

from llm_locust.analysis.boundary import (
    ROUNDS_TO_PUBLISH,
    boundary,
    describe_boundary,
    knee,
    ladder_of,
    sweep_of,
)
from llm_locust.analysis.figures import summarise_stage
from llm_locust.analysis.gaps import Us
from llm_locust.analysis.generator import unseen_generator
from llm_locust.analysis.points import Point, point_summary, points
from llm_locust.analysis.prompts_sent import refuse_mixed_prompts
from llm_locust.analysis.run_telemetry import NOTHING_SEEN, RunSeen, StageSeen, says_anything
from llm_locust.analysis.server_facts import server_changes
from llm_locust.analysis.verdict import judge_stage
from llm_locust.analysis.words import number, percent
from llm_locust.analysis.workload_record import prompts_note
from llm_locust.records import ExitCode, Manifest, Requirements, Transcribed
from llm_locust.records.gates import GateSpec, format_gate
from llm_locust.records.slo import latency_limits
from llm_locust.records.summary import (
    Reconciliation,
    Requirement,
    Result,
    RunSummary,
    StageSummary,
    WhenSet,
)

__all__ = [
    "SYNTHETIC",
    "Point",
    "boundary",
    "conclude",
    "exit_code",
    "judge_requirements",
    "judge_run",
    "points",
    "price_per_hour",
]

SYNTHETIC = "The engine is synthetic: nothing here is performance."


def judge_run(
    manifest: Manifest,
    rows: pd.DataFrame,
    gaps_us: Us,
    reconciliation: Reconciliation,
    slo: dict[str, float],
    limits_set: WhenSet = "before",
    gates: Sequence[GateSpec] = (),
    gates_set: WhenSet = "before",
    seen: RunSeen = NOTHING_SEEN,
) -> RunSummary:
    """The summary of a run from its manifest and its merged table.

    Args:
        manifest: The run's manifest.
        rows: The merged table of the run, times on the master's clock, sorted by index.
        gaps_us: The gaps that the rows point into.
        reconciliation: How the raw files added up.
        slo: Per-request limits in milliseconds to judge by.
        limits_set: ``after`` when these are not the limits the run was started with.
        gates: What a stage must hold; none for the defaults.
        gates_set: ``after`` when these are not the gates the run was started with.
        seen: What its server and devices showed.
    """
    refuse_mixed_prompts(rows)
    price = price_per_hour(manifest)
    stages = [
        summarise_stage(stage, rows_of(rows, stage.spec.stage, stage.spec.round), gaps_us, slo, price)
        for stage in manifest.stages
    ]
    changes = server_changes(manifest)
    for stage in stages:
        stage.server, stage.device = seen.stages.get((stage.stage, stage.round), StageSeen())
        stage.server_changes = changes
        if manifest.transcribed is not None:
            stage.transcribed_from = manifest.transcribed.tool
            stage.generator = unseen_generator(manifest.transcribed.tool, slo)
    summary = RunSummary(
        run_id=manifest.run_id,
        state=manifest.state,
        state_reason=manifest.state_reason,
        started_at=manifest.started_at,
        host=manifest.host,
        model=manifest.model,
        synthetic_engine=manifest.synthetic_engine,
        transcribed=manifest.transcribed,
        workload=manifest.workload.name,
        workload_kind=manifest.workload.kind,
        workload_sha256=manifest.workload.sha256,
        deadline_s=manifest.deadline_s,
        max_in_flight=manifest.max_in_flight,
        command=manifest.command,
        slo=slo,
        limits_set=limits_set,
        price_per_hour=price,
        verdict="",
        sent=int(rows["sent_ns"].notna().sum()),
        reconciliation=reconciliation,
        agreement=seen.agreement,
        residency=list(seen.residency),
        telemetry_notes=list(seen.notes),
        stages=stages,
    )
    numbered = rows["prompt_index"].notna()
    distinct = rows.loc[numbered, ["prompt_index", "turn"]].drop_duplicates()
    summary.prompts_note = prompts_note(manifest.workload, len(distinct), int(numbered.sum()))
    return conclude(summary, gates, gates_set, manifest.requirements)


def rows_of(rows: pd.DataFrame, stage: int, round_: int) -> pd.DataFrame:
    """The rows of one stage; not copied where they follow one another, as they do unless runs were stitched together."""
    of_stage = ((rows["stage"] == stage) & (rows["round"] == round_)).to_numpy(dtype=bool)
    first, count = int(of_stage.argmax()) if len(of_stage) else 0, int(of_stage.sum())
    if of_stage[first : first + count].all():
        return rows.iloc[first : first + count].reset_index(drop=True)
    return rows[of_stage].reset_index(drop=True)


def price_per_hour(manifest: Manifest) -> float | None:
    """The price of the machines under test among the run's options; ``None`` when none was given."""
    given = manifest.options.get("price_per_hour")
    try:
        return None if given is None else float(given)
    except (TypeError, ValueError):
        return None


def conclude(
    summary: RunSummary,
    gates: Sequence[GateSpec],
    gates_set: WhenSet = "before",
    asked: Requirements = Requirements(),  # noqa: B008 - immutable
    asked_when: WhenSet = "before",
) -> RunSummary:
    """The same figures judged by these gates: verdicts, boundary, requirements, the run's sentence and its limitations."""
    capped = summary.max_in_flight is not None
    stages = [_judged(stage, gates, capped=capped) for stage in summary.stages]
    ladder = points(stages)
    sustained, first_failing = boundary(ladder)
    sweep = sweep_of(ladder, list(latency_limits(summary.slo)))
    found = msgspec.structs.replace(
        summary,
        gates=[format_gate(gate) for gate in gates],
        gates_set=gates_set,
        stages=stages,
        requirements=judge_requirements(ladder, asked, asked_when),
        sustained_rate_rps=sustained.stages[0].rate_rps if sustained else None,
        first_failing_rate_rps=first_failing.stages[0].rate_rps if first_failing else None,
        points=[point_summary(point) for point in ladder],
        boundary=describe_boundary(ladder),
        knee=knee(sweep, latency_limits(summary.slo)) if len(sweep) > 1 else None,
        verdict=run_sentence(ladder, summary, bool(gates)),
    )
    found.limitations = limitations(found)
    return found


def _judged(stage: StageSummary, gates: Sequence[GateSpec], *, capped: bool) -> StageSummary:
    verdict = judge_stage(stage, gates, capped=capped)
    slices = []
    for of in stage.slices:
        own = [gate for gate in verdict.gates if gate.slice == of.name]
        result: Result | None = None
        if own:
            passed = {gate.passed for gate in own}
            result = "fail" if False in passed else "undetermined" if None in passed else "pass"
            result = verdict.result if verdict.result in ("invalid", "not_run") else result
        failing = [d for d in verdict.failing_dimensions if d.name.startswith(f"{of.name}:")]
        slices.append(msgspec.structs.replace(of, result=result, failing_dimensions=failing))
    return msgspec.structs.replace(stage, verdict=verdict, slices=slices)


def judge_requirements(ladder: list[Point], asked: Requirements, when: WhenSet = "before") -> list[Requirement]:
    """What was required of the run, and whether the points show it.

    A rate is sustained when it, or a higher one below the first failing rate, passed. It is missed when a rate up to it
    failed, or when none so high was tried; otherwise what would decide it is invalid or undetermined.
    """
    found = []
    if asked.rate_rps is not None:
        sustained, failing = boundary(ladder)
        rates = ladder_of(ladder)
        tried = [p for p in rates if (p.stages[0].rate_rps or 0) >= asked.rate_rps]
        met: bool | None = None
        if sustained is not None and (sustained.stages[0].rate_rps or 0) >= asked.rate_rps:
            met = True
        elif (
            not tried
            or (failing is not None and failing in rates[: rates.index(tried[0]) + 1])
            or all(p.result == "fail" for p in tried)
        ):
            met = False
        found.append(
            Requirement(text=f"a sustained rate of at least {number(asked.rate_rps)} req/s", met=met, set_=when)
        )
    if asked.every_stage:
        results = {point.result for point in ladder}
        met = False if "fail" in results else True if results == {"pass"} else None
        found.append(Requirement(text="every stage passes", met=met, set_=when))
    return found


def run_sentence(ladder: list[Point], summary: RunSummary, gated: bool) -> str:
    """The verdict of a run in words."""
    if summary.sent == 0:
        text = "Nothing was sent, so nothing was measured."
    else:
        sentences = [
            _open_sentence(ladder, summary.slo, gated),
            *_closed_sentences(ladder),
            *_open_issues(ladder),
        ]
        text = " ".join(sentence for sentence in sentences if sentence)
    return f"{SYNTHETIC} {text}" if summary.synthetic_engine else text


def _open_sentence(ladder: list[Point], slo: dict[str, float], gated: bool) -> str:
    rates = ladder_of(ladder)
    if not rates:
        return ""
    sustained, failing = boundary(ladder)
    on = f"first failing rate {failing.name}{_on(failing)}" if failing else "no tested rate failed"
    if sustained is not None:
        stage = sustained.deciding
        if gated:
            return f"Sustained {sustained.name} ({sustained.strength}): {stage.verdict.sentence}; {on}."
        if slo:
            return f"Sustained {sustained.name} ({sustained.strength}): attainment {percent(stage.attainment)}; {on}."
        return (
            f"Kept up at {sustained.name} ({sustained.strength}): error rate {percent(stage.error_rate, up=True)}, "
            f"in-flight flat; {on}. No limits were chosen (--slo), so latency was not judged and there is no goodput."
        )
    if failing is not None:
        lowest = "it was the lowest tested" if failing is rates[0] else "no lower one passed"
        return f"No tested rate was sustained: {failing.name} ({failing.strength}) failed{_on(failing)}; {lowest}."
    return "No rate was judged: no stage passed and none failed."


def _on(point: Point) -> str:
    """``, on ttft (31 of 90 over 500 ms)``."""
    found = point.deciding.verdict.failing_dimensions
    return ", on " + " and ".join(f"{d.name} ({d.detail})" for d in found) if found else ""


def _closed_sentences(ladder: list[Point]) -> list[str]:
    sentences = []
    for point in ladder:
        if point.stages[0].mode == "closed" and point.result in ("pass", "fail"):
            said = point.deciding.verdict.sentence
            sentences.append(f"With {point.name}: {point.result} ({point.strength}), {said}.")
    return sentences


def _open_issues(ladder: list[Point]) -> list[str]:
    """What the boundary cannot say: points that were not judged, and passes above a fail."""
    _, failing = boundary(ladder)
    rates = ladder_of(ladder)
    sentences = []
    above = rates[rates.index(failing) + 1 :] if failing else []
    for point in ladder:
        beside = point.stages[0].mode == "open" and point not in rates
        if beside and point.result in ("pass", "fail"):
            sentences.append(f"{point.name}: {point.result} ({point.strength}){_on(point)}.")
        elif point.result in ("invalid", "undetermined"):
            sentences.append(f"{point.name} is {point.result}: {point.deciding.verdict.sentence}.")
        elif failing is not None and point in above and point.result == "pass":
            sentences.append(f"{point.name} passed though {failing.name} failed: repeat both.")
    return sentences


def limitations(summary: RunSummary) -> list[str]:
    """What the result does not say; always printed with it."""
    stages = summary.stages
    found = [SYNTHETIC] if summary.synthetic_engine else []
    found += [
        "Goodput is not answer quality, not maximum sustainable capacity and not a number of users.",
        "The result holds for this hardware, model, software, context, traffic mix, cache state and SLO only.",
    ]
    if summary.workload_kind == "synthetic":
        found.append("The workload is synthetic: it supports no capacity conclusion.")
    if summary.transcribed is not None:
        found += transcription(summary.transcribed)
    if leavings := sum(stage.planned_leavings for stage in stages):
        found.append(
            f"{leavings} measured requests were dropped by their clients as --cancel planned; they are cancelled and count "
            "as failed."
        )
    if summary.prompts_note is not None:
        found.append(summary.prompts_note)
    if summary.limits_set == "after":
        found.append("The latency limits were set after the run: such a judgement never earns a release.")
    if not summary.gates:
        waiting = ", waiting flat" if any(stage.waiting_was_read for stage in stages) else ""
        found.append(
            f"The gates are defaults (attainment >= 0.95, error rate <= 0.01, oom = 0, in-flight flat{waiting}), not chosen "
            "for this run."
        )
    elif summary.gates_set == "after":
        found.append("The gates were set after the run: such a judgement never earns a release.")
    found += _of_the_server(stages)
    found.append("Confidence intervals assume independent requests; requests that share a queue are not quite that.")
    if any(len(point.stages) < ROUNDS_TO_PUBLISH for point in points(stages)):
        found.append("Fewer than three rounds were run; a figure to publish needs three with fresh seeds.")
    user_time = sum(count for stage in stages for clock, count in stage.clock_sources.items() if clock != "kernel")
    if user_time:
        found.append(f"{user_time} measured requests carry user-space receive times, not (or not only) the kernel's.")
    if any(stage.token_sources.get("events") for stage in stages):
        found.append("Some output tokens were counted as stream events, for want of a usage report by the server.")
    return found


def transcription(of: Transcribed) -> list[str]:
    """What is not known of requests that another tool sent."""
    version = f" {of.version}" if of.version else ""
    source = f"Transcribed from the file {of.file} of {of.tool}{version} (SHA-256 {of.sha256[:12]})"
    return [
        f"{source}: whether its load generator kept to its plan is not known, so no stage passes or fails.",
        *of.lacks,
    ]


def _of_the_server(stages: list[StageSummary]) -> list[str]:
    """What the server did not say, or what was read of it without being sure."""
    run = [stage for stage in stages if stage.verdict.result != "not_run"] or stages
    unread = [stage for stage in run if not stage.waiting_was_read]
    of = "" if len(unread) == len(run) else f" in {len(unread)} of {len(run)} stages"
    found = [f"The server's own queue was not read{of}: waiting_trend took no part in the verdict."] if unread else []
    read = [stage.server for stage in stages if stage.server is not None and says_anything(stage.server)]
    engines = {engine for server in read if not server.verified for engine in server.engines}
    if engines:
        found.append(
            f"The server's figures were read by a mapping that was not held against a real page of "
            f"{' and '.join(sorted(engines))}."
        )
    return found


def exit_code(summary: RunSummary) -> ExitCode:
    """The exit status that a summary earns, for every surface that judges a run.

    A failing top stage is a success, for the boundary was found. What decides is any stage, or, where the user made
    requirements, the stages that decide those.
    """
    if summary.sent == 0:
        return ExitCode.USAGE
    if any(requirement.met is False for requirement in summary.requirements):
        return ExitCode.NOT_MET
    if summary.reconciliation.lost:
        return ExitCode.UNDECIDED
    if summary.requirements:
        open_ = any(requirement.met is None for requirement in summary.requirements)
        return ExitCode.UNDECIDED if open_ else ExitCode.DONE
    results = {stage.verdict.result for stage in summary.stages}
    return ExitCode.UNDECIDED if results & {"invalid", "undetermined"} else ExitCode.DONE
