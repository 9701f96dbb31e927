"""What the server said of itself over one stage, put together from its samples.

Units are in the names. ``None`` means not measured, never 0, and ``reasons`` says why. Percentiles come out of histograms,
so each is known only to lie in one bucket: it carries the bucket's bounds.
"""

from __future__ import annotations

import msgspec

from llm_locust.records.figures import Figure, InFlightTrend


class BucketPercentile(msgspec.Struct, frozen=True, kw_only=True):
    """A nearest-rank percentile of ``n`` observations of which only buckets are known: low < percentile <= high."""

    value_ms: float | None
    """As if the observations lay evenly in their bucket; ``None`` in the last one, which has no upper bound."""
    low_ms: float
    """Not below this. The percentile is above it, but for 0 and for observations that are all in the first bucket."""
    high_ms: Figure
    """Not above this; ``"inf"`` in the last bucket."""
    n: int
    """Observations that it is made of."""


class CountDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A count that client and server do not agree on."""

    name: str
    """What was counted."""
    client: int
    """As the client counted."""
    server: int
    """As the server counted."""
    share: float | None
    """(server - client) / client; ``None`` when the client counted none."""
    text: str
    """Both figures and the difference, in words."""


class ServerFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One stage as its server (or its replicas together) saw it."""

    targets: list[str] = []
    """The addresses that were asked."""
    engines: list[str] = []
    """The mappings that read their pages."""
    verified: bool = False
    """Every page was read by a mapping that was held against a real page; else say "unverified mapping" beside it all."""
    samples: int = 0
    """Pages read inside the window, all targets together."""
    failed_scrapes: int = 0
    """Pages asked for inside the window that did not come or could not be read."""
    stopped: list[str] = []
    """Addresses that stopped answering inside the window, or never did, each as a sentence with the reason."""
    counters_from_ns: int | None = None
    """The last sample before the window, from which counters are taken; of several targets the earliest."""
    counters_to_ns: int | None = None
    """The first sample after the window, up to which they are; of several targets the latest."""
    resets: int = 0
    """Times that a server started over in between; what it had counted between its last sample and its end is lost."""

    running_peak: int | None = None
    """Of the moments that were sampled, as all peaks and means here."""
    running_mean: float | None = None
    """Requests in the batch, weighted by time."""
    running_trend: InFlightTrend | None = None
    """Of running requests over spans of the window."""
    waiting_peak: int | None = None
    """Most requests in the server's queue."""
    waiting_mean: float | None = None
    """Requests in the server's queue, weighted by time."""
    waiting_trend: InFlightTrend | None = None
    """Of waiting requests over spans of the window."""
    kv_cache_peak_pct: float | None = None
    """Largest share of KV-cache blocks in use x 100, of the fullest engine."""
    kv_cache_mean_pct: float | None = None
    """... on average over engines and window."""
    prefix_cache_hit_rate: float | None = None
    """Tokens found / tokens looked up, 0 to 1."""
    preemptions: int | None = None
    """Requests put aside for want of KV cache."""
    evictions: int | None = None
    """KV-cache blocks given up."""
    rejections: int | None = None
    """Requests refused because too many waited."""
    requests: int | None = None
    """Finished."""
    prompt_tokens: int | None = None
    """Of what was finished, cached ones included."""
    generation_tokens: int | None = None
    """Generated."""
    percentiles: dict[str, BucketPercentile] = {}
    """By name: ``queue_time_p95_ms``, ``ttft_p50_ms``, ... of what was finished between the two counter samples."""

    reasons: dict[str, str] = {}
    """Why a figure is null, by its name (a percentile by its histogram: ``queue_time``)."""
    notes: list[str] = []
    """What to know of the figures that there are, as sentences."""
