"""The run as a whole: every stage summarised, the ladder read from below, the verdict in one sentence, the exit status."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from llm_locust.analysis.figures import summarise_stage
from llm_locust.analysis.words import number, percent
from llm_locust.records import Manifest, Requirements
from llm_locust.records.summary import (
    Reconciliation,
    Requirement,
    Result,
    RunSummary,
    StageSummary,
    Strength,
    WhenSet,
)

SYNTHETIC = "The engine is synthetic: nothing here is performance."

_WORST_FIRST: tuple[Result, ...] = ("fail", "invalid", "undetermined", "not_run", "pass")


class Point(NamedTuple):
    """All rounds of one rate or one concurrency: it passes only if every round does."""

    stages: list[StageSummary]

    @property
    def result(self) -> Result:
        """The worst of its rounds."""
        return min((stage.verdict.result for stage in self.stages), key=_WORST_FIRST.index)

    @property
    def deciding(self) -> StageSummary:
        """The round that decides: the first with the point's result, or of passes the one with the least attainment."""
        same = [stage for stage in self.stages if stage.verdict.result == self.result]
        if self.result == "pass":
            return min(same, key=lambda s: 1.0 if s.attainment is None else s.attainment)
        return same[0]

    @property
    def strength(self) -> Strength | None:
        """A pass is signed if every round is, a fail if one is."""
        found = [stage.verdict.strength == "signed" for stage in self.stages if stage.verdict.result == self.result]
        if self.result not in ("pass", "fail"):
            return None
        return "signed" if (all if self.result == "pass" else any)(found) else "candidate"

    @property
    def name(self) -> str:
        """``2 req/s``, with its arrival process unless that is Poisson; ``8 in flight`` for a closed loop."""
        stage = self.stages[0]
        if stage.mode == "closed":
            return f"{stage.concurrency} in flight (closed loop)"
        process = "" if stage.arrivals in (None, "poisson") else f" {stage.arrivals}"
        return f"{number(stage.rate_rps)} req/s{process}"


def points(stages: list[StageSummary]) -> list[Point]:
    """The stages grouped into points, open ones by rising rate, then closed ones by rising concurrency."""
    groups: dict[tuple[object, ...], list[StageSummary]] = {}
    for stage in stages:
        groups.setdefault((stage.mode, stage.rate_rps, stage.concurrency, stage.arrivals), []).append(stage)
    found = [Point(group) for group in groups.values()]
    return sorted(
        found, key=lambda p: (p.stages[0].mode == "closed", p.stages[0].rate_rps or p.stages[0].concurrency or 0)
    )


def judge_run(
    manifest: Manifest,
    rows: pd.DataFrame,
    reconciliation: Reconciliation,
    slo: dict[str, float],
    limits_set: WhenSet = "before",
) -> RunSummary:
    """The summary of a run from its manifest and its merged table.

    Args:
        manifest: The run's manifest.
        rows: The merged table of the run, times on the master's clock.
        reconciliation: How the raw files added up.
        slo: Per-request limits in milliseconds to judge by.
        limits_set: ``after`` when these are not the limits the run was started with.
    """
    stages = []
    for stage in manifest.stages:
        of_stage = rows[(rows["stage"] == stage.spec.stage) & (rows["round"] == stage.spec.round)]
        stages.append(summarise_stage(stage, of_stage, slo))
    sent = int(rows["sent_ns"].notna().sum())
    ladder = points(stages)
    sustained, first_failing = boundary(ladder)
    return RunSummary(
        run_id=manifest.run_id,
        state=manifest.state,
        state_reason=manifest.state_reason,
        started_at=manifest.started_at,
        host=manifest.host,
        model=manifest.model,
        synthetic_engine=manifest.synthetic_engine,
        workload=manifest.workload.name,
        workload_kind=manifest.workload.kind,
        workload_sha256=manifest.workload.sha256,
        deadline_s=manifest.deadline_s,
        max_in_flight=manifest.max_in_flight,
        command=manifest.command,
        slo=slo,
        limits_set=limits_set,
        requirements=judge_requirements(ladder, manifest.requirements),
        sustained_rate_rps=sustained.stages[0].rate_rps if sustained else None,
        first_failing_rate_rps=first_failing.stages[0].rate_rps if first_failing else None,
        verdict=run_sentence(ladder, sent, slo, manifest.synthetic_engine),
        sent=sent,
        reconciliation=reconciliation,
        stages=stages,
        limitations=limitations(manifest, stages, limits_set),
    )


def judge_requirements(ladder: list[Point], asked: Requirements, when: WhenSet = "before") -> list[Requirement]:
    """What was required of the run, and whether the points show it.

    A rate is sustained when it, or a higher one below the first failing rate, passed. It is missed when a rate up to it
    failed, or when none so high was tried; otherwise what would decide it is invalid or undetermined.
    """
    found = []
    if asked.rate_rps is not None:
        sustained, failing = boundary(ladder)
        rates = [p for p in ladder if p.stages[0].mode == "open"]
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


def boundary(ladder: list[Point]) -> tuple[Point | None, Point | None]:
    """Of the open points: the highest that passed below the lowest that failed, and that lowest failing one."""
    rates = [point for point in ladder if point.stages[0].mode == "open"]
    failing = next((point for point in rates if point.result == "fail"), None)
    below = rates[: rates.index(failing)] if failing else rates
    passing = [point for point in below if point.result == "pass"]
    return (passing[-1] if passing else None), failing


def run_sentence(ladder: list[Point], sent: int, slo: dict[str, float], synthetic: bool) -> str:
    """The verdict of a run in words."""
    if sent == 0:
        text = "Nothing was sent, so nothing was measured."
    else:
        sentences = [_open_sentence(ladder, slo), *_closed_sentences(ladder), *_open_issues(ladder)]
        text = " ".join(sentence for sentence in sentences if sentence)
    return f"{SYNTHETIC} {text}" if synthetic else text


def _open_sentence(ladder: list[Point], slo: dict[str, float]) -> str:
    rates = [point for point in ladder if point.stages[0].mode == "open"]
    if not rates:
        return ""
    sustained, failing = boundary(ladder)
    on = f"first failing rate {failing.name}{_on(failing)}" if failing else "no tested rate failed"
    if sustained is not None:
        stage = sustained.deciding
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
    sentences = []
    above = ladder[ladder.index(failing) + 1 :] if failing else []
    for point in ladder:
        if point.result in ("invalid", "undetermined"):
            sentences.append(f"{point.name} is {point.result}: {point.deciding.verdict.sentence}.")
        elif failing is not None and point in above and point.result == "pass" and point.stages[0].mode == "open":
            sentences.append(f"{point.name} passed though {failing.name} failed: repeat both.")
    return sentences


def limitations(manifest: Manifest, stages: list[StageSummary], limits_set: WhenSet) -> list[str]:
    """What the result does not say; always printed with it."""
    found = [SYNTHETIC] if manifest.synthetic_engine else []
    found += [
        "Goodput is not answer quality, not maximum sustainable capacity and not a number of users.",
        "The result holds for this hardware, model, software, context, traffic mix, cache state and SLO only.",
    ]
    if manifest.workload.kind == "synthetic":
        found.append("The workload is synthetic: it supports no capacity conclusion.")
    if limits_set == "after":
        found.append("The latency limits were set after the run: such a judgement never earns a release.")
    found += [
        "The gates are defaults (attainment >= 0.95, error rate <= 0.01, oom = 0, in-flight flat), not chosen for this run.",
        "The server's own queue was not read: waiting_trend took no part in the verdict.",
        "Confidence intervals assume independent requests; requests that share a queue are not quite that.",
    ]
    if any(len(point.stages) < 3 for point in points(stages)):
        found.append("Fewer than three rounds were run; a figure to publish needs three with fresh seeds.")
    user_time = sum(count for stage in stages for clock, count in stage.clock_sources.items() if clock != "kernel")
    if user_time:
        found.append(f"{user_time} measured requests carry user-space receive times, not (or not only) the kernel's.")
    if any(stage.token_sources.get("events") for stage in stages):
        found.append("Some output tokens were counted as stream events, for want of a usage report by the server.")
    return found


def exit_code(summary: RunSummary) -> int:
    """The exit status that a summary earns, for every surface that judges a run.

    0: it ran and was judged; a failing top stage is a success, for the boundary was found. 2: nothing was sent. 3: a
    requirement that the user made is not met. 4: work was lost, or what decides is invalid or undetermined: any stage, or,
    where the user made requirements, those that decide them. (1 is left to crashes.)
    """
    if summary.sent == 0:
        return 2
    if any(requirement.met is False for requirement in summary.requirements):
        return 3
    if summary.reconciliation.lost:
        return 4
    if summary.requirements:
        return 4 if any(requirement.met is None for requirement in summary.requirements) else 0
    results = {stage.verdict.result for stage in summary.stages}
    return 4 if results & {"invalid", "undetermined"} else 0
