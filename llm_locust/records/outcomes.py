"""What became of an arrival: one outcome per arrival, and how the outcomes add up.

Everything but ``ok`` counts as failed and stays in the denominator.
"""

from __future__ import annotations

import enum


class Outcome(enum.StrEnum):
    """The terminal outcome of one arrival. The first that matches, in the order below, wins."""

    CANCELLED = "cancelled"
    """Dropped by the client on purpose: an abandoning user, or a second Ctrl-C."""
    TIMEOUT = "timeout"
    """The whole-request wall-clock deadline passed; it covers the stream and is not an idle timeout."""
    CONNECT_ERROR = "connect_error"
    """No connection: refused, unreachable, TLS handshake failed."""
    CONNECTION_LOST = "connection_lost"
    """Reset anywhere, or closed before the response head."""
    OOM = "oom"
    """An error text that names memory exhaustion, whatever the status."""
    REJECTED = "rejected"
    """HTTP 429 or 503: admission control."""
    HTTP_ERROR = "http_error"
    """Any other status that is not 2xx."""
    NOT_STREAMED = "not_streamed"
    """The server ignored ``stream: true``; no TTFT can be had."""
    STREAM_ERROR = "stream_error"
    """An error inside a 200 stream, before or after output."""
    PROTOCOL_ERROR = "protocol_error"
    """Bytes that are not the protocol asked for."""
    TRUNCATED = "truncated"
    """The body ended early, or without a finish reason."""
    EMPTY = "empty"
    """Finished without a single output event."""
    OK = "ok"
    """A finish reason, at least one output event, no error."""

    GENERATOR_ERROR = "generator_error"
    """Ours, not the server's: out of file descriptors or ports, name resolution, a bug. It voids the stage."""
    NOT_SENT = "not_sent"
    """Due, but never issued: held back past the deadline, or withdrawn by an interrupt."""
    LOST = "lost"
    """Planned or issued without a terminal row: its worker died. Written by the merge, never by a worker."""


UNATTEMPTED = frozenset({Outcome.NOT_SENT, Outcome.LOST})
"""``planned = attempted + not_sent + lost``: every outcome but these two was attempted."""
