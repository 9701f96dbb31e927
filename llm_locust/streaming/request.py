"""One request: what a user wants sent, and its bytes on the wire."""

from __future__ import annotations

import msgspec

from llm_locust.records import UsageError
from llm_locust.streaming.route import Route

_OURS = frozenset({"content-length", "transfer-encoding", "accept-encoding"})
"""Headers that follow from how this client works; a request cannot set them."""


class StreamRequest(msgspec.Struct):
    """One POST. ``body`` is JSON; ``headers`` add to, or replace, those that the client sends by itself."""

    path: str
    """Under the base URL, for example ``/v1/chat/completions``."""
    body: bytes
    headers: list[tuple[str, str]]
    dialect: str
    """The name of a dialect: how the reply is to be read."""
    streamed: bool = True
    """The body asks for a stream; ``False`` expects one JSON object."""
    leave_after_s: float | None = None
    """Seconds from being sent after which the client drops the request, as somebody who does not wait any longer."""
    leave_after_events: int | None = None
    """Output events after which it does: somebody who has read enough. Only a stream has them."""


def encode_request(request: StreamRequest, route: Route, *, media_type: str, keep_alive: bool) -> bytes:
    """Head and body in one piece, ready for a single send.

    Raises:
        UsageError: a header that would break the head apart.
    """
    fields: dict[str, tuple[str, str]] = {
        "host": ("Host", route.target.authority),
        "user-agent": ("User-Agent", "llm-locust"),
        "accept": ("Accept", media_type if request.streamed else "application/json"),
        "content-type": ("Content-Type", "application/json"),
    }
    if not keep_alive:
        fields["connection"] = ("Connection", "close")
    for name, value in (*route.fields, *request.headers):
        if any(char in name + value for char in "\r\n\0") or not name or any(char in name for char in " :\t"):
            raise UsageError(f"header {name!r}: a name has no blanks or colons, and neither part a line break")
        if name.lower() not in _OURS:
            fields[name.lower()] = (name, value.strip())
    fields["accept-encoding"] = ("Accept-Encoding", "identity")
    fields["content-length"] = ("Content-Length", str(len(request.body)))
    lines = [
        f"POST {route.request_target(request.path)} HTTP/1.1",
        *(f"{name}: {value}" for name, value in fields.values()),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + request.body
