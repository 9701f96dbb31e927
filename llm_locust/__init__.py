"""Load testing for LLM serving on Locust: open arrivals, per-request timing, goodput with its evidence.

The names below are what locustfiles and shapes import. They are loaded when first asked for, since importing Locust
patches the standard library for gevent, and the ``llm-locust`` command wants none of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llm_locust.analysis.search import BoundarySearch
    from llm_locust.plugin import RunOptions, StageShape, llm_request
    from llm_locust.records import RequestRecord, StageSpec, UsageError
    from llm_locust.streaming import Reply, register_dialect
    from llm_locust.users import LLMUser, OllamaChatUser, OllamaGenerateUser, OpenAIChatUser, OpenAICompletionUser
    from llm_locust.workload import Prompt

_HOMES = {
    "BoundarySearch": "llm_locust.analysis.search",
    "LLMUser": "llm_locust.users",
    "OllamaChatUser": "llm_locust.users",
    "OllamaGenerateUser": "llm_locust.users",
    "OpenAIChatUser": "llm_locust.users",
    "OpenAICompletionUser": "llm_locust.users",
    "Prompt": "llm_locust.workload",
    "Reply": "llm_locust.streaming",
    "RequestRecord": "llm_locust.records",
    "RunOptions": "llm_locust.plugin",
    "StageShape": "llm_locust.plugin",
    "StageSpec": "llm_locust.records",
    "UsageError": "llm_locust.records",
    "llm_request": "llm_locust.plugin",
    "register_dialect": "llm_locust.streaming",
}

__all__ = [
    "BoundarySearch",
    "LLMUser",
    "OllamaChatUser",
    "OllamaGenerateUser",
    "OpenAIChatUser",
    "OpenAICompletionUser",
    "Prompt",
    "Reply",
    "RequestRecord",
    "RunOptions",
    "StageShape",
    "StageSpec",
    "UsageError",
    "llm_request",
    "register_dialect",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _HOMES[name] in ("llm_locust.users", "llm_locust.plugin"):
        importlib.import_module("llm_locust.plugin")  # users and shapes work only with its listeners registered
    return getattr(importlib.import_module(_HOMES[name]), name)
