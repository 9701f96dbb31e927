"""One judged stage: figures of its batch and slices, what server and devices showed, its generator's health, its verdict.

Units are in the names. ``None`` means not measured (or not applicable), never 0; an infinite percentile is ``"inf"``. Shares
(``attainment``, ``error_rate``, ...) run from 0 to 1.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

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
    """The figure, as a gate names it: ``ttft_p95``, ``error_rate``, ..."""
    relation: Literal[">=", "<=", "="]
    """How the value must stand to the limit."""
    limit: float | str
    """In the unit of the figure; ``flat`` for a trend."""
    value: Figure | str
    """What was measured, in the same unit; ``None``: not measured."""
    passed: bool | None
    """``None`` when the value was not measured or says nothing: the stage is then undetermined, never a pass."""
    signed: bool = False
    """The confidence interval of the value lies on the same side of the limit as the value."""
    applicable: bool = True
    """``False``: the figure has no meaning for this stage, and the gate takes no part in the verdict."""
    default: bool = True
    """A default of this project, in place because the user chose no gates."""
    reason: str | None = None
    """Why ``passed`` is ``None``, in words."""


class FailingDimension(msgspec.Struct, frozen=True, kw_only=True):
    """What a stage failed on: a gate, or a latency limit behind the attainment gate."""

    name: Annotated[str, Meta(description="with its slice, when it is one of a slice: faq:ttft_p95")]
    detail: Annotated[str, Meta(description="by how much, in words: 41 of 60 over 500 ms")]


class StageVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The judgement of one stage."""

    result: Result
    """What came of the stage."""
    strength: Strength | None = None
    """Of a pass or a fail; ``None`` for the results that claim nothing."""
    sentence: str
    """The result in words."""
    gates: list[Gate] = []
    """Every condition of a pass."""
    failing_dimensions: list[FailingDimension] = []
    """What a fail is due to; empty unless it is one."""
    requests_needed: int | None = None
    """Measured requests from which the result could be signed at the shares seen; ``None``: it is, or no number will do."""
    seconds_needed: float | None = None
    """A window of this length holds as many at the rate seen."""


class GeneratorHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Did the load generator do what was planned? If not, the stage says nothing about the server."""

    valid: bool
    """It did what was planned: the stage says something about the server."""
    reasons: list[str] = []
    """Why it is not valid, as sentences."""
    notes: list[str] = []
    """What is worth knowing and does not void the stage."""
    not_applicable: list[str] = []
    """Checks that the arrival mode has no meaning for."""
    dispatched_share: float | None = None
    """Dispatched / planned arrivals, 0 to 1; ``None`` for a closed loop."""
    dispatch_lag_p99_ms: float | None = None
    """P99 of dispatched - planned; ``None`` for a closed loop."""
    lag_bound_ms: float
    """An arrival dispatched later than this is late: 5 ms, or 1 % of the smallest latency limit where that is more."""
    dispatched: int | None = None
    """Measured arrivals with a dispatch lag; ``None`` for a closed loop."""
    late: int | None = None
    """... of which late. More than 1 % of them, and more than one, void the stage; ``None`` for a closed loop."""
    late_dispatch: str | None = None
    """How many arrivals were dispatched later than the bound, when that voids the stage; one of ``reasons`` then."""
    first_coalesced_share: float | None = None
    """Requests whose first output came in a read with more, 0 to 1; ``None``: none had output."""
    clock_uncertainty_ms: float | None = None
    """The largest of the stage's workers."""
    lost_workers: list[int] = []
    """The ``k`` of each worker that went away before the stage's end."""
    generator_errors: int = 0
    """Requests with outcome ``generator_error``."""


class BatchFigures(msgspec.Struct, kw_only=True):
    """What is said of the measured requests of a stage, and again of those of each slice."""

    measured: int
    """Requests of the batch, whatever became of them."""
    successful: int
    """... of which with outcome ``ok``."""
    failed: int
    """... of which with any other outcome."""
    outcomes: dict[str, int] = {}
    """How many had each outcome."""
    status_counts: dict[str, int] = {}
    """How many had each HTTP status."""
    quality_failures: int | None = None
    """Checked replies that did not pass; ``None`` when no quality check ran."""
    quality_checked: int | None = None
    """Replies that a check passed or failed; ``None`` when none ran."""
    quality_errors: int = 0
    """Replies of which nothing is known, because the check itself failed."""

    seconds: float | None
    """Divisor of the rates; ``None`` when there is none."""
    request_throughput_rps: float | None = None
    """ok / seconds."""
    output_throughput_tps: float | None = None
    """Output tokens of ok requests / seconds; ``None`` while one of them has no count."""
    total_throughput_tps: float | None = None
    """Prompt and output tokens of ok requests / seconds; ``None`` while one has no count."""

    good_requests: int | None = None
    """Ok requests that met every chosen limit; ``None``: no limit was chosen, or it cannot be told."""
    goodput_rps: float | None = None
    """good / seconds; ``None`` as above."""
    goodput_unavailable: str | None = None
    """Why there is no goodput, in words."""
    attainment: float | None = None
    """good / measured; ``None`` as above."""
    attainment_interval: Interval | None = None
    """Wilson, 95 %; ``None`` without an attainment."""
    error_rate: float | None = None
    """failed / measured; ``None`` when nothing was measured."""
    error_rate_interval: Interval | None = None
    """Wilson, 95 %; ``None`` when nothing was measured."""
    reject_rate: float | None = None
    """Rejected (HTTP 429 and 503) / measured."""
    limits: list[LimitCount] = []
    """How the ok requests stand to each chosen limit."""

    percentiles: dict[str, Percentile] = {}
    """By name: ``ttft_p95_ms`` over ok requests, ``ttft_p95_ms_all`` with failures as infinity; ``itl_p95_ms``, ...
    ``request_tps_p5`` is the speed that 95 % of requests reach: their output tokens / E2E."""
    stalls: StallFigures | None = None
    """``None`` when no gaps were kept."""
    deadlines: DeadlineFigures | None = None
    """``None`` unless both a ``ttft`` and a ``tpot`` limit were chosen and some stream can be judged."""
    output_tokens: int | None = None
    """Of all ok requests together; ``None`` while one of them has no count."""
    prompt_tokens: int | None = None
    """Of all ok requests together; ``None`` while one of them has no count."""
    tokens_missing: int = 0
    """Ok requests without a token count; the token throughputs are then not measured."""
    tpot_not_applicable: int = 0
    """Ok requests of fewer than two tokens, which have no TPOT."""
    tpot_missing: int = 0
    """Ok requests that should have a TPOT and have none."""


class SliceSummary(BatchFigures, kw_only=True):
    """One slice of the workload in one stage, alone."""

    name: str
    """As the workload names it."""
    result: Result | None = None
    """By its own gates; ``None`` when it has none."""
    failing_dimensions: list[FailingDimension] = []
    """What its own gates failed on."""


class StageSummary(BatchFigures, kw_only=True):
    """One stage: figures of its batch, its generator's health and its verdict."""

    stage: int
    """Number of the stage in its run, from 0."""
    round: int
    """Which repetition of its point, from 0."""
    label: str
    """As tables name it: mode, rate or concurrency, arrival process."""
    conversations: bool = False
    """The rate is that of conversations: their next turns come beside it."""
    condition: str | None = None
    """What sets it apart from others of its rate or concurrency: the state of the server that it met."""
    mode: Literal["open", "closed"]
    """Open arrivals, or a closed loop."""
    rate_rps: float | None
    """Offered; ``None`` for a closed loop."""
    arrivals: str | None
    """The arrival process; ``None`` for a closed loop."""
    concurrency: int | None
    """Of a closed loop; an open stage has its observed ``peak_in_flight``."""
    interrupted: str | None = None
    """Why it ended before its time; ``None``: it did not."""
    transcribed_from: str | None = None
    """The tool that sent the requests; its load generator was not seen, so there is neither pass nor fail."""

    # The whole stage, warm-up and cool-down included.
    planned: int
    """Arrivals that were due = attempted + not_sent + lost."""
    attempted: int
    """Every outcome but ``not_sent`` and ``lost``."""
    not_sent: int
    """Due, but never issued."""
    lost: int
    """Without a row: their worker died."""
    oom: int = 0
    """Memory that runs out during the warm-up has run out too."""
    warmup_requests: int
    """Arrivals of the warm-up."""
    cooldown_requests: int
    """Arrivals of the cool-down."""

    # The batch: what the figures are made of.
    dispatched: int
    """Those that the load generator took up."""
    sent: int
    """Those that were issued."""
    planned_leavings: int = 0
    """Cancelled because the plan said that their users would leave (``--cancel``)."""
    errors: list[ErrorCount] = []
    """The commonest failures."""

    seconds_method: str | None
    """What ``seconds`` is, in words; ``None`` when there are none."""
    achieved_rate_rps: float | None = None
    """Sent per second of the window."""
    completed_in_window_rps: float | None = None
    """Ok requests complete inside the window / its length."""
    output_tokens_in_window_tps: float | None = None
    """Output tokens that came out inside the window / its length."""
    good_output_tokens_in_window_tps: float | None = None
    """... of good requests only."""
    cost_per_million_good_tokens: Figure = None
    """In the currency of the price; infinite when no token was good, ``None`` without a price."""
    goodput_vllm_rps: float | None = None
    """Good requests of the whole stage / time to its last end, as vLLM's bench divides."""

    peak_in_flight: int | None = None
    """Most requests sent and not ended at one moment of the window."""
    in_flight_at_window_end: int | None = None
    """Requests sent and not ended when the window ended."""
    held_back_at_window_end: int | None = None
    """Taken up by the generator but waiting for a place under ``--max-in-flight``."""
    drain_seconds: float | None = None
    """From the end of arrivals to the end of the last request."""
    in_flight_trend: InFlightTrend | None = None
    """``None`` for a closed loop, whose number in flight is its own choice."""
    server: ServerFigures | None = None
    """What the server said over the window; ``None`` when nobody asked it."""
    device: DeviceFigures | None = None
    """What its machine used; ``None`` when no sample of it was taken."""
    server_changes: list[str] = []
    """What of the server was another thing at the end of the run: the stage is then of no one server, and invalid."""
    littles_law: LittlesLaw | None = None
    """Whether mean in flight, rate and time in system fit together; ``None`` when nothing was sent in the window."""
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
    """There are such requests."""
    coalesced_share: float | None = None
    """Requests with at least one read that held more than one event."""
    clock_sources: dict[str, int] = {}
    """Measured requests by where their receive times come from."""

    generator: GeneratorHealth
    """Whether the load generator did what was planned."""
    verdict: StageVerdict
    """How the stage was judged."""

    @property
    def waiting_trend(self) -> InFlightTrend | None:
        """Of the server's own queue; ``None`` when it was not read, or not often enough."""
        return self.server.waiting_trend if self.server is not None else None

    @property
    def waiting_was_read(self) -> bool:
        """The server told how many requests waited, at some moment of the window at least."""
        return self.server is not None and self.server.waiting_peak is not None
