"""OpenAI-compatible servers: chat completions and completions, streamed, with usage."""

from __future__ import annotations

from typing import Any

from llm_locust.users.base import LLMUser
from llm_locust.workload import Prompt


class OpenAIChatUser(LLMUser):
    """``POST /v1/chat/completions``: vLLM, SGLang, llama.cpp, Ollama and every other server that speaks it."""

    abstract = True
    dialect = "openai-chat"
    path = "/v1/chat/completions"

    def build_body(self, prompt: Prompt) -> dict[str, Any]:
        """The body; a bare text prompt becomes one message of the user."""
        return {
            "model": self.model,
            "messages": prompt.chat,
            "max_tokens": prompt.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }


class OpenAICompletionUser(LLMUser):
    """``POST /v1/completions``: the plain text endpoint, without a chat template."""

    abstract = True
    dialect = "openai-completions"
    path = "/v1/completions"

    def build_body(self, prompt: Prompt) -> dict[str, Any]:
        """The body; chat messages are joined to one text."""
        return {
            "model": self.model,
            "prompt": prompt.text,
            "max_tokens": prompt.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
