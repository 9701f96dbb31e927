"""One prompt, and the contract of whatever gives prompts."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import msgspec

from llm_locust.records import WorkloadFacts
from llm_locust.workload.digest import request_digest

Message = dict[str, Any]
"""One chat message, as the API takes it: ``{"role": ..., "content": ...}`` and whatever else the API knows."""


class Prompt(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One prompt: a text, or chat messages, with an output limit."""

    index: int
    """Its place in the workload. The turns of a session share that of their session."""
    prompt: str | None = None
    messages: list[Message] | None = None
    max_tokens: int
    id: str | None = None
    """The name that its source gives it."""
    slice: str | None = None
    prefix_group: str | None = None
    session: str | None = None
    turn: int | None = None
    """Which turn of its session it is, from 1."""
    input_tokens: int | None = None
    """How long it was asked to be, in tokens, chat template included; ``None`` when nobody asked."""
    expected: Any = None
    """What the answer should be, for a quality check."""
    extra: dict[str, Any] = {}
    """Further fields of the body by their OpenAI names: sampling, ``stop``, ``tools``, ``response_format``, ..."""
    specified: str | None = None
    """Of a follow-up turn: the digest of its specification, since what is sent holds the model's own replies."""

    @property
    def text(self) -> str:
        """The prompt as one text, for APIs that take no messages: contents joined by blank lines."""
        if self.prompt is not None:
            return self.prompt
        return "\n\n".join(str(message.get("content", "")) for message in self.messages or [])

    @property
    def chat(self) -> list[Message]:
        """The prompt as chat messages: a bare text is one message of the user."""
        if self.messages is not None:
            return self.messages
        return [{"role": "user", "content": self.prompt}]

    @cached_property
    def sha256(self) -> str:
        """Digest of what is sent: the prompt or messages, the output limit and further fields; kept once it is made."""
        if self.specified is not None:
            return self.specified
        return request_digest(self.prompt if self.messages is None else self.messages, self.max_tokens, self.extra)


class Workload(Protocol):
    """A named, hashed source of prompts, the same in every process."""

    facts: WorkloadFacts

    @property
    def converses(self) -> bool:
        """Something may follow a prompt: the model's replies are fed back, so their text is needed."""
        ...

    def prompt(self, index: int) -> Prompt:
        """The prompt of the arrival with this index: the first turn, where it begins a session."""
        ...

    def next_turn(self, prompt: Prompt, reply_text: str) -> tuple[float, Prompt] | None:
        """What follows a prompt whose reply has come.

        Args:
            prompt: as this workload gave it.
            reply_text: what the model answered.

        Returns:
            The seconds that the user thinks first, and the next turn with the whole conversation in its messages; ``None``
            when the prompt was the last turn, or of no session.
        """
        ...


class OneTurn:
    """What workloads without sessions have in common: nothing follows a prompt."""

    converses = False

    def next_turn(self, prompt: Prompt, reply_text: str) -> tuple[float, Prompt] | None:
        """``None``."""
        return None
