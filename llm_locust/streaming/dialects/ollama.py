"""Ollama's own API: lines of JSON, the last with ``done: true``, the counts and the durations (nanoseconds)."""

from __future__ import annotations

from typing import Any

from llm_locust.streaming.dialects.base import (
    Counts,
    Delta,
    WrongDialect,
    count,
    error_message,
    json_object,
    mapping,
    string,
)
from llm_locust.streaming.events import Event, JsonLines


class _Ollama:
    name: str
    path: str
    media_type = "application/x-ndjson"
    events = JsonLines

    def read_event(self, event: Event) -> Delta:
        """What one line carried."""
        return self._read(json_object(event.data))

    def read_whole(self, body: bytes) -> Delta:
        """What the one object of a reply without a stream carried."""
        reply = json_object(body)
        delta = self._read(reply)
        if delta.error is None and "done" not in reply:
            raise WrongDialect("a JSON object without 'done'")
        return delta

    def _read(self, line: dict[str, Any]) -> Delta:
        if line.get("error"):
            return Delta(error=error_message(line["error"]))
        delta = Delta()
        self._read_output(line, delta)
        if line.get("done") is True:
            delta.finished = True
            delta.finish_reason = string(line.get("done_reason")) or None  # older versions give none
            delta.counts = Counts(
                prompt_tokens=count(line.get("prompt_eval_count")),
                output_tokens=count(line.get("eval_count")),
                total_duration_ns=count(line.get("total_duration")),
                load_duration_ns=count(line.get("load_duration")),
                prompt_eval_duration_ns=count(line.get("prompt_eval_duration")),
                eval_duration_ns=count(line.get("eval_duration")),
            )
        return delta

    def _read_output(self, line: dict[str, Any], delta: Delta) -> None:
        raise NotImplementedError


class OllamaGenerate(_Ollama):
    """``POST /api/generate``."""

    name = "ollama-generate"
    path = "/api/generate"

    def _read_output(self, line: dict[str, Any], delta: Delta) -> None:
        delta.text = string(line.get("response"))
        delta.reasoning = string(line.get("thinking"))


class OllamaChat(_Ollama):
    """``POST /api/chat``."""

    name = "ollama-chat"
    path = "/api/chat"

    def _read_output(self, line: dict[str, Any], delta: Delta) -> None:
        message = mapping(line.get("message"))
        delta.text = string(message.get("content"))
        delta.reasoning = string(message.get("thinking"))
        delta.acted = bool(message.get("tool_calls"))
