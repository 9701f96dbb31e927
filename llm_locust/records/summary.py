"""The summary: what a run's figures are and how each stage was judged; the machine form of the report (``summary.json``).

Units are in the names. ``None`` means not measured (or not applicable), never 0; an infinite percentile is ``"inf"``. Shares
(``attainment``, ``error_rate``, ...) run from 0 to 1. What a figure is computed from is said where it is computed
(``llm_locust.analysis``); here is only its name, unit and form.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec

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
from llm_locust.records.manifest import SCHEMA_VERSION

__all__ = [
    "BatchFigures",
    "Boundary",
    "DeadlineFigures",
    "ErrorCount",
    "FailingDimension",
    "Figure",
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

Result = Literal["pass", "fail", "undetermined", "invalid", "not_run"]

Strength = Literal["candidate", "signed"]
"""``signed`` when the confidence interval clears the limit, ``candidate`` when only the point estimate does."""

WhenSet = Literal["before", "after"]
"""Limits fixed in the manifest before load, or applied to the records afterwards."""


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """One condition of a pass."""

    slice: str | None = None
    """``None``: all requests of the stage together."""
    name: str
    relation: Literal[">=", "<=", "="]
    limit: float | str
    value: Figure | str
    passed: bool | None
    """``None`` when the value was not measured or says nothing: the stage is then undetermined, never a pass."""
    signed: bool = False
    """The confidence interval of the value lies on the same side of the limit as the value."""
    applicable: bool = True
    default: bool = True
    """A default of this project, in place because the user chose no gates."""
    reason: str | None = None
    """Why ``passed`` is ``None``, in words."""


class FailingDimension(msgspec.Struct, frozen=True, kw_only=True):
    """What a stage failed on: a gate, or a latency limit behind the attainment gate."""

    name: str
    """With its slice, when it is one of a slice: ``faq:ttft_p95``."""
    detail: str
    """By how much, in words: ``41 of 60 over 500 ms``."""


class StageVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The judgement of one stage."""

    result: Result
    strength: Strength | None = None
    """Of a pass or a fail; ``None`` for the results that claim nothing."""
    sentence: str
    gates: list[Gate] = []
    failing_dimensions: list[FailingDimension] = []
    requests_needed: int | None = None
    """Measured requests from which the result could be signed at the shares seen; ``None``: it is, or no number will do."""
    seconds_needed: float | None = None
    """A window of this length holds as many at the rate seen."""


class GeneratorHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Did the load generator do what was planned? If not, the stage says nothing about the server."""

    valid: bool
    reasons: list[str] = []
    """Why it is not valid, as sentences."""
    notes: list[str] = []
    """What is worth knowing and does not void the stage."""
    not_applicable: list[str] = []
    """Checks that the arrival mode has no meaning for."""
    dispatched_share: float | None = None
    dispatch_lag_p99_ms: float | None = None
    lag_bound_ms: float
    first_coalesced_share: float | None = None
    clock_uncertainty_ms: float | None = None
    """The largest of the stage's workers."""
    lost_workers: list[int] = []
    generator_errors: int = 0


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


class BatchFigures(msgspec.Struct, kw_only=True):
    """What is said of the measured requests of a stage, and again of those of each slice."""

    measured: int
    successful: int
    failed: int
    outcomes: dict[str, int] = {}
    status_counts: dict[str, int] = {}
    quality_failures: int | None = None
    """``None`` when no quality check ran."""

    seconds: float | None
    request_throughput_rps: float | None = None
    output_throughput_tps: float | None = None
    total_throughput_tps: float | None = None

    good_requests: int | None = None
    goodput_rps: float | None = None
    goodput_unavailable: str | None = None
    """Why there is no goodput, in words."""
    attainment: float | None = None
    attainment_interval: Interval | None = None
    error_rate: float | None = None
    error_rate_interval: Interval | None = None
    reject_rate: float | None = None
    """Rejected (HTTP 429 and 503) / measured."""
    limits: list[LimitCount] = []

    percentiles: dict[str, Percentile] = {}
    """By name: ``ttft_p95_ms`` over ok requests, ``ttft_p95_ms_all`` with failures as infinity; ``itl_p95_ms``, ...
    ``request_tps_p5`` is the speed that 95 % of requests reach: their output tokens / E2E."""
    stalls: StallFigures | None = None
    """``None`` when no gaps were kept."""
    deadlines: DeadlineFigures | None = None
    """``None`` unless both a ``ttft`` and a ``tpot`` limit were chosen and some stream can be judged."""
    output_tokens: int | None = None
    prompt_tokens: int | None = None
    tokens_missing: int = 0
    """Ok requests without a token count; the token throughputs are then not measured."""
    tpot_not_applicable: int = 0
    tpot_missing: int = 0


class SliceSummary(BatchFigures, kw_only=True):
    """One slice of the workload in one stage, alone."""

    name: str
    result: Result | None = None
    """By its own gates; ``None`` when it has none."""
    failing_dimensions: list[FailingDimension] = []


class StageSummary(BatchFigures, kw_only=True):
    """One stage: figures of its batch, its generator's health and its verdict."""

    stage: int
    round: int
    label: str
    mode: Literal["open", "closed"]
    rate_rps: float | None
    """Offered; ``None`` for a closed loop."""
    arrivals: str | None
    """The arrival process; ``None`` for a closed loop."""
    concurrency: int | None
    """Of a closed loop; an open stage has its observed ``peak_in_flight``."""
    interrupted: str | None = None

    # The whole stage, warm-up and cool-down included.
    planned: int
    attempted: int
    not_sent: int
    lost: int
    oom: int = 0
    """Memory that runs out during the warm-up has run out too."""
    warmup_requests: int
    cooldown_requests: int

    # The batch: what the figures are made of.
    dispatched: int
    sent: int
    errors: list[ErrorCount] = []
    """The commonest failures."""

    seconds_method: str | None
    achieved_rate_rps: float | None = None
    """Sent per second of the window."""
    completed_in_window_rps: float | None = None
    output_tokens_in_window_tps: float | None = None
    good_output_tokens_in_window_tps: float | None = None
    """... of good requests only."""
    cost_per_million_good_tokens: Figure = None
    """In the currency of the price; infinite when no token was good, ``None`` without a price."""
    goodput_vllm_rps: float | None = None

    peak_in_flight: int | None = None
    in_flight_at_window_end: int | None = None
    held_back_at_window_end: int | None = None
    """Taken up by the generator but waiting for a place under ``--max-in-flight``."""
    drain_seconds: float | None = None
    in_flight_trend: InFlightTrend | None = None
    """``None`` for a closed loop, whose number in flight is its own choice."""
    waiting_trend: InFlightTrend | None = None
    """The server's own queue; ``None`` while it is not read."""
    littles_law: LittlesLaw | None = None
    spans: list[Span] = []
    """The window in ten equal parts."""
    slices: list[SliceSummary] = []
    """Each slice of the workload alone, by name; empty when the workload has none."""

    token_sources: dict[str, int] = {}
    """Ok requests by where their output token count comes from."""
    buffered_requests: int = 0
    """Ok requests with several tokens but one receive time: something between server and client buffers."""
    buffered: bool = False
    coalesced_share: float | None = None
    """Requests with at least one read that held more than one event."""
    clock_sources: dict[str, int] = {}

    generator: GeneratorHealth
    verdict: StageVerdict


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
    workload: str
    workload_kind: str
    workload_sha256: str
    deadline_s: float
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
    stages: list[StageSummary] = []
    limitations: list[str] = []

    def save(self, path: Path) -> None:
        """Write atomically: a reader sees the old summary or the new one, never half of one."""
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")
        os.replace(temporary, path)

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
