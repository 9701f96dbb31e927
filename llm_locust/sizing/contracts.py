"""What the dry run foretells, as data: a run that was not run, its stages, gates, tokens, cost and warnings.

Counts are requests, times seconds. ``None`` is not known before it has run, or has no price.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from llm_locust.records import Prices, Requirements, WorkloadFacts
from llm_locust.records.stage import ArrivalMode
from llm_locust.records.summary import Result, Strength


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of prompts that would be sent, cool-down in full."""

    output_at_most: int
    """The sum of ``max_tokens`` over the prompts."""
    input_estimated: int
    """Characters of the prompts' texts / 4, rounded up: an estimate, without chat template."""
    exact: bool
    """False when both are extrapolated from a random sample of the prompts."""


class PercentileAhead(msgspec.Struct, frozen=True, kw_only=True):
    """What the requests of a window can say about one percentile, if all of them are ok."""

    percent: int
    at_maximum: bool | None
    """Too few requests to tell it from the maximum; ``None`` when their number is not known."""
    signed: bool | None
    """Enough requests for a 95 % upper bound; ``None`` when their number is not known."""
    requests_needed: int
    """Requests from which there is an upper bound."""
    window_needed_s: int | None
    """The shortest window, in whole seconds, that holds as many at this rate; ``None`` for a closed loop."""


class StagePreview(msgspec.Struct, frozen=True, kw_only=True):
    """One stage as it would be run. Counts are requests, times seconds; ``None`` is not known before it has run."""

    number: int
    """From 1, as progress and tables count."""
    label: str
    mode: ArrivalMode
    round: int
    rate_rps: float | None
    seed: int
    warmup_s: float
    window_s: float | None
    requests: int | None = None
    """Measured requests after which it ends; ``None`` where its window has a length, or somebody stops it."""
    cooldown_at_most_s: float
    drain_at_most_s: float
    at_least_s: float
    """Warm-up and window: the cool-down may end at once, and the drain too."""
    at_most_s: float | None
    """... and the whole cool-down, and a last request that meets its deadline (in a closed loop of so many requests: every
    one); ``None``: until it is stopped."""
    window_expected: float | None = None
    """Mean rate times window."""
    window_planned: int | None = None
    """In the plan of this seed, exactly; ``None`` too when the plan is too large to draw it."""
    all_expected: float | None = None
    """The same with warm-up and the whole cool-down."""
    all_planned: int | None = None
    samples: int | None = None
    """Requests behind each percentile and share at most: planned in the window, or expected where none is drawn."""
    percentiles: list[PercentileAhead] = []
    best_result: Result | None = None
    """The verdict if nothing goes wrong: no request fails or misses a limit, in-flight stays flat."""
    best_strength: Strength | None = None
    best_sentence: str | None = None
    sign_window_needed_s: int | None = None
    """The shortest window, in whole seconds, that holds enough requests at this rate for a signed pass."""
    idle_workers: int = 0
    """Workers that get no arrival."""
    tokens: Tokens | None = None


class GateAhead(msgspec.Struct, frozen=True, kw_only=True):
    """A gate that the run will be judged by."""

    name: str
    relation: Literal[">=", "<=", "="]
    limit: float | str
    default: bool
    requests_to_sign: int | None
    """Requests from which a flawless batch clears it with its confidence interval; ``None``: none will."""


class RunCost(msgspec.Struct, frozen=True, kw_only=True):
    """What the run costs, in the currency of the prices; ``None`` for what has no price or no known size."""

    machine_at_least: float | None = None
    machine_at_most: float | None = None
    input_estimated: float | None = None
    output_at_most: float | None = None


class Warned(msgspec.Struct, frozen=True, kw_only=True):
    """Something that will surely disappoint."""

    about: Literal[
        "window", "warmup", "cooldown", "deadline", "rates", "requests", "workload", "limits", "requirements"
    ]
    text: str
    stages: list[int] = []
    """The numbers of the stages it is about; empty for the whole run."""


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was not run."""

    stages: list[StagePreview]
    at_least_s: float
    at_most_s: float | None
    """``None``: until it is stopped."""
    expected: float | None
    """Arrivals of the whole run; ``None`` when a closed loop sends as many as the server takes."""
    planned: int | None
    tokens: Tokens | None
    prices: Prices
    cost: RunCost
    slo: dict[str, float]
    """Per-request limits in milliseconds."""
    gates: list[GateAhead]
    requests_to_sign: int
    """Requests in a window from which a pass can be signed."""
    requirements: Requirements
    """What the run has to show, or its exit code says that it did not."""
    streaming: bool
    """``False``: replies are asked for whole, so there is no TTFT, TPOT or ITL."""
    deadline_s: float
    workers: int | None
    workload: WorkloadFacts
    warnings: list[Warned]
