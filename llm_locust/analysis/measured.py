"""The value of one gated figure and what is known of it, whoever measured it."""

from __future__ import annotations

from typing import NamedTuple

from llm_locust.records.figures import Figure
from llm_locust.records.server_figures import BucketPercentile

INFINITE = float("inf")


class Measured(NamedTuple):
    """The value of a figure and what is known of it."""

    value: Figure | str
    low: float | None = None
    """The true value is at least this with confidence; ``None``: no bound."""
    high: float | None = None
    exact: bool = False
    """A count of what happened, which has no interval to clear."""
    reason: str | None = None
    """Why nothing can be said of it, or not that it holds."""
    applicable: bool = True
    bucket: BucketPercentile | None = None
    """The value is a guess inside this bucket; the bucket alone decides."""
