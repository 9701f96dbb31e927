"""One judged stage: figures of its batch and slices, what server and devices showed, its generator's health, its verdict.

Units are in the names. ``None`` means not measured (or not applicable), never 0; an infinite percentile is ``"inf"``. Shares
(``attainment``, ``error_rate``, ...) run from 0 to 1.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from llm_locust.records.device_figures import DeviceFigures
from llm_locust.records.figures import (
    ColdFigures,
    DeadlineFigures,
    Drift,
    ErrorCount,
    Figure,
    InFlightTrend,
    Interval,
    LengthFigures,
    LimitCount,
    LittlesLaw,
    Percentile,
    Span,
    StallFigures,
)
from llm_locust.records.server_figures import ServerFigures

Result = Literal["pass", "fail", "undetermined", "invalid", "not_run"]

Strength = Literal["candidate", "signed"]
"""``signed`` when the confidence interval clears the limit, ``candidate`` when only the point estimate does."""


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
    late_dispatch: str | None = None
    """How many arrivals were dispatched later than the bound, when that voids the stage; one of ``reasons`` then."""
    first_coalesced_share: float | None = None
    clock_uncertainty_ms: float | None = None
    """The largest of the stage's workers."""
    lost_workers: list[int] = []
    generator_errors: int = 0


class BatchFigures(msgspec.Struct, kw_only=True):
    """What is said of the measured requests of a stage, and again of those of each slice."""

    measured: int
    successful: int
    failed: int
    outcomes: dict[str, int] = {}
    status_counts: dict[str, int] = {}
    quality_failures: int | None = None
    """Checked replies that did not pass; ``None`` when no quality check ran."""
    quality_checked: int | None = None
    """Replies that a check passed or failed; ``None`` when none ran."""
    quality_errors: int = 0
    """Replies of which nothing is known, because the check itself failed."""

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
    conversations: bool = False
    """The rate is that of conversations: their next turns come beside it."""
    condition: str | None = None
    """What sets it apart from others of its rate or concurrency: the state of the server that it met."""
    mode: Literal["open", "closed"]
    rate_rps: float | None
    """Offered; ``None`` for a closed loop."""
    arrivals: str | None
    """The arrival process; ``None`` for a closed loop."""
    concurrency: int | None
    """Of a closed loop; an open stage has its observed ``peak_in_flight``."""
    interrupted: str | None = None
    transcribed_from: str | None = None
    """The tool that sent the requests; its load generator was not seen, so there is neither pass nor fail."""

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
    planned_leavings: int = 0
    """Cancelled because the plan said that their users would leave (``--cancel``)."""
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
    server: ServerFigures | None = None
    """What the server said over the window; ``None`` when nobody asked it."""
    device: DeviceFigures | None = None
    """What its machine used; ``None`` when no sample of it was taken."""
    server_changes: list[str] = []
    """What of the server was another thing at the end of the run: the stage is then of no one server, and invalid."""
    littles_law: LittlesLaw | None = None
    spans: list[Span] = []
    """The window in ten equal parts."""
    drift: list[Drift] = []
    """How each figure moved from the first span to the last."""
    cold: ColdFigures | None = None
    """``None`` where the server does not say whether a request found the model loaded."""
    input_lengths: LengthFigures | None = None
    """``None`` when no length was asked for, or the server counts none."""
    output_lengths: LengthFigures | None = None
    """Output limits against what was generated: short of the limit is where the model ended by itself."""
    requests_sha256: str | None = None
    """Digest of the measured requests' contents in index order: the same for stages that sent the same requests."""
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

    @property
    def waiting_trend(self) -> InFlightTrend | None:
        """Of the server's own queue; ``None`` when it was not read, or not often enough."""
        return self.server.waiting_trend if self.server is not None else None

    @property
    def waiting_was_read(self) -> bool:
        """The server told how many requests waited, at some moment of the window at least."""
        return self.server is not None and self.server.waiting_peak is not None
