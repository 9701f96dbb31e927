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
from llm_locust.records.run_folder import why_no_run
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
    """Arrivals that were due."""
    attempted: int
    """... of which with any outcome but ``not_sent`` and ``lost``."""
    not_sent: int
    """... of which never issued."""
    lost: int
    """... of which without a row: their worker died."""
    sources: list[str] = []
    """The files that were read."""
    rows_read: int = 0
    """Rows of requests in those files, copies included."""
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
    """The counts that do not agree."""


class PointSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One rate or concurrency over all its rounds; it passes only if every round does."""

    name: str
    """As its stages are labelled."""
    mode: Literal["open", "closed"]
    """Open arrivals, or a closed loop."""
    rate_rps: float | None
    """Offered arrivals per second; ``None`` for a closed loop."""
    concurrency: int | None
    """Requests kept in flight; ``None`` for open arrivals."""
    arrivals: str | None
    """The arrival process; ``None`` for a closed loop."""
    rounds: int
    """How many there were."""
    result: Result
    """Of all rounds together."""
    strength: Strength | None
    """Of a pass or a fail; ``None`` for the results that claim nothing."""
    measured: int
    """In all rounds; here and below, invalid rounds do not count unless all are."""
    attainment: float | None
    """Good / measured of all rounds together; ``None`` when some round has none."""
    attainment_interval: Interval | None
    """Wilson, of all rounds together."""
    attainment_least: float | None
    """Of the worst round."""
    attainment_most: float | None
    """Of the best round."""
    goodput_least_rps: float | None = None
    """Good requests per second of the worst round; ``None`` when some round has none."""
    goodput_most_rps: float | None = None
    """... of the best round."""
    failing_dimensions: list[FailingDimension] = []
    """Of the round that decides."""
    requests_needed: int | None = None
    """Measured requests in the deciding round from which its result could be signed."""
    seconds_needed: float | None = None
    """A window of this length holds as many at the rate seen."""


class Boundary(msgspec.Struct, frozen=True, kw_only=True):
    """Where open arrivals stop being served well: between the last pass and the first fail."""

    last_pass_rps: float | None = None
    """The highest offered rate that passed below the first that failed; ``None``: none did."""
    first_fail_rps: float | None = None
    """The lowest offered rate that failed; ``None``: none did."""
    interval_share: float | None = None
    """(first fail - last pass) / last pass: how far apart the two still are."""
    failing_dimensions: list[FailingDimension] = []
    """What the first failing rate failed on."""
    burst: Result | None = None
    """What another arrival process (a burst, a trace) of the mean rate that passed came to; ``None``: not tested."""
    burst_name: str | None = None
    """Its stage's label; ``None``: not tested."""
    not_tested: list[str] = []
    """What the boundary does not say, in words."""


class Knee(msgspec.Struct, frozen=True, kw_only=True):
    """Of a closed-loop sweep: the least concurrency that gives nearly all the throughput to be had within the limits."""

    concurrency: int | None
    """``None`` when no tested one kept the limits."""
    strength: Strength
    """``candidate`` when what it rests on, or how few rounds there were, leaves it open."""
    sentence: str
    """The knee in words."""
    warnings: list[str] = []
    """What it rests on and was not measured, or could be better, as sentences."""


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that the run had to show, and whether it did."""

    text: str
    """In words."""
    met: bool | None
    """``None`` when what decides it is invalid or undetermined."""
    set_: WhenSet = msgspec.field(default="before", name="set")
    """Fixed before load, or asked for afterwards."""


class RunSummary(msgspec.Struct, kw_only=True):
    """``summary.json`` of a run folder."""

    schema_version: str = SCHEMA_VERSION
    """Version of this form."""
    run_id: str
    """The run's name."""
    state: str
    """How the run ended: ``complete``, ``interrupted``, ``failed``, or ``running`` while it goes on."""
    state_reason: str | None = None
    """Why it is not ``complete``, in words; ``None``: there is nothing to say."""
    started_at: str
    """ISO 8601, UTC."""
    host: str
    """The base URL of the target, without credentials."""
    model: str | None = None
    """As requests name it; ``None``: none was named."""
    synthetic_engine: bool = False
    """The target was the synthetic engine: nothing here is performance."""
    transcribed: Transcribed | None = None
    """Another tool sent the requests; ``None``: this project did."""
    workload: str
    """What it is called."""
    workload_kind: str
    """``synthetic`` (made up) or ``representative`` (taken from real traffic)."""
    workload_sha256: str
    """Digest of the prompts and their limits."""
    deadline_s: float | None
    """``None`` where another tool sent the requests and does not say."""
    max_in_flight: int | None = None
    """Requests in flight at most (``--max-in-flight``); ``None`` for no cap."""
    command: list[str] = []
    """The command line, without secrets."""
    slo: dict[str, float] = {}
    """Per-request limits in milliseconds that the stages were judged by."""
    limits_set: WhenSet = "before"
    """When the limits were chosen."""
    gates: list[str] = []
    """The gates that were chosen, as they are written; empty when the defaults stand."""
    gates_set: WhenSet = "before"
    """When the gates were chosen."""
    price_per_hour: float | None = None
    """Of the machines under test, in its own currency; ``None``: none was given."""
    requirements: list[Requirement] = []
    """What the run had to show."""
    sustained_rate_rps: float | None = None
    """The highest offered rate that passed below the first that failed."""
    first_failing_rate_rps: float | None = None
    """The lowest offered rate that failed; ``None``: none did."""
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
    """How the raw files add up."""
    agreement: Agreement | None = None
    """``None`` when nobody read the server's metrics."""
    residency: list[str] = []
    """How much of the model Ollama had in accelerator memory, as sentences; it says nothing of the KV cache."""
    telemetry_notes: list[str] = []
    """What to know of the files of samples: where their times come from, what is missing."""
    stages: list[StageSummary] = []
    """Every stage, in order."""
    findings: list[Finding] = []
    """What the figures point to, with what shows it and what to vary next; empty when no rule found its symptom."""
    prompts_note: str | None = None
    """What is to be known where requests shared prompts although nobody asked for it."""
    limitations: list[str] = []
    """What the result does not say, as sentences."""

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
        except (FileNotFoundError, NotADirectoryError):
            raise UsageError(
                why_no_run(path.parent) or f"{path.parent} has no {path.name}: run llm-locust merge {path.parent} first"
            ) from None
        except msgspec.MsgspecError as error:
            raise UsageError(f"{path}: not a summary of schema {SCHEMA_VERSION}: {error}") from None
