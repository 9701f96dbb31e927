"""What is asked of every reply of a source: how long it may get, and the body fields that go with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llm_locust.workload.lengths import Lengths
from llm_locust.workload.text import unit


class Output:
    """Output limits and further body fields, for a prompt that names none of its own."""

    def __init__(
        self,
        max_tokens: int,
        *,
        lengths: Lengths | None = None,
        labels: str = "",
        min_tokens: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Say what is asked.

        Args:
            max_tokens: the limit, where there are no
            lengths: ... to draw it from.
            labels: the seed of the draws.
            min_tokens: the least that is to be generated, never more than the limit; -1: the limit itself.
            extra: body fields by their OpenAI names.
        """
        self._max_tokens = max_tokens
        self._lengths = lengths
        self._labels = labels
        self._min_tokens = min_tokens
        self._extra = dict(extra or {})
        self.name = f"output={max_tokens if lengths is None else lengths.name} min={min_tokens} extra={self._extra!r}"
        """What the replies are asked for, in a line."""

    def limit(self, index: int, turn: int = 1) -> int:
        """The output limit of the prompt with this number, in this turn."""
        if self._lengths is None:
            return self._max_tokens
        return self._lengths.at(unit(self._labels, "output", index, turn))

    def extra(self, limit: int, own: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The body fields of a prompt with this limit; its own go before those of all."""
        if self._min_tokens is None and not own:
            return self._extra
        least = {}
        if self._min_tokens is not None:
            least = {"min_tokens": limit if self._min_tokens < 0 else min(self._min_tokens, limit)}
        return {**self._extra, **least, **(own or {})}
