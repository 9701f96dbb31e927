"""What a dialect is: how one event of a reply reads as generated output, an end, counts or an error.

A dialect is pure: it sees whole events and knows neither sockets nor times. Adding one is a file beside this one, a line in
the table of ``registered.py`` and a test.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

import msgspec

from llm_locust.streaming.events import Event, EventDecoder

MAX_COUNT = 2**53
"""Counts beyond what a double holds exactly are not believed."""


class WrongDialect(Exception):
    """Bytes that are not the protocol asked for. The text says what was found."""


class Counts(msgspec.Struct, kw_only=True, gc=False):
    """What the server says about the whole reply; ``None`` is what it did not say. Durations are nanoseconds."""

    prompt_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    total_duration_ns: int | None = None
    load_duration_ns: int | None = None
    prompt_eval_duration_ns: int | None = None
    eval_duration_ns: int | None = None


class Delta(msgspec.Struct, kw_only=True):
    """What one event (or one whole reply) carried."""

    text: str = ""
    reasoning: str = ""
    acted: bool = False
    """A tool call or a refusal: generated, part of the answer, but no text."""
    finished: bool = False
    finish_reason: str | None = None
    counts: Counts | None = None
    error: str | None = None

    @property
    def answered(self) -> bool:
        """It carried some of the answer (output that is not reasoning)."""
        return bool(self.text) or self.acted


NOTHING = Delta()
"""An event without meaning for us: a keep-alive, an end marker."""


class Dialect(Protocol):
    """One way in which engines stream a reply."""

    @property
    def name(self) -> str:
        """The name it is registered under."""

    @property
    def path(self) -> str:
        """The endpoint's path under the base URL."""

    @property
    def media_type(self) -> str:
        """The content type of a streamed reply."""

    @property
    def events(self) -> type[EventDecoder]:
        """The decoder of event boundaries, one per reply."""

    def read_event(self, event: Event) -> Delta:
        """What one event of a stream carried.

        Another string in place of one that becomes a delta's text must change that text and nothing else: streams are read
        by what their events have in common.

        Raises:
            WrongDialect: it is not an event of this dialect.
        """

    def read_whole(self, body: bytes) -> Delta:
        """What a reply that was not streamed carried.

        Raises:
            WrongDialect: it is not a reply of this dialect.
        """


def json_object(data: bytes) -> dict[str, Any]:
    """``data`` as a JSON object.

    ``msgspec`` is strict; what it refuses is given once more to the standard library, because real servers write ``NaN``
    and halves of surrogate pairs, and the common clients take them.

    Raises:
        WrongDialect: it is not JSON, or no object.
    """
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            raise WrongDialect(f"not JSON: {excerpt(data)}") from None
    if not isinstance(value, dict):
        raise WrongDialect(f"not a JSON object: {excerpt(data)}")
    return value


def excerpt(data: bytes, length: int = 80) -> str:
    """The first ``length`` bytes as text, for an error message."""
    text = data[:length].decode("utf-8", "replace")
    return text if len(data) <= length else f"{text}..."


def mapping(value: Any) -> dict[str, Any]:
    """``value`` if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def string(value: Any) -> str:
    """``value`` if it is a string, else the empty one."""
    return value if isinstance(value, str) else ""


def count(value: Any) -> int | None:
    """``value`` if it is a whole number from 0 to :data:`MAX_COUNT`, also when written as ``7.0``, else ``None``."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < MAX_COUNT:
        return None
    return int(value) if value == int(value) else None


def error_message(value: Any) -> str:
    """The message inside an error value: a string, or an object with ``message``, ``detail`` or ``error``."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        for key in ("message", "detail", "error"):
            if value.get(key):
                return error_message(value[key])
    return msgspec.json.encode(value).decode()
