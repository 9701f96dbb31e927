"""What ``--json-lines`` writes: the lines, and which of them a new look at the run calls for. No input or output here.

Every line is one JSON object with its kind in ``event``, the version of these contracts in ``schema``, and when it was
written in ``at_s``. Units are in the names; ``null`` means not measured, never 0. Within a version fields may be added, and
none changes its meaning. Figures are *so far*: a run is judged from its files, and the line ``judged`` says what came of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from llm_locust.live.snapshot import GroupView, Phase, Snapshot, Spread, StageView

SCHEMA = "1.0"


class Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """What all lines have."""

    schema: str = SCHEMA
    """Version of these lines."""
    at_s: float
    """When the line was written: Unix seconds of the master's clock."""
    run_id: str | None
    """``null`` where no run has a name yet."""


class RunStarted(Line, frozen=True, kw_only=True, tag="run_started"):
    """A run began."""

    folder: str | None
    """Where its files are."""
    host: str | None
    """The base URL of the target, without credentials."""
    model: str | None
    """As requests name it; ``null``: none was named."""
    synthetic: bool
    """The server is the synthetic engine: none of these figures is performance."""
    slo: dict[str, float]
    """Limits of a good request in milliseconds, by name; ``quality`` has no unit."""
    gates: list[str]
    """As a person chose them; empty for the defaults."""
    stage_count: int | None
    """Stages of the run; ``null``: the shape finds out as it goes."""


class StageStarted(Line, frozen=True, kw_only=True, tag="stage_started"):
    """A stage began to be prepared."""

    stage: int
    """From 0, as in requests.csv."""
    round: int
    """Which repetition of its point, from 0."""
    label: str
    """As tables name it."""
    mode: str
    """``open`` or ``closed``."""
    rate_rps: float | None
    """Offered arrivals per second; ``null`` for a closed loop."""
    concurrency: int | None
    """Requests kept in flight; ``null`` for open arrivals."""


class GroupFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a stage is judged by, or a slice or user class of it: the requests of its measurement window, so far."""

    slice: str | None
    """``null``: all slices together."""
    user: str | None
    """``null``: all user classes together."""
    measured: int
    """Requests of the window that have ended."""
    ok: int
    """... of which with outcome ``ok``."""
    failed: int
    """... of which with any other outcome."""
    outcomes: dict[str, int]
    """How many had each outcome."""
    status_counts: dict[str, int]
    """By HTTP status."""
    good: int | None
    """Ok requests that met every chosen limit; ``null``: no limit was chosen, or it cannot be told."""
    attainment: float | None
    """good / measured, 0 to 1."""
    error_rate: float | None
    """failed / measured, 0 to 1."""
    throughput_rps: float | None
    """ok / seconds of the window."""
    goodput_rps: float | None
    """good / seconds of the window."""
    output_tokens: int | None
    """Of ok requests; ``null``: not counted."""
    latencies_ms: dict[str, Spread]
    """``ttft``, ``tpot``, ``itl``, ``e2e``, ``max_gap``, ``client_wait``, ``dispatch_lag``, ``cap_wait``; one
    without a value is left out."""


class StageFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A stage at one moment."""

    stage: int
    """From 0, as in requests.csv."""
    round: int
    """Which repetition of its point, from 0."""
    label: str
    """As tables name it."""
    phase: Phase
    """Where the stage is."""
    left_s: float | None
    """Until the next phase."""
    share: float
    """Of the stage that is behind, 0 to 1."""
    planned: int
    """Arrivals whose planned time has passed, all phases; so are the next four."""
    sent: int
    """Requests issued."""
    completed: int
    """Requests that have ended, whatever became of them."""
    in_flight: int
    """Requests sent and not ended."""
    waiting: int
    """Held back by ``--max-in-flight``."""
    generator_keeps_up: bool | None
    """``null``: too early to say."""
    generator_warnings: list[str]
    """What it does not keep up with, as sentences."""
    server_running: float | None
    """Of all metrics pages that tell."""
    server_waiting: float | None
    """Requests in the server's queue, of all metrics pages that tell."""
    groups: list[GroupFigures]
    """First all together, then slices, user classes, and pairs of them where there are several of both."""


class Figures(Line, frozen=True, kw_only=True, tag="figures"):
    """Once a second while a stage runs."""

    stage: StageFigures
    """The stage now."""


class StageEnded(Line, frozen=True, kw_only=True, tag="stage_ended"):
    """Every request of a stage has ended."""

    interrupted: str | None
    """Why it ended before its time, when it did."""
    stage: StageFigures
    """The stage at its end."""


class Waiting(Line, frozen=True, kw_only=True, tag="waiting"):
    """Nothing happens, on purpose."""

    what: str
    """What for, in words."""


class Stopping(Line, frozen=True, kw_only=True, tag="stopping"):
    """A person asked for the end."""

    how: Literal["drain", "now"]
    """``drain``: nothing more is sent, what is in flight ends or meets its deadline. ``now``: it is cancelled."""
    reason: str | None
    """In words; ``null``: none was given."""


class StageResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a stage was judged."""

    stage: int
    """From 0, as in requests.csv."""
    round: int
    """Which repetition of its point, from 0."""
    label: str
    """As tables name it."""
    result: str | None
    """``pass``, ``fail``, ``undetermined``, ``invalid`` or ``not_run``; ``null`` where nobody judged it."""


class RunJudged(Line, frozen=True, kw_only=True, tag="judged"):
    """The merge has judged the run: its last line."""

    exit_code: int
    """That the command will end with."""
    sentence: str
    """The verdict in words."""
    results: list[StageResult]
    """Of each stage."""
    folder: str | None
    """Where its files are."""
    report: bool
    """Whether there is a ``report.html`` in it."""


class RunFailed(Line, frozen=True, kw_only=True, tag="failed"):
    """The run came to no judgement: its last line."""

    exit_code: int | None
    """That the command will end with; ``null``: not known."""
    reason: str | None
    """In words; ``null``: none is known."""


AnyLine = RunStarted | StageStarted | Figures | StageEnded | Waiting | Stopping | RunJudged | RunFailed
"""Every line that is ever written; ``msgspec.json.schema(AnyLine)`` is its JSON Schema."""


class RunFollower:
    """Holds each look at the run against the one before, and says what there is to tell."""

    def __init__(self) -> None:
        self._generation = 0
        self._begin()

    def _begin(self) -> None:
        self._started: set[int] = set()
        self._ending: set[int] = set()
        self._ended: set[int] = set()
        self._stopping: Literal["drain", "now"] | None = None
        self._over = False

    def look(self, now: Snapshot, *, exit_code: int | None = None) -> list[AnyLine]:
        """The lines that this look calls for, in order.

        Args:
            now: The run.
            exit_code: What the process would end with.
        """
        lines: list[AnyLine] = []
        if now.generation != self._generation:
            self._generation = now.generation
            self._begin()
            if now.run_id is not None:
                lines.append(_run_started(now))
        over = now.state in ("judged", "failed")
        for view in now.stages:
            if view.stage not in self._started:
                self._started.add(view.stage)
                lines.append(_stage_started(now, view))
            if view.phase != "done" or view.stage in self._ended:
                continue
            if view.stage not in self._ending and not over:
                self._ending.add(view.stage)  # its last rows may be counted after its end: the next look tells of it
                break
            self._ended.add(view.stage)
            figures = stage_figures(now, view)
            lines.append(StageEnded(at_s=now.now_s, run_id=now.run_id, interrupted=view.interrupted, stage=figures))
        if now.stopping is not None and now.stopping != self._stopping:
            self._stopping = now.stopping
            lines.append(Stopping(at_s=now.now_s, run_id=now.run_id, how=now.stopping, reason=now.reason))
        running = [view for view in now.stages if view.phase != "done" and view.stage in self._started]
        if now.state == "running" and running:
            lines.append(Figures(at_s=now.now_s, run_id=now.run_id, stage=stage_figures(now, running[-1])))
        if over and not self._over:
            self._over = True
            lines.append(_over(now, exit_code))
        return lines


def stage_figures(now: Snapshot, view: StageView) -> StageFigures:
    """A stage as a line tells of it."""
    return StageFigures(
        stage=view.stage,
        round=view.round,
        label=view.label,
        phase=view.phase,
        left_s=view.left_s,
        share=view.share,
        planned=view.planned,
        sent=view.sent,
        completed=view.completed,
        in_flight=view.in_flight,
        waiting=view.waiting,
        generator_keeps_up=view.generator.keeps_up,
        generator_warnings=view.generator.warnings,
        server_running=added(server.running for server in now.servers),
        server_waiting=added(server.waiting for server in now.servers),
        groups=[_group(group) for group in view.groups],
    )


def added(values: Iterable[float | None]) -> float | None:
    """The sum of those that were measured; ``None`` of none."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _group(group: GroupView) -> GroupFigures:
    return GroupFigures(
        slice=group.slice,
        user=group.user,
        measured=group.measured,
        ok=group.ok,
        failed=group.failed,
        outcomes=group.outcomes,
        status_counts=group.status_counts,
        good=group.good,
        attainment=group.attainment,
        error_rate=group.error_rate,
        throughput_rps=group.throughput_rps,
        goodput_rps=group.goodput_rps,
        output_tokens=group.output_tokens,
        latencies_ms=group.latencies,
    )


def _run_started(now: Snapshot) -> RunStarted:
    return RunStarted(
        at_s=now.now_s,
        run_id=now.run_id,
        folder=now.folder,
        host=now.host,
        model=now.model,
        synthetic=now.synthetic,
        slo=now.slo,
        gates=now.gates,
        stage_count=now.stage_count,
    )


def _stage_started(now: Snapshot, view: StageView) -> StageStarted:
    return StageStarted(
        at_s=now.now_s,
        run_id=now.run_id,
        stage=view.stage,
        round=view.round,
        label=view.label,
        mode=view.mode,
        rate_rps=view.rate_rps,
        concurrency=view.concurrency,
    )


def _over(now: Snapshot, exit_code: int | None) -> RunJudged | RunFailed:
    if now.judged is None:
        return RunFailed(at_s=now.now_s, run_id=now.run_id, exit_code=exit_code, reason=now.reason)
    return RunJudged(
        at_s=now.now_s,
        run_id=now.run_id,
        exit_code=now.judged.exit_code,
        sentence=now.judged.sentence,
        results=[
            StageResult(stage=view.stage, round=view.round, label=view.label, result=view.result) for view in now.stages
        ],
        folder=now.folder,
        report=now.judged.report,
    )
