"""The summary: what a run's figures are and how each stage was judged; the machine form of the report (``summary.json``).

Units are in the names. ``None`` means not measured (or not applicable), never 0; an infinite percentile is ``"inf"``. Shares
(``attainment``, ``error_rate``, ...) run from 0 to 1. What a figure is computed from is said where it is computed
(``llm_locust.analysis``); here is only its name, unit and form.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Literal

import msgspec

from llm_locust.records.errors import UsageError
from llm_locust.records.manifest import SCHEMA_VERSION

Result = Literal["pass", "fail", "undetermined", "invalid", "not_run"]

Strength = Literal["candidate", "signed"]
"""``signed`` when the confidence interval clears the limit, ``candidate`` when only the point estimate does."""

WhenSet = Literal["before", "after"]
"""Limits fixed in the manifest before load, or applied to the records afterwards."""

Figure = float | Literal["inf"] | None
"""A number that may be infinite (a percentile that falls among the failures) or not measured."""


def figure(value: float | None) -> Figure:
    """A number in the form that JSON can hold: ``"inf"`` for infinity, ``None`` for NaN."""
    if value is None or math.isnan(value):
        return None
    return "inf" if math.isinf(value) else value


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """A two-sided 95 % confidence interval of a share."""

    low: float
    high: float


class Percentile(msgspec.Struct, frozen=True, kw_only=True):
    """A nearest-rank percentile of ``n`` values, with its one-sided 95 % bounds by order statistics."""

    value: Figure
    n: int
    at_maximum: bool = False
    """The rank is that of the largest value: too few values to tell this percentile from the maximum."""
    low: Figure = None
    """The true percentile is at least this with 95 % confidence; ``None`` when so few values give no bound."""
    high: Figure = None
    """The true percentile is at most this with 95 % confidence; ``None`` when so few values give no bound."""


class LimitCount(msgspec.Struct, frozen=True, kw_only=True):
    """How the ok requests of a stage stand to one chosen latency limit."""

    name: str
    limit_ms: float
    judged: int
    """Ok requests that have the value."""
    missed: int
    """... of which over the limit."""
    not_applicable: int = 0
    """Ok requests that the limit says nothing about (TPOT of a one-token reply)."""
    missing: int = 0
    """Ok requests whose value should be there and is not: goodput is unavailable while this is not 0."""


class ErrorCount(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of failure, as often as it was seen."""

    outcome: str
    status: int | None
    error: str | None
    count: int


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """One condition of a pass."""

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
    """A default of this project, not chosen by the user."""


class FailingDimension(msgspec.Struct, frozen=True, kw_only=True):
    """What a stage failed on: a gate, or a latency limit behind the attainment gate."""

    name: str
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


class InFlightTrend(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the number of arrivals taken up and not yet ended rises over spans of the window."""

    state: Literal["flat", "rising", "falling", "undetermined"]
    detail: str
    """The reason in words."""
    rise: float | None = None
    """Slope times the length of the window, in requests."""
    noise: float | None = None
    """The rise below which nothing is called a trend, in requests."""
    p_value: float | None = None
    """One-sided, in the direction of the rise."""
    smallest_visible_overload: float | None = None
    """The share of offered requests left unserved that would just have been called rising."""
    span_means: list[float] = []
    """The series itself: the time-weighted mean of each span."""


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


class StageSummary(msgspec.Struct, kw_only=True):
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
    warmup_requests: int
    cooldown_requests: int

    # The batch: what the figures are made of.
    measured: int
    successful: int
    failed: int
    dispatched: int
    sent: int
    outcomes: dict[str, int] = {}
    status_counts: dict[str, int] = {}
    quality_failures: int | None = None
    """``None`` when no quality check ran."""
    errors: list[ErrorCount] = []
    """The commonest failures."""

    seconds: float | None
    seconds_method: str | None
    achieved_rate_rps: float | None = None
    """Sent per second of the window."""
    request_throughput_rps: float | None = None
    output_throughput_tps: float | None = None
    total_throughput_tps: float | None = None
    completed_in_window_rps: float | None = None
    output_tokens_in_window_tps: float | None = None

    good_requests: int | None = None
    goodput_rps: float | None = None
    goodput_unavailable: str | None = None
    """Why there is no goodput, in words."""
    goodput_vllm_rps: float | None = None
    attainment: float | None = None
    attainment_interval: Interval | None = None
    error_rate: float | None = None
    error_rate_interval: Interval | None = None
    limits: list[LimitCount] = []

    peak_in_flight: int | None = None
    in_flight_at_window_end: int | None = None
    held_back_at_window_end: int | None = None
    """Taken up by the generator but waiting for a place under ``--max-in-flight``."""
    drain_seconds: float | None = None
    in_flight_trend: InFlightTrend | None = None
    """``None`` for a closed loop, whose number in flight is its own choice."""

    percentiles: dict[str, Percentile] = {}
    """By name: ``ttft_p95_ms`` over ok requests, ``ttft_p95_ms_all`` with failures as infinity; ``itl_p95_ms``, ..."""
    output_tokens: int | None = None
    prompt_tokens: int | None = None
    token_sources: dict[str, int] = {}
    """Ok requests by where their output token count comes from."""
    tokens_missing: int = 0
    """Ok requests without a token count; the token throughputs are then not measured."""
    tpot_not_applicable: int = 0
    tpot_missing: int = 0
    buffered_requests: int = 0
    """Ok requests with several tokens but one receive time: something between server and client buffers."""
    buffered: bool = False
    coalesced_share: float | None = None
    """Requests with at least one read that held more than one event."""
    clock_sources: dict[str, int] = {}

    generator: GeneratorHealth
    verdict: StageVerdict


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
    requirements: list[Requirement] = []
    sustained_rate_rps: float | None = None
    """The highest offered rate that passed below the first that failed."""
    first_failing_rate_rps: float | None = None
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
