"""The summary: what a run's figures are and how each stage was judged; the machine form of the report (``summary.json``).

Units are in the names. ``None`` means not measured (or not applicable), never 0; an infinite percentile is ``"inf"``. Shares
(``attainment``, ``error_rate``, ...) run from 0 to 1. What a figure is computed from is said where it is computed
(``llm_locust.analysis``); here is only its name, unit and form.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from llm_locust.records.diagnosis import Finding
from llm_locust.records.errors import UsageError
from llm_locust.records.figures import (
    DeadlineFigures,
    ErrorCount,
    Figure,
    InFlightTrend,
    Interval,
    LimitCount,
    LittlesLaw,
    Percentile,
    Span,
    StallFigures,
    figure,
)
from llm_locust.records.manifest import SCHEMA_VERSION, Transcribed
from llm_locust.records.server_figures import CountDifference
from llm_locust.records.stage_summary import (
    BatchFigures,
    FailingDimension,
    Gate,
    GeneratorHealth,
    Result,
    SliceSummary,
    StageSummary,
    StageVerdict,
    Strength,
)
from llm_locust.records.whole_file import write_whole_json

__all__ = [
    "Agreement",
    "BatchFigures",
    "Boundary",
    "DeadlineFigures",
    "ErrorCount",
    "FailingDimension",
    "Figure",
    "Finding",
    "Gate",
    "GeneratorHealth",
    "InFlightTrend",
    "Interval",
    "Knee",
    "LimitCount",
    "LittlesLaw",
    "Percentile",
    "PointSummary",
    "Reconciliation",
    "Requirement",
    "Result",
    "RunSummary",
    "SliceSummary",
    "Span",
    "StageSummary",
    "StageVerdict",
    "StallFigures",
    "Strength",
    "WhenSet",
    "figure",
]

WhenSet = Literal["before", "after"]
"""Limits fixed in the manifest before load, or applied to the records afterwards."""


class Reconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """How the raw files add up: ``planned = attempted + not_sent + lost``."""

    planned: int
    attempted: int
    not_sent: int
    lost: int
    sources: list[str] = []
    """The files that were read."""
    rows_read: int = 0
    rows_collapsed: int = 0
    """Rows that were there twice, identical (a worker's own copy and the master's)."""
    torn_lines: dict[str, int] = {}
    """Unterminated last lines that were dropped, by file."""
    planned_by_row: int = 0
    """Cool-down arrivals known only by their rows, because the run died before their plan was written."""
    workers_without_file: list[int] = []
    """Workers that were due to send something, and of whose rows there was no file."""


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Whether client and server counted the same over the whole run."""

    text: str
    """In a sentence: what they agree on, what they count differently and by how much, or why nothing was compared."""
    differences: list[CountDifference] = []


class PointSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One rate or concurrency over all its rounds; it passes only if every round does."""

    name: str
    mode: Literal["open", "closed"]
    rate_rps: float | None
    concurrency: int | None
    arrivals: str | None
    rounds: int
    result: Result
    strength: Strength | None
    measured: int
    """In all rounds."""
    attainment: float | None
    """Good / measured of all rounds together; ``None`` when some round has none."""
    attainment_interval: Interval | None
    """Wilson, of all rounds together."""
    attainment_least: float | None
    """Of the worst round."""
    attainment_most: float | None
    goodput_least_rps: float | None = None
    goodput_most_rps: float | None = None
    failing_dimensions: list[FailingDimension] = []
    """Of the round that decides."""
    requests_needed: int | None = None
    """Measured requests in the deciding round from which its result could be signed."""
    seconds_needed: float | None = None


class Boundary(msgspec.Struct, frozen=True, kw_only=True):
    """Where open arrivals stop being served well: between the last pass and the first fail."""

    last_pass_rps: float | None = None
    first_fail_rps: float | None = None
    interval_share: float | None = None
    """(first fail - last pass) / last pass: how far apart the two still are."""
    failing_dimensions: list[FailingDimension] = []
    """What the first failing rate failed on."""
    burst: Result | None = None
    """What another arrival process (a burst, a trace) of the mean rate that passed came to; ``None``: not tested."""
    burst_name: str | None = None
    not_tested: list[str] = []
    """What the boundary does not say, in words."""


class Knee(msgspec.Struct, frozen=True, kw_only=True):
    """Of a closed-loop sweep: the least concurrency that gives nearly all the throughput to be had within the limits."""

    concurrency: int | None
    """``None`` when no tested one kept the limits."""
    strength: Strength
    sentence: str
    warnings: list[str] = []


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that the run had to show, and whether it did."""

    text: str
    met: bool | None
    """``None`` when what decides it is invalid or undetermined."""
    set_: WhenSet = msgspec.field(default="before", name="set")


class RunSummary(msgspec.Struct, kw_only=True):
    """``summary.json`` of a run folder."""

    schema_version: str = SCHEMA_VERSION
    run_id: str
    state: str
    state_reason: str | None = None
    started_at: str
    host: str
    model: str | None = None
    synthetic_engine: bool = False
    transcribed: Transcribed | None = None
    """Another tool sent the requests; ``None``: this project did."""
    workload: str
    workload_kind: str
    workload_sha256: str
    deadline_s: float | None
    """``None`` where another tool sent the requests and does not say."""
    max_in_flight: int | None = None
    command: list[str] = []
    slo: dict[str, float] = {}
    """Per-request limits in milliseconds that the stages were judged by."""
    limits_set: WhenSet = "before"
    gates: list[str] = []
    """The gates that were chosen, as they are written; empty when the defaults stand."""
    gates_set: WhenSet = "before"
    price_per_hour: float | None = None
    requirements: list[Requirement] = []
    sustained_rate_rps: float | None = None
    """The highest offered rate that passed below the first that failed."""
    first_failing_rate_rps: float | None = None
    points: list[PointSummary] = []
    """Every rate and concurrency over its rounds, rising."""
    boundary: Boundary | None = None
    """``None`` without open arrivals."""
    knee: Knee | None = None
    """``None`` unless a closed loop was run at several concurrencies."""
    verdict: str
    """In words."""
    sent: int
    """Requests sent in the whole run."""
    reconciliation: Reconciliation
    agreement: Agreement | None = None
    """``None`` when nobody read the server's metrics."""
    residency: list[str] = []
    """How much of the model Ollama had in accelerator memory, as sentences; it says nothing of the KV cache."""
    telemetry_notes: list[str] = []
    """What to know of the files of samples: where their times come from, what is missing."""
    stages: list[StageSummary] = []
    findings: list[Finding] = []
    """What the figures point to, with what shows it and what to vary next; empty when no rule found its symptom."""
    prompts_note: str | None = None
    """What is to be known where requests shared prompts although nobody asked for it."""
    limitations: list[str] = []

    def save(self, path: Path) -> None:
        """Write atomically: a reader sees the old summary or the new one, never half of one."""
        write_whole_json(path, self)

    @staticmethod
    def load(path: Path) -> RunSummary:
        """Read a summary.

        Raises:
            UsageError: there is none, or it is not a summary of this version.
        """
        try:
            return msgspec.json.decode(path.read_bytes(), type=RunSummary)
        except FileNotFoundError:
            raise UsageError(f"{path.parent} has no {path.name}: run llm-locust merge {path.parent} first") from None
        except msgspec.MsgspecError as error:
            raise UsageError(f"{path}: not a summary of schema {SCHEMA_VERSION}: {error}") from None
