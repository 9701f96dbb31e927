"""Made-up text of so many words, decided by a seed text alone and cheap to make: 8,000 words take some ten microseconds.

Text is put together from verses of 64 words, picked by the bytes of an extendable hash (SHAKE-128), which is the same in
every process and version of Python. A longer text from one seed begins with the shorter one, so a shared prefix of any
length is one seed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from llm_locust.records.run import TokenRule
from llm_locust.workload.words import WORDS

VERSE_WORDS = 64
VERSES = 256
OPENING_WORDS = 12
"""Words of a text's very own at its beginning, 8 bits each: no prefix is shared by accident."""


def unit(*labels: object) -> float:
    """A number in (0, 1) that the labels decide, evenly spread over different labels."""
    digest = hashlib.blake2b("/".join(map(str, labels)).encode(), digest_size=8).digest()
    # 53 bits, or the largest ones would be rounded to 1.
    return ((int.from_bytes(digest, "big") >> 11) + 0.5) / (1 << 53)


class TextMaker:
    """Writes text of so many words, which are so many tokens where the rule was found by a tokenizer."""

    def __init__(self, seed: int, rule: TokenRule) -> None:
        """Write the verses.

        Args:
            seed: of the verses.
            rule: which words of the pool count one token; all of them when nobody has counted.
        """
        self._words = _table([WORDS[place] for place in rule.words] or WORDS)
        self._openers = _table([WORDS[place] for place in rule.openers] or WORDS)
        picks = hashlib.shake_128(f"verses/{seed}".encode()).digest(VERSES * VERSE_WORDS)
        words = [self._words[pick] for pick in picks]
        self._verse_words = [words[start : start + VERSE_WORDS] for start in range(0, len(words), VERSE_WORDS)]
        self._verses = [" ".join(verse) for verse in self._verse_words]

    def text(self, seed: str, count: int, *, opens: bool = False) -> str:
        """So many words; the empty text for none.

        Args:
            seed: decides the text; texts of one seed begin alike.
            count: of words.
            opens: it stands at the beginning of a message, where a word may be other tokens than after a space.
        """
        if count <= 0:
            return ""
        own = min(OPENING_WORDS, count)
        verses, rest = divmod(count - own, VERSE_WORDS)
        picks = hashlib.shake_128(seed.encode()).digest(OPENING_WORDS + verses + 1)
        pieces = [self._words[pick] for pick in picks[:own]]
        if opens:
            pieces[0] = self._openers[picks[0]]
        pieces += map(self._verses.__getitem__, picks[OPENING_WORDS : OPENING_WORDS + verses])
        if rest:
            pieces += self._verse_words[picks[OPENING_WORDS + verses]][:rest]
        return " ".join(pieces)


def _table(words: Sequence[str]) -> list[str]:
    """A word for each byte."""
    return [words[place % len(words)] for place in range(256)]
