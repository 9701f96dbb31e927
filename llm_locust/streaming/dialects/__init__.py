"""The dialects by name."""

from __future__ import annotations

from llm_locust.records import UsageError
from llm_locust.streaming.dialects.base import Counts, Delta, Dialect, WrongDialect
from llm_locust.streaming.dialects.ollama import OllamaChat, OllamaGenerate
from llm_locust.streaming.dialects.openai_chat import OpenAIChat
from llm_locust.streaming.dialects.openai_completions import OpenAICompletions

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect for dialect in (OpenAIChat(), OpenAICompletions(), OllamaGenerate(), OllamaChat())
}


def get_dialect(name: str) -> Dialect:
    """The dialect registered under ``name``.

    Raises:
        UsageError: there is none; the message lists those there are.
    """
    try:
        return DIALECTS[name]
    except KeyError:
        raise UsageError(f"unknown dialect {name!r}: choose one of {', '.join(DIALECTS)}") from None


__all__ = ["DIALECTS", "Counts", "Delta", "Dialect", "WrongDialect", "get_dialect"]
