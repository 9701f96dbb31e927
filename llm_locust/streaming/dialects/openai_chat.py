"""OpenAI chat completions: ``choices[0].delta`` with content, reasoning, tool calls or a refusal."""

from __future__ import annotations

from typing import Any

from llm_locust.streaming.dialects.base import Delta, mapping, string
from llm_locust.streaming.dialects.openai import OpenAIStream


class OpenAIChat(OpenAIStream):
    """``POST /v1/chat/completions``.

    Reasoning comes under ``reasoning_content`` or ``reasoning``; a server that sends both sends the same text twice.
    """

    name = "openai-chat"
    path = "/v1/chat/completions"

    def _read_choice(self, choice: dict[str, Any], content_key: str, delta: Delta) -> None:
        content = mapping(choice.get(content_key))
        delta.text = string(content.get("content"))
        delta.reasoning = string(content.get("reasoning_content")) or string(content.get("reasoning"))
        delta.acted = bool(string(content.get("refusal"))) or _calls(content)


def _calls(content: dict[str, Any]) -> bool:
    """A tool call, or the older function call, of which at least a piece of the name or the arguments has come."""
    tools, function_call = content.get("tool_calls"), content.get("function_call")
    if not tools and not function_call:
        return False
    calls = [mapping(tool).get("function") for tool in tools] if isinstance(tools, list) else []
    return any(
        string(mapping(call).get("name")) or string(mapping(call).get("arguments")) for call in (*calls, function_call)
    )
