"""The ladder: one row per stage, the same columns in the terminal and in the Markdown report."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from llm_locust.analysis.words import number, percent, round_mark
from llm_locust.records.summary import RunSummary, StageSummary

FEW_MARK = "*"
FEW_NOTE = f"{FEW_MARK} too few requests to tell this percentile from the maximum"


class Column(NamedTuple):
    """One column: two header lines (the figure, its unit) and how a stage fills it."""

    name: str
    unit: str
    cell: Callable[[StageSummary], str]
    wide: bool = False
    """Left out where there is little room."""
    text: bool = False
    """Aligned left."""


def offered(stage: StageSummary) -> str:
    """The offered rate with its process unless that is Poisson, or ``C=8`` for a closed loop that keeps 8 in flight.

    After it what sets the stage apart, and the round if it is a repetition.
    """
    rate = f"{number(stage.rate_rps)} conv./s" if stage.conversations else number(stage.rate_rps)
    what = f"C={stage.concurrency}" if stage.mode == "closed" else rate
    process = stage.arrivals if stage.arrivals not in (None, "poisson") else None
    return " ".join(part for part in (what, process, stage.condition, round_mark(stage.round)) if part)


def percentile_cell(stage: StageSummary, name: str) -> str:
    """The value of a percentile, marked when there are too few requests for it."""
    found = stage.percentiles[name]
    return number(found.value) + (FEW_MARK if found.at_maximum else "")


COLUMNS: tuple[Column, ...] = (
    Column("offered", "req/s", offered, text=True),
    Column("measured", "requests", lambda s: str(s.measured)),
    Column("done", "req/s", lambda s: number(s.completed_in_window_rps, 3), wide=True),
    Column("good", "req/s", lambda s: number(s.goodput_rps, 3)),
    Column("attained", "%", lambda s: percent(s.attainment).removesuffix(" %")),
    Column("errors", "%", lambda s: percent(s.error_rate, up=True).removesuffix(" %")),
    Column("TTFT p95", "ms", lambda s: percentile_cell(s, "ttft_p95_ms")),
    Column("TPOT p95", "ms", lambda s: percentile_cell(s, "tpot_p95_ms"), wide=True),
    Column("E2E p95", "ms", lambda s: percentile_cell(s, "e2e_p95_ms")),
    Column("in flight", "trend", lambda s: s.in_flight_trend.state if s.in_flight_trend else "-", wide=True, text=True),
    Column("result", "", lambda s: s.verdict.result, text=True),
)


def has_marks(stages: list[StageSummary], columns: tuple[Column, ...] = COLUMNS) -> bool:
    """Whether any cell carries the mark that :data:`FEW_NOTE` explains."""
    return any(FEW_MARK in column.cell(stage) for stage in stages for column in columns)


def requirement_lines(summary: RunSummary) -> list[str]:
    """What was required of the run and whether it was met, a line each."""
    answer = {True: "met", False: "NOT met", None: "cannot be told: what decides it is invalid or undetermined"}
    after = {"before": "", "after": " (set after the run)"}
    passes = [stage for stage in summary.stages if stage.verdict.result == "pass"]
    weak = any(stage.verdict.strength == "candidate" for stage in passes)
    few = ", by a candidate: too few requests to sign it" if weak else ""
    return [f"Required{after[r.set_]}: {r.text}: {answer[r.met]}{few if r.met else ''}" for r in summary.requirements]


def missing_file(worker: int) -> str:
    """What to do about a worker that was due to send and left no file."""
    return (
        f"worker {worker}: no file of its rows, so its arrivals count as lost; copy requests/worker-{worker}.csv here, or "
        "name its folder with --from"
    )
