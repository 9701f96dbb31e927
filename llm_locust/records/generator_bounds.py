"""How good the load generator has to be, for the merge that judges it and for the picture that warns while it runs."""

from __future__ import annotations

from collections.abc import Mapping

from llm_locust.records.slo import latency_limits

MIN_DISPATCHED_SHARE = 0.99
"""Of the planned arrivals."""
MIN_LAG_BOUND_MS = 5.0
LAG_SHARE_OF_LIMIT = 0.01
LATE_SHARE = 0.01
"""Of the dispatched arrivals, those that may be late by more than the bound."""
MAX_FIRST_COALESCED_SHARE = 0.01
ONE_IS_NO_SHARE = 1
"""Below 100 requests a single one is more than 1 %, and a P99 is the maximum: one hiccup is noted, and voids nothing.

So a P99 over the bound does not by itself void a stage; the count of late arrivals does."""

PER_TOKEN_LIMITS = frozenset({"tpot", "max_gap"})
"""Limits on what happens between tokens: a late dispatch cannot bend that."""


def lag_bound_ms(slo: Mapping[str, float]) -> float:
    """How late a dispatch and how uncertain a clock may be: 5 ms, or 1 % of the smallest latency limit if that is more.

    Of the limits on a whole request, that is: those between tokens have nothing to do with when it was sent.
    """
    limits = [limit for name, limit in latency_limits(dict(slo)).items() if name not in PER_TOKEN_LIMITS]
    return max(MIN_LAG_BOUND_MS, LAG_SHARE_OF_LIMIT * min(limits, default=0.0))


def too_many_late(late: int, dispatched: int) -> bool:
    """Whether so many late arrivals void a stage: more than 1 % of those dispatched, and more than one."""
    return late > max(LATE_SHARE * dispatched, ONE_IS_NO_SHARE)


def late_words(late: int, dispatched: int, bound_ms: float) -> str:
    """The count with its rule: ``1 of 73 late by more than 10 ms (allowed: 1 %, and one at least)``."""
    allowed = f"{LATE_SHARE * 100:g} %, and one at least"
    return f"{late} of {dispatched} late by more than {bound_ms:g} ms (allowed: {allowed})"
