"""Whether prompts fit into the context of the server: the longest are looked for, and counted where somebody can count."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from llm_locust.workload.prompt import Prompt, Workload
from llm_locust.workload.prompts_file import PromptsFile
from llm_locust.workload.sharegpt import ShareGPTFile

LOOKED_AT = 2000
"""Prompts of an endless workload, or of a trace, whose lengths are looked at."""
COUNTED = 8
"""The longest of a file that are counted."""
CHARACTERS_PER_TOKEN = 4
FAR_BEYOND = 16
"""Characters for each token of the context from which on nobody need count."""
ESTIMATED_BEYOND = 2
"""An estimate has to be so many times the context before a prompt is called too long."""


class Beyond(NamedTuple):
    """A prompt that does not fit."""

    place: int
    """Its index."""
    refused: bool
    """Its input alone is too long; else input and output limit together."""
    sentence: str


def beyond_context(workload: Workload, limit: int, count: Callable[[Prompt], int | None]) -> Beyond | None:
    """The worst prompt that does not fit into the context; ``None`` when all that were looked at do.

    Args:
        workload: the prompts.
        limit: tokens of the server's context, prompt and reply together.
        count: the input tokens of a prompt; ``None`` when nobody can tell.
    """
    of_file = isinstance(workload, PromptsFile | ShareGPTFile)
    known = workload.facts.prompts
    prompts = [
        workload.prompt(index) for index in range(known if of_file and known else min(known or LOOKED_AT, LOOKED_AT))
    ]
    asked = max(
        (prompt for prompt in prompts if prompt.input_tokens is not None),
        key=lambda prompt: (prompt.input_tokens or 0) + prompt.max_tokens,
        default=None,
    )
    if asked is not None and (found := _judge(asked, asked.input_tokens or 0, limit, "")) is not None:
        return found
    longest = sorted((p for p in prompts if p.input_tokens is None), key=lambda p: -len(p.text))[:COUNTED]
    for prompt in longest:
        if len(prompt.text) <= limit // 2:
            break  # fewer characters than half the context: even one token for each fits
        counted = count(prompt) if len(prompt.text) <= FAR_BEYOND * limit else None
        if counted is not None:
            found = _judge(prompt, counted, limit, "")
        else:
            about = len(prompt.text) // CHARACTERS_PER_TOKEN
            found = _judge(prompt, about, limit, "about ") if about > ESTIMATED_BEYOND * limit else None
        if found is not None:
            return found
    return None


def _judge(prompt: Prompt, tokens: int, limit: int, about: str) -> Beyond | None:
    if tokens >= limit:
        text = f"{about}{tokens:,} tokens of input do not fit into the server's context of {limit:,} tokens: shorten it"
        return Beyond(prompt.index, True, text)
    if tokens + prompt.max_tokens > limit:
        text = (
            f"{about}{tokens:,} tokens of input and {prompt.max_tokens:,} of output are more than the server's context of "
            f"{limit:,}: it may refuse the request or cut the reply short"
        )
        return Beyond(prompt.index, False, text)
    return None
