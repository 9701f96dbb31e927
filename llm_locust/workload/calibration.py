"""Finds how made-up text is counted by a tokenizer: which words are one token each, and what surrounds a request's text.

Words that are one token after a space, and stand alone whatever their neighbours are, add up: n of them are ``overhead + n``
tokens of input. Both is asked of the tokenizer before load, some sixty times; prompts of any length are then made by
arithmetic on every worker, without asking again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from llm_locust.records.run import TokenRule
from llm_locust.workload.words import WORDS

OPENERS_TRIED = 12
GROUP = 16
LEAST_WORDS = 32
"""Fewer one-token words would make prompts too much alike."""
PROOF_WORDS = 600
"""A text as long as this must be as long as the arithmetic says."""


class NotAdditive(Exception):
    """This tokenizer does not count words one by one, or knows too few of the pool's."""


def calibrate(
    tokens: Callable[[str], Sequence[object]], *, source: Literal["server", "file"], counted_by: str
) -> TokenRule:
    """The rule of a tokenizer.

    Args:
        tokens: the input tokens of a request with this text, everything around it included.
        source: what kind of tokenizer it is.
        counted_by: ... in words.

    Raises:
        NotAdditive: lengths cannot be had by counting words.
    """

    def count(text: str) -> int:
        return len(tokens(text))

    # The pool is in the order of the alphabet: a few from all over it.
    tried = list(range(0, len(WORDS), len(WORDS) // OPENERS_TRIED))[:OPENERS_TRIED]
    alone = {place: count(WORDS[place]) for place in tried}
    base = min(alone.values())
    openers = [place for place in tried if alone[place] == base]
    opener = WORDS[openers[0]]

    def one_each(places: Sequence[int]) -> list[int]:
        """Those of these words that are one token after a space."""
        if not places:
            return []
        if count(" ".join([opener, *(WORDS[place] for place in places)])) == base + len(places):
            return list(places)
        if len(places) == 1:
            return []
        middle = len(places) // 2
        return one_each(places[:middle]) + one_each(places[middle:])

    words = [
        place
        for start in range(0, len(WORDS), GROUP)
        for place in one_each(range(start, min(start + GROUP, len(WORDS))))
    ]
    if len(words) < LEAST_WORDS:
        raise NotAdditive(f"only {len(words)} of {len(WORDS)} common English words are one token each")
    proof = " ".join([opener, *(WORDS[words[place * 7 % len(words)]] for place in range(PROOF_WORDS - 1))])
    counted = count(proof)
    if counted != base - 1 + PROOF_WORDS:
        raise NotAdditive(f"{PROOF_WORDS} words of one token each came to {counted - base + 1} tokens together")
    one, other = (tokens(WORDS[place]) for place in (openers[0], words[-1]))
    ahead = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), base - 1)
    return TokenRule(
        source=source,
        counted_by=counted_by,
        words=words,
        openers=openers,
        overhead=base - 1,
        ahead=min(ahead, base - 1),
    )
