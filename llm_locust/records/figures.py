"""Numbers of a judged run with what is known of them: percentiles and their bounds, shares, streams, spans, trends.

Units are in the names. ``None`` means not measured (or not applicable), never 0; an infinite percentile is ``"inf"``. Shares
run from 0 to 1.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

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
    """Its lower end."""
    high: float
    """Its upper end."""


class Percentile(msgspec.Struct, frozen=True, kw_only=True):
    """A nearest-rank percentile of ``n`` values, with its one-sided 95 % bounds by order statistics."""

    value: Figure
    """In the unit of its name; ``"inf"`` when it falls among failures, ``None``: not measured."""
    n: int
    """Values that it is made of."""
    at_maximum: bool = False
    """The rank is that of the largest value: too few values to tell this percentile from the maximum."""
    low: Figure = None
    """The true percentile is at least this with 95 % confidence; ``None`` when so few values give no bound."""
    high: Figure = None
    """The true percentile is at most this with 95 % confidence; ``None`` when so few values give no bound."""
    missing: int = 0
    """Requests whose value should be among the ``n`` and was not measured: while this is not 0 the percentile flatters."""


class LimitCount(msgspec.Struct, frozen=True, kw_only=True):
    """How the ok requests of a stage stand to one chosen latency limit."""

    name: str
    """The limit, as ``--slo`` names it."""
    limit_ms: float
    """In milliseconds; a value equal to it meets it."""
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
    """What became of these requests."""
    status: int | None
    """HTTP status; ``None`` when no head of a response came."""
    error: str | None
    """One line; ``None`` when there is nothing to say."""
    count: int
    """Measured requests that failed so."""


class StallFigures(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the streams stood still, over all gaps of the ok requests."""

    threshold_ms: float
    """A gap longer than this is a stall."""
    chosen: bool
    """It is the chosen ``max_gap`` limit; else it is ten times the median gap."""
    gaps: int
    """All of them."""
    stalled: int
    """... of which stalls."""
    share: float
    """stalled / gaps."""
    time_share: float | None
    """Time in stalls / time in all gaps."""


class DeadlineFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The deadlines along the streams of the ok requests (etalon's fluidity index is 1 - ``share``)."""

    deadlines: int
    """All of them."""
    missed: int
    """... of which output came later."""
    share: float
    """missed / deadlines."""
    requests: int
    """Ok requests that could be judged."""
    requests_without_miss: int
    """... of which kept every deadline."""
    missing: int = 0
    """Ok requests that could not be judged: no TTFT, or gaps that were not kept."""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One of the equal spans of the window; requests are counted where the event named falls."""

    start_s: float
    """From the start of the window."""
    seconds: float
    """Its length."""
    sent: int
    """Requests issued."""
    completed: int
    """Requests that ended, whatever became of them."""
    ok: int
    """... of which ok."""
    good: int | None
    """... of which good; ``None`` when that cannot be said of every one."""
    output_tokens: float | None
    """Tokens that came out: each request's one at its first output, the rest evenly up to its last."""
    ttft_p95_ms: Figure
    """Of the ok requests sent in the span."""
    in_flight_mean: float
    """Sent and not ended, weighted by time."""


class LengthFigures(msgspec.Struct, frozen=True, kw_only=True):
    """How long prompts, or replies, were asked to be and how long they were by the server's count, in tokens."""

    requests: int
    """Measured ok requests for which both are known."""
    asked_mean: float
    """Tokens asked for."""
    got_mean: float
    """Tokens that there were."""
    worst_off_share: float
    """The largest |got - asked| / asked."""
    close_share: float
    """Requests within 1 % of what was asked for / requests."""


class ColdFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Measured requests by whether they found the model loaded, where the server says so."""

    known: int
    """Requests of which the server said it."""
    cold: int
    """... that waited for the model to be loaded."""
    share: float
    """cold / known."""
    cold_ttft_p50_ms: Percentile
    """Of those that waited for the model to be loaded."""
    cold_ttft_p95_ms: Percentile
    """Of those that waited for the model to be loaded."""
    warm_ttft_p50_ms: Percentile
    """Of those that found it loaded."""
    warm_ttft_p95_ms: Percentile
    """Of those that found it loaded."""


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """How one figure moved over the spans of a window."""

    name: str
    """With its unit: ``ttft_p95_ms``, ``sent_rps``, ``error_rate`` (a share), ``in_flight_mean``."""
    first: Figure
    """In the first span in which it is known."""
    last: Figure
    """In the last span in which it is known."""
    change_share: float | None
    """(last - first) / first; ``None`` when the first is 0 or unknown."""
    direction: Literal["rising", "falling", "none"] | None
    """By a rank test against time at 0.1 %; ``None`` when too few spans have a value."""
    p_value: float | None = None
    """Of that test, two-sided; ``None`` when too few spans have a value."""
    spans: list[Figure] = []
    """The value in each span."""


class LittlesLaw(msgspec.Struct, frozen=True, kw_only=True):
    """Mean in flight against arrival rate x mean time in system; in a steady state the two are equal (Little 1961)."""

    in_flight_mean: float
    """Sent and not ended, over the window, weighted by time."""
    arrival_rate_rps: float
    """Sent inside the window, per second."""
    time_in_system_s: float
    """Mean of end - sent of those."""
    ratio: float | None
    """in_flight_mean / (arrival_rate_rps x time_in_system_s)."""
    note: str | None = None
    """What it means when the ratio is off."""


class InFlightTrend(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the number of arrivals taken up and not yet ended rises over spans of the window."""

    state: Literal["flat", "rising", "falling", "undetermined"]
    """``undetermined``: too short, or too few, to tell."""
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
