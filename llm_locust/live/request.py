"""One request's times and whether it was good, from its record: by the very rules by which the merge finds them later.

Durations are differences of integer nanoseconds of one clock and become milliseconds by one correctly rounded division, so
that a value equal to its limit compares equal to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from llm_locust.records.outcomes import Outcome
from llm_locust.records.quality import ERROR, FAIL, QUALITY

NS_PER_MS = 1_000_000


class Ended(Protocol):
    """What is asked of a request that has ended: a :class:`~llm_locust.records.RequestRecord`, or a row of its CSV."""

    @property
    def planned_ns(self) -> int | None: ...  # noqa: D102 - as the record's
    @property
    def dispatched_ns(self) -> int | None: ...  # noqa: D102
    @property
    def sent_ns(self) -> int | None: ...  # noqa: D102
    @property
    def first_output_ns(self) -> int | None: ...  # noqa: D102
    @property
    def last_output_ns(self) -> int | None: ...  # noqa: D102
    @property
    def complete_ns(self) -> int | None: ...  # noqa: D102
    @property
    def max_gap_ns(self) -> int | None: ...  # noqa: D102
    @property
    def output_tokens(self) -> int | None: ...  # noqa: D102
    @property
    def outcome(self) -> str: ...  # noqa: D102
    @property
    def quality(self) -> str | None: ...  # noqa: D102


class Applies(Enum):
    """What an ok request has in place of a figure."""

    NOT = "not_applicable"
    """There is none: fewer than two tokens have no gap between them."""
    MISSING = "missing"
    """There should be one."""


class Verdict(Enum):
    """One request against all chosen limits."""

    GOOD = "good"
    NOT_GOOD = "not good"
    UNKNOWN = "cannot be said"


class Times(NamedTuple):
    """The times of one request, in milliseconds; ``None``: not measured, or not applicable."""

    ttft: float | None
    tpot: float | None
    e2e: float | None
    max_gap: float | None
    dispatch_lag: float | None
    cap_wait: float | None
    client_wait: float | None


def between_ms(earlier_ns: int | None, later_ns: int | None) -> float | None:
    """From one instant to another; ``None`` when either is not known."""
    return None if earlier_ns is None or later_ns is None else (later_ns - earlier_ns) / NS_PER_MS


def tpot_ms(of: Ended) -> float | None:
    """(complete - first output) / (output tokens - 1) of an ok request.

    It needs two tokens and two distinct times of output: a proxy that buffers hands a whole reply over at one instant.
    """
    tokens = of.output_tokens
    if of.outcome != Outcome.OK or tokens is None or tokens < 2 or not _streamed(of):
        return None
    if of.complete_ns is None or of.first_output_ns is None:
        return None
    return (of.complete_ns - of.first_output_ns) / ((tokens - 1) * NS_PER_MS)


def max_gap_ms(of: Ended) -> float | None:
    """The longest gap between outputs of an ok request; as TPOT, it needs two tokens and two times of output."""
    if of.outcome != Outcome.OK or of.max_gap_ns is None or _one_token(of) or not _streamed(of):
        return None
    return of.max_gap_ns / NS_PER_MS


def times(of: Ended) -> Times:
    """All times of a request; the first four are said of ok requests only, the waits of every one that waited."""
    sent = of.sent_ns
    ok = of.outcome == Outcome.OK
    return Times(
        between_ms(sent, of.first_output_ns) if ok else None,
        tpot_ms(of),
        between_ms(sent, of.complete_ns) if ok else None,
        max_gap_ms(of),
        between_ms(of.planned_ns, of.dispatched_ns),
        between_ms(of.dispatched_ns, sent),
        between_ms(of.planned_ns, sent),
    )


def judge(of: Ended, found: Times, slo: Mapping[str, float]) -> Verdict:
    """The request against all chosen limits together; a value equal to its limit meets it.

    Not ok is not good. Of an ok request that lacks the value of a chosen limit nothing can be said, nor of one to which none
    applies. A limit that does not apply takes no part. So does quality where the reply was not checked: whether anything was
    checked at all, in which case only it does not apply, is known of many requests, not of one.
    """
    if of.outcome != Outcome.OK:
        return Verdict.NOT_GOOD
    met, applied = True, False
    for name, limit in slo.items():
        if name == QUALITY:
            if of.quality == ERROR:
                return Verdict.UNKNOWN
            if of.quality:
                applied = True
                met = met and of.quality != FAIL
            continue
        value = _limited(of, found, name)
        if value is Applies.MISSING:
            return Verdict.UNKNOWN
        if not isinstance(value, Applies):
            applied = True
            met = met and value <= limit
    if not applied:
        return Verdict.UNKNOWN
    return Verdict.GOOD if met else Verdict.NOT_GOOD


def _limited(of: Ended, found: Times, name: str) -> float | Applies:
    """What an ok request has for one limit."""
    value: float | None
    if name == "ttft":
        value = found.ttft
    elif name == "e2e":
        value = found.e2e
    elif name in ("tpot", "max_gap"):
        value = found.tpot if name == "tpot" else found.max_gap
        if value is None and _one_token(of):
            return Applies.NOT
    elif name == "arrival_ttft":
        value = between_ms(of.planned_ns, of.first_output_ns)
    else:
        value = between_ms(of.planned_ns, of.complete_ns)
    return Applies.MISSING if value is None else value


def _one_token(of: Ended) -> bool:
    return of.output_tokens is not None and of.output_tokens < 2


def _streamed(of: Ended) -> bool:
    return of.last_output_ns is not None and of.first_output_ns is not None and of.last_output_ns > of.first_output_ns
