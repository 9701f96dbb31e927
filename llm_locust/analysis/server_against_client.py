"""Server and client side by side: counts that should agree, latencies that are not to be added up."""

from __future__ import annotations

from typing import NamedTuple

from llm_locust.analysis.words import NOT_MEASURED, number
from llm_locust.records.figures import Figure
from llm_locust.records.server_figures import BucketPercentile, CountDifference, ServerFigures

TOKENS_APART = 0.01
"""Tokens may differ by this share: servers count those of requests that were cut off, and some count a begin or end token
that the usage report leaves out, one or two a request. A longer prompt template or a second client shows as more."""


OTHER_REQUESTS = 0.1
"""Percentiles of requests whose numbers differ by more than this share are of other requests, and that is said."""


class ClientCounts(NamedTuple):
    """What the client counted over the same time; ``None``: not known."""

    requests: int | None = None
    """Requests that the server finished: of those that it answered with 200."""
    prompt_tokens: int | None = None
    output_tokens: int | None = None


def count_differences(server: ServerFigures, client: ClientCounts) -> list[CountDifference]:
    """Where the server's counters say something else than the client's records, over the same time.

    Take the whole run, idle at both ends: over a window the two count different requests at its edges. Requests must agree
    exactly, being events that both sides see: one too many is another client's, one too few an answer that came from
    somewhere else. Tokens may differ by :data:`TOKENS_APART`. What either side does not know is no difference.
    """
    pairs = (
        ("requests", client.requests, server.requests, 0.0),
        ("prompt_tokens", client.prompt_tokens, server.prompt_tokens, TOKENS_APART),
        ("output_tokens", client.output_tokens, server.generation_tokens, TOKENS_APART),
    )
    found = []
    for name, ours, theirs, allowed in pairs:
        if ours is None or theirs is None or abs(theirs - ours) <= allowed * ours:
            continue
        share = (theirs - ours) / ours if ours else None
        apart = f"{share:+.2%}".replace("%", " %") if share is not None else "the client counted none"
        text = f"{name.replace('_', ' ')}: the client counted {ours}, the server {theirs} ({apart})"
        found.append(CountDifference(name=name, client=ours, server=theirs, share=share, text=text))
    return found


def latency_line(client_ttft_ms: Figure, server: ServerFigures, percent: int = 95, requests: int | None = None) -> str:
    """``TTFT P95 at the client 812 ms; in the server 500 to 750 ms, of which queue ...``: side by side, never added up.

    Args:
        client_ttft_ms: TTFT at the client, of the batch.
        server: The figures of the same window.
        percent: Which percentile; one of those that the figures hold.
        requests: How many the client's percentile is of: the server's are others where requests wait long.
    """
    client = NOT_MEASURED if client_ttft_ms is None else f"{number(client_ttft_ms)} ms"
    ttft, queue = (server.percentiles.get(f"{name}_p{percent}_ms") for name in ("ttft", "queue_time"))
    unverified = "" if server.verified or not server.engines else " (unverified mapping)"
    others = requests is not None and ttft is not None and abs(ttft.n - requests) > OTHER_REQUESTS * requests
    of_client = f" ({requests} requests)" if others else ""
    of_server = f" (of the {ttft.n} that it began to answer in the window)" if others and ttft is not None else ""
    return (
        f"P{percent} side by side, not added up: TTFT at the client {client}{of_client}, TTFT in the server "
        f"{between(ttft)}{of_server}, server queue {between(queue)}{unverified}"
    )


def between(percentile: BucketPercentile | None) -> str:
    """``500 to 750 ms``: as much as is known of a percentile out of buckets."""
    if percentile is None:
        return NOT_MEASURED
    if percentile.high_ms == "inf":
        return f"over {number(percentile.low_ms)} ms"
    if percentile.low_ms == 0:
        return f"up to {number(percentile.high_ms)} ms"
    return f"{number(percentile.low_ms)} to {number(percentile.high_ms)} ms"
