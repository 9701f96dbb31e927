"""Tokens of the synthetic engine: a rule that anyone can apply by hand, and replies made of plain words.

A token is a run of letters, digits and underscores, or one other character that is not white space. A chat is rendered as
one marker, the tokens and one end marker for each message, and one marker where the reply begins: ``2 * messages + 1`` on
top of the contents. So the reply of one turn, sent back in the next, continues the same token prefix.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Iterable
from functools import lru_cache

_TOKEN = re.compile(r"\w+|[^\w\s]")

WORDS = (
    "river", "stone", "light", "garden", "winter", "paper", "morning", "bridge", "silver", "cloud", "forest",
    "letter", "window", "harbor", "candle", "meadow", "orange", "mirror", "engine", "pocket", "travel", "summer",
    "record", "signal", "valley", "carbon", "button", "island", "market", "thread", "copper", "planet", "basket",
    "ladder", "shadow", "violin", "number", "yellow", "family", "museum", "branch", "castle", "dinner", "effort",
    "feather", "guitar", "hammer", "insect", "jacket", "kitten", "lemon", "magnet", "napkin", "oyster", "pencil",
    "quartz", "rocket", "saddle", "temple", "umbrella", "velvet", "walnut", "zipper", "anchor",
)  # fmt: skip
"""What replies are made of: each is one token, and plain ASCII."""


@lru_cache(maxsize=65_536)
def _token_id(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def tokenize(text: str) -> list[int]:
    """The token ids of ``text``: 32-bit checksums of its tokens, the same in every process."""
    return [_token_id(token) for token in _TOKEN.findall(text)]


def tokenize_chat(messages: Iterable[tuple[str, str]], *, reply_marker: bool = True) -> list[int]:
    """The token ids of ``(role, content)`` messages, with the marker where the reply begins unless told otherwise."""
    ids: list[int] = []
    for role, content in messages:
        ids += [_token_id(f"<|{role}|>"), *tokenize(content), _token_id("<|end|>")]
    if reply_marker:
        ids.append(_token_id("<|assistant|>"))
    return ids


def reply_words(seed: int, prompt: Iterable[int], count: int) -> list[str]:
    """``count`` words that depend on the seed and the prompt alone, as a reply at temperature 0 would."""
    return random.Random(hash((seed, *prompt))).choices(WORDS, k=count)
