"""Counts the input tokens of a request body: by the server's own ``/tokenize``, or by a tokenizer file.

vLLM (and SGLang) take ``{"model", "prompt"}`` or ``{"model", "messages"}`` and answer with ``count``. llama.cpp takes
``{"content"}`` and answers with ``tokens``; its chat template is applied by ``/apply-template``.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from llm_locust.records import UsageError
from llm_locust.telemetry.probe import NoPage, Page, Probe

TOKENIZE, APPLY_TEMPLATE = "/tokenize", "/apply-template"
COUNT_S = 10.0
"""How long one count may take."""
_TEMPLATE_FIELDS = ("tools", "chat_template_kwargs", "add_generation_prompt", "reasoning_format")
"""Fields of a chat's body that change what its template renders."""


class CannotCount(Exception):
    """The tokenizer does not answer, or not to this."""


class Tokenizer(Protocol):
    """Counts."""

    counted_by: str
    """What counts, in words."""

    def tokens(self, body: Mapping[str, Any]) -> Sequence[object]:
        """The input tokens of a request with this body, template and all; equal ones are equal.

        Raises:
            CannotCount: it cannot be told.
        """
        ...


class ServerTokenizer:
    """The server's own ``/tokenize``."""

    def __init__(self, probe: Probe) -> None:
        """Find out which form it takes.

        Args:
            probe: Asks the server.

        Raises:
            CannotCount: there is no such page, or it takes neither form.
        """
        self._probe = probe
        # To vLLM's form llama.cpp answers with no tokens at all; to llama.cpp's, vLLM with an error.
        self._vllm = isinstance(self._ask(TOKENIZE, {"prompt": "one word"}, missing_ok=True).get("count"), int)
        if not self._vllm and not _tokens(self._ask(TOKENIZE, {"content": "one word"})):
            raise CannotCount(f"{TOKENIZE} answers in no form that is known")
        self.counted_by = f"the server's {TOKENIZE}"

    def tokens(self, body: Mapping[str, Any]) -> Sequence[object]:
        """The input tokens of a request with this body."""
        if self._vllm:
            asked = {name: body[name] for name in ("model", "prompt", "messages", *_TEMPLATE_FIELDS) if name in body}
            return self._told(asked)
        text = body.get("prompt")
        if "messages" in body:
            asked = {name: body[name] for name in ("messages", *_TEMPLATE_FIELDS) if name in body}
            text = self._ask(APPLY_TEMPLATE, asked).get("prompt")
        if not isinstance(text, str):
            raise CannotCount("the body holds neither a prompt nor messages with a template")
        return self._told({"content": text, "add_special": True, "parse_special": True})

    def _told(self, asked: Mapping[str, Any]) -> Sequence[object]:
        tokens = _tokens(self._ask(TOKENIZE, asked))
        if tokens is None:
            raise CannotCount(f"{TOKENIZE} names no tokens")
        return tokens

    def _ask(self, path: str, body: Mapping[str, Any], *, missing_ok: bool = False) -> dict[str, Any]:
        try:
            page = self._probe.post(path, body, timeout_s=COUNT_S)
        except NoPage as none:
            raise CannotCount(f"{path}: {none.failure.error}") from None
        if page.status != 200 and not (missing_ok and page.status in (400, 422)):
            raise CannotCount(self._refused(path, page))
        return page.json()

    def _refused(self, path: str, page: Page) -> str:
        return self._probe.safe(f"{path}: HTTP {page.status} {page.message()}".strip())


def _tokens(answer: Mapping[str, Any]) -> list[Any] | None:
    found = answer.get("tokens")
    return found if isinstance(found, list) else None


class FileTokenizer:
    """A ``tokenizer.json`` as Hugging Face writes it. It holds no chat template: only the messages' texts are counted."""

    def __init__(self, path: str) -> None:
        """Load it.

        Raises:
            UsageError: the library is not installed, or the file is no tokenizer.
        """
        try:
            library: Any = importlib.import_module("tokenizers")
        except ImportError:
            raise UsageError(
                f"--tokenizer {path}: reading a tokenizer file needs a library: pip install 'llm-locust[tokenizers]'"
            ) from None
        try:
            self._tokenizer = library.Tokenizer.from_file(path)
        except Exception as error:  # it raises bare Exceptions
            raise UsageError(f"--tokenizer {path}: not a tokenizer.json: {error}") from None
        self.counted_by = f"{path}, without chat template"

    def tokens(self, body: Mapping[str, Any]) -> Sequence[object]:
        """The tokens of the body's texts."""
        messages = body.get("messages")
        if not isinstance(messages, list):
            found: list[int] = self._tokenizer.encode(str(body.get("prompt", ""))).ids
            return found
        texts = (str(message.get("content", "")) for message in messages)
        return [token for text in texts for token in self._tokenizer.encode(text, add_special_tokens=False).ids]
