"""What every API has in common: a generation request that has been understood, and how its reply is put into bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from llm_locust.simulator.engine import Job
from llm_locust.simulator.http import Response


class Refused(Exception):
    """The request is answered with an error at once."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


class ReplyWriter(Protocol):
    """Puts one reply into the events of its API. Bytes are events with their separators, without HTTP framing."""

    content_type: str
    """Of the stream."""

    def opening(self) -> bytes:
        """What precedes the first token, in the same write; may be empty."""

    def token(self, index: int, word: str, finish: str | None) -> bytes:
        """One token; ``finish`` is the finish reason on the last."""

    def closing(self, job: Job, *, finished: bool) -> bytes:
        """What follows the last token; ``finished`` is ``False`` where the end is to be left unsaid."""

    def aborted(self) -> bytes:
        """How a server that is being stopped ends the stream; empty where it just closes the connection."""

    def error(self, message: str) -> bytes:
        """An error in the middle of a stream, with whatever ends the stream after it."""

    def whole(self, job: Job, words: list[str]) -> Response:
        """The reply of a request that did not ask for a stream."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A generation request, understood and within the limits."""

    prompt: list[int]
    reply_tokens: int
    finish_reason: str
    stream: bool
    writer: ReplyWriter
    keep_ns: int | None = None
    """How long the model shall stay loaded once it is idle; ``None`` where the API, or the request, does not say."""


class Dialect(Protocol):
    """One generation endpoint of one API."""

    def parse(self, body: bytes, reply_id: str) -> Ask:
        """Understand a request.

        Raises:
            Refused: it is malformed, asks for another model, or is too long.
        """

    def refusal(self, status: int, message: str, kind: str | None = None) -> Response:
        """An error in this API's form; ``kind`` is its type where the API has one."""

    def busy(self) -> Response:
        """The answer past the queue limit."""


def encode(value: Any) -> bytes:
    """JSON without spaces."""
    return msgspec.json.encode(value)


def json_response(status: int, value: Any, *headers: tuple[str, str]) -> Response:
    """A JSON response."""
    return Response(status, encode(value), headers=headers)


def text_of(content: Any) -> str | None:
    """The text of a chat message's content: text, nothing, or a list of parts; ``None`` if it is none of them."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        texts = [part.get("text", "") for part in content]
        return " ".join(texts) if all(isinstance(text, str) for text in texts) else None
    return None


def read_messages(messages: Any) -> list[tuple[str, str]] | None:
    """``(role, content)`` of each message; ``None`` if there are none or one is malformed."""
    if not isinstance(messages, list) or not messages:
        return None
    found = []
    for message in messages:
        content = text_of(message.get("content")) if isinstance(message, dict) else None
        if content is None or not isinstance(message.get("role"), str):
            return None
        found.append((message["role"], content))
    return found
