"""Ollama's own API: chat and generate, with options, and with a say in how long the model stays loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from llm_locust.records import UsageError
from llm_locust.users.base import LLMUser
from llm_locust.workload import Prompt

_MODEL_OPTIONS = frozenset(
    {
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "seed",
        "stop",
        "repeat_penalty",
        "presence_penalty",
        "frequency_penalty",
    }
)
_NOT_OLLAMAS = frozenset({"ignore_eos", "min_tokens", "cache_salt"})


def _format(asked: Any) -> Any:
    """``json``, or a JSON Schema, out of OpenAI's ``response_format``."""
    if not isinstance(asked, dict):
        return asked
    schema = asked.get("json_schema")
    return schema.get("schema", "json") if isinstance(schema, dict) else "json"


class OllamaUser(LLMUser):
    """What both endpoints share: ``options``, and ``keep_alive``, which any body may hold (``"30m"``, ``-1``, ``0``)."""

    abstract = True
    can_evict = True

    options: ClassVar[dict[str, Any]] = {}
    """Model options of every request: ``temperature``, ``num_ctx``, ... Another ``num_ctx`` than the model was loaded with
    makes Ollama load it again."""

    def model_options(self, prompt: Prompt) -> dict[str, Any]:
        """The ``options`` of the body: the prompt's output limit, and those of the class, which overrule it."""
        return {"num_predict": prompt.max_tokens, **self.options}

    def add_extra(self, body: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
        """The body with further fields, which overrule it; ``options`` are merged one by one, so that none gets lost."""
        merged = {**body, **extra}
        ours, theirs = body.get("options"), extra.get("options")
        if isinstance(ours, dict) and isinstance(theirs, dict):
            merged["options"] = {**ours, **theirs}
        return merged

    def request_fields(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """OpenAI's names as Ollama has them: sampling among the ``options``, ``response_format`` as ``format``.

        Raises:
            UsageError: Ollama has no such wish.
        """
        found: dict[str, Any] = {}
        options: dict[str, Any] = {}
        for name, value in fields.items():
            if name in _NOT_OLLAMAS:
                raise UsageError(
                    f"{type(self).__name__} cannot ask for {name}: Ollama ends a reply where the model does, and has no "
                    "field for it. Leave it out, or use its OpenAI API (OpenAIChatUser) with a server that has it"
                )
            if name in _MODEL_OPTIONS:
                options[name] = value
            elif name == "response_format":
                found["format"] = _format(value)
            else:
                found[name] = value
        return {**found, "options": options} if options else found

    def evict_after(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body with ``keep_alive`` 0: Ollama unloads the model once no request is in flight.

        It goes on holding for requests that leave ``keep_alive`` out, until the model has been unloaded.
        """
        return {**body, "keep_alive": 0}


class OllamaChatUser(OllamaUser):
    """``POST /api/chat``, with the chat template of the model."""

    abstract = True
    dialect = "ollama-chat"
    path = "/api/chat"

    def build_body(self, prompt: Prompt) -> dict[str, Any]:
        """The body; a bare text prompt becomes one message of the user."""
        return {
            "model": self.model,
            "messages": prompt.chat,
            "stream": True,
            "options": self.model_options(prompt),
        }


class OllamaGenerateUser(OllamaUser):
    """``POST /api/generate``: one text. Ollama puts it into the model's template, unless the body says ``"raw": true``."""

    abstract = True
    dialect = "ollama-generate"
    path = "/api/generate"

    def build_body(self, prompt: Prompt) -> dict[str, Any]:
        """The body; chat messages are joined to one text."""
        return {
            "model": self.model,
            "prompt": prompt.text,
            "stream": True,
            "options": self.model_options(prompt),
        }
