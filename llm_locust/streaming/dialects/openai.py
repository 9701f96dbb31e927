"""What the OpenAI chat and completions streams share: choices, finish reasons, usage, errors and keep-alives.

``[DONE]`` is neither needed (some servers never send it) nor enough (one sends it after cutting a reply short), so it means
nothing here.
"""

from __future__ import annotations

from typing import Any

from llm_locust.streaming.dialects.base import (
    NOTHING,
    Counts,
    Delta,
    WrongDialect,
    count,
    error_message,
    json_object,
    mapping,
    string,
)
from llm_locust.streaming.events import Event, SseEvents

FAILED_FINISHES = frozenset({"abort", "error", "cancelled"})
"""Finish reasons by which an engine says, with status 200, that it gave the reply up (vLLM, shutting down: ``abort``)."""


class OpenAIStream:
    """The frame around a choice; a subclass reads the choice itself."""

    name: str
    path: str
    media_type = "text/event-stream"
    events = SseEvents

    def read_event(self, event: Event) -> Delta:
        """What one event carried."""
        data = event.data.strip()
        # Some proxies wrap their keep-alive comment, colon and all, in a data field.
        if not data or data == b"[DONE]" or data.startswith(b":"):
            return NOTHING
        if event.name == "error":
            return Delta(error=_error_event_text(data))
        return self._read(json_object(data), "delta")

    def read_whole(self, body: bytes) -> Delta:
        """What a ``chat.completion`` or ``text_completion`` object carried."""
        reply = json_object(body)
        delta = self._read(reply, "message")
        if delta.error is None and not isinstance(reply.get("choices"), list):
            raise WrongDialect("a JSON object without choices")
        return delta

    def _read(self, chunk: dict[str, Any], content_key: str) -> Delta:
        if chunk.get("error"):
            return Delta(error=error_message(chunk["error"]))
        if chunk.get("object") == "error":
            return Delta(error=error_message(chunk))
        usage = chunk.get("usage")
        delta = Delta(counts=_counts(mapping(usage)) if usage else None)
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict):
                raise WrongDialect("a choice that is not a JSON object")
            if choice.get("index"):
                raise WrongDialect("more than one choice per request (n > 1) cannot be measured")
            self._read_choice(choice, content_key, delta)
            reason = choice.get("finish_reason")
            # SGLang's own form of a finish reason is an object with a type.
            reason = string(reason) or string(mapping(reason).get("type"))
            if reason:
                delta.finished, delta.finish_reason = True, reason
                if reason in FAILED_FINISHES:
                    delta.error = f"the engine gave the reply up: finish_reason {reason!r}"
        return delta

    def _read_choice(self, choice: dict[str, Any], content_key: str, delta: Delta) -> None:
        """Add what the choice carried to ``delta``; the key is ``delta`` in a stream, ``message`` in a whole reply."""
        raise NotImplementedError


def _counts(usage: dict[str, Any]) -> Counts | None:
    if not usage:
        return None
    return Counts(
        prompt_tokens=count(usage.get("prompt_tokens")),
        output_tokens=count(usage.get("completion_tokens")),
        reasoning_tokens=count(mapping(usage.get("completion_tokens_details")).get("reasoning_tokens")),
        cached_tokens=count(mapping(usage.get("prompt_tokens_details")).get("cached_tokens")),
    )


def _error_event_text(data: bytes) -> str:
    try:
        return error_message(json_object(data))
    except WrongDialect:
        return data.decode("utf-8", "replace")
