"""What became of one request, as the client saw it: the client's share of a request record."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from llm_locust.records import Outcome


class Failure(NamedTuple):
    """An end that the client decided, not the response: cancelled, out of time, no connection, or our own fault."""

    outcome: Outcome
    error: str


class Reply(msgspec.Struct, kw_only=True):
    """One reply. The fields are those of :class:`llm_locust.records.RequestRecord`, with the same names and units.

    Times are Unix nanoseconds of the client's clock, ``connect_ns``, ``tls_ns``, ``max_gap_ns``, ``read_lag_ns`` and
    ``*_duration_ns`` durations in nanoseconds. ``None`` means not measured; 0 is a measured 0.
    """

    cold: bool | None = None
    """By the server's own word: it had to load the model first (see :mod:`llm_locust.streaming.cold`)."""
    sent_ns: int | None = None
    """The instant before connect, or on a reused connection before the first send. A retry leaves it alone."""
    connect_ns: int | None = None
    """TCP, and a proxy's tunnel; ``None`` on a reused connection."""
    tls_ns: int | None = None
    reused: bool | None = None
    retries: int | None = None
    written_ns: int | None = None
    headers_ns: int | None = None
    first_output_ns: int | None = None
    first_answer_ns: int | None = None
    last_output_ns: int | None = None
    complete_ns: int | None = None
    """The finish event, or the last output if later; ``None`` when the reply was never finished."""
    end_ns: int | None = None
    """The end of the body, or when the outcome was decided."""
    outcome: Outcome
    status: int | None = None
    error: str | None = None
    """One line of at most 300 characters, secrets masked; ``None`` exactly when the outcome is ok."""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    output_tokens_source: str | None = None
    """``usage``, or ``events`` where the server gave no count, or one of 0 beside generated output."""
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    output_events: int | None = None
    """``None`` where no stream was read: another status, or a reply in one piece."""
    max_gap_ns: int | None = None
    gaps_us: list[int] | None = None
    """Whole microseconds between consecutive output events; 0 where one read held both."""
    bytes_in: int | None = None
    """Bytes of HTTP received, head and framing included, TLS excluded."""
    clock: str | None = None
    read_lag_ns: int | None = None
    coalesced: int | None = None
    """Reads that held more than one output event. Role-only, empty, finish, usage and end-marker events do not count:
    engines send them in one write with a neighbour, and they move no time of an output."""
    first_coalesced: bool | None = None
    """The read with the first output event held a later one too, so its stamp, and TTFT, may be that later one's. What came
    before the first output in the same read does not bend it."""
    total_duration_ns: int | None = None
    load_duration_ns: int | None = None
    prompt_eval_duration_ns: int | None = None
    eval_duration_ns: int | None = None
    server_queue_ns: int | None = None
    text: str | None = None
    """The generated text, when keeping it was asked for."""
    reasoning: str | None = None
