"""OpenAI completions: ``choices[0].text``."""

from __future__ import annotations

from typing import Any

from llm_locust.streaming.dialects.base import Delta, string
from llm_locust.streaming.dialects.openai import OpenAIStream


class OpenAICompletions(OpenAIStream):
    """``POST /v1/completions``."""

    name = "openai-completions"
    path = "/v1/completions"

    def _read_choice(self, choice: dict[str, Any], content_key: str, delta: Delta) -> None:
        delta.text = string(choice.get("text"))
