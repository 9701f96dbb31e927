"""Counts and durations as the dry run shows them: thousands grouped, and no bound rounded the way that flatters."""

from __future__ import annotations

import math

from llm_locust.analysis.words import NOT_MEASURED, number

TEN_MILLION = 10_000_000
"""From here on counts are in millions, or the table of arrivals outgrows 80 columns."""


def count(value: float | None, *, up: bool = False) -> str:
    """``1,234,567``; a mean below 100 keeps its decimals, ten million and more are ``12.3 M`` (never less, with ``up``)."""
    if value is None:
        return NOT_MEASURED
    if value >= TEN_MILLION:
        tenths = value / 1e5
        return f"{(math.ceil(tenths) if up else round(tenths)) / 10:,.1f} M"
    return number(value) if value < 100 else f"{round(value):,}"


def duration(seconds: int) -> str:
    """``45 s``, ``3 min 30 s``, ``2 h 5 min``: seconds are kept, for what is cut off could flatter."""
    parts = [(seconds // 3600, "h"), (seconds // 60 % 60, "min"), (seconds % 60, "s")]
    return " ".join(f"{value} {unit}" for value, unit in parts if value) or "0 s"
