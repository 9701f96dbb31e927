"""Findings: what a run's own figures say about where its time went, what shows it, and what to vary next.

A finding is never advice alone: it carries the numbers that triggered it and the rows or moments they come from.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Where = Literal["client", "network", "server queue", "prefill", "decode", "KV cache", "memory", "workload"]
"""The place on a request's way that a finding points to."""

Confidence = Literal["shown", "likely", "possible"]
"""``shown``: counted, there is nothing to interpret. ``likely``: several figures agree. ``possible``: one figure points
there, and another cause would look the same."""

MOST_ROWS = 10
"""Rows (or moments) that a finding names."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One symptom that the run shows, and where it points."""

    rule: str
    """The name of the rule in its table."""
    title: str
    """The symptom in a few words."""
    where: Where
    """The place on a request's way that it points to."""
    confidence: Confidence
    """How sure it is."""
    stages: list[str] = []
    """Where it was seen, as stages are labelled; empty: over the whole run."""
    evidence: list[str]
    """Sentences with numbers; never empty."""
    rows: list[int] = []
    """Indices of requests that show it, at most :data:`MOST_ROWS`."""
    request_ids: list[str] = []
    """... and their ids, in the same order."""
    rows_in_all: int = 0
    """How many requests show it."""
    samples_ns: list[int] = []
    """Moments of server samples that show it, Unix nanoseconds, at most :data:`MOST_ROWS`."""
    vary_next: list[str]
    """What to change to make sure, in order: one at a time, everything else as it was."""
