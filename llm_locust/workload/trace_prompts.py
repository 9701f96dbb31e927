"""Prompts for the rows of a trace: its own where it holds them, else made-up text of the lengths and shared blocks it tells.

A prompt's number is ``row + copy * rows``: copies of a trace, laid over it for a higher rate, have other texts.
"""

from __future__ import annotations

import hashlib
import random
from functools import lru_cache

from llm_locust.arrivals.traces import UNKNOWN, Trace
from llm_locust.records import WorkloadFacts
from llm_locust.workload.prompts import WORDS, Prompt

_VERSE_WORDS = 64
_VERSES = 256
"""Long prompts are put together from verses: choosing every one of 30,000 words anew would take 10 ms."""
_OPENING_WORDS = 12
"""Words of a prompt's, or a shared block's, very own at its beginning: no prefix is shared by accident."""
_UNKNOWN_WORDS = 48


class TracePrompts:
    """One prompt for each row of a trace, and for each row of each of its copies."""

    def __init__(self, trace: Trace, *, seed: int, max_tokens: int) -> None:
        """Make none yet.

        Args:
            trace: The trace.
            seed: Of the made-up texts.
            max_tokens: Output limit of a row that tells none.
        """
        self._trace = trace
        self._seed = seed
        self._max_tokens = max_tokens
        words = random.Random(f"verses/{seed}")
        self._verses = [" ".join(words.choices(WORDS, k=_VERSE_WORDS)) for _ in range(_VERSES)]
        self._block = lru_cache(maxsize=4096)(self._block_text)
        own = trace.log is not None
        identity = f"{trace.sha256} seed={seed} max_tokens={max_tokens}"
        self.facts = WorkloadFacts(
            name=f"{trace.format}-trace",
            kind="representative" if own else "synthetic",
            source=f"{trace.path} ({trace.format}{'' if own else ', lengths of the trace, made-up text'})",
            sha256=hashlib.sha256(identity.encode()).hexdigest(),
            prompts=trace.used,
        )

    def prompt(self, index: int) -> Prompt:
        """The prompt of this number."""
        trace = self._trace
        copy, row = divmod(index, trace.used)
        output = int(trace.output_tokens[row])
        session = trace.session_name(row)
        asked = int(trace.input_tokens[row])
        shared = {
            "index": index,
            "max_tokens": output if output > 0 else self._max_tokens,
            "session": session if session is None or copy == 0 else f"{session}#{copy}",
            "turn": None if (turn := int(trace.turn[row])) == UNKNOWN else turn,
            "input_tokens": None if asked == UNKNOWN else asked,
        }
        if trace.log is not None:
            request = trace.request(row)
            return Prompt(
                prompt=request.prompt,
                messages=request.messages,
                slice=request.slice,
                prefix_group=request.prefix_group,
                **shared,  # type: ignore[arg-type]
            )
        return Prompt(prompt=self._text(index, copy, row, asked), **shared)  # type: ignore[arg-type]

    def _text(self, index: int, copy: int, row: int, asked: int) -> str:
        """Text of about one word a token; what two rows of a copy share by their block ids is the same in both."""
        left = asked if asked > 0 else _UNKNOWN_WORDS
        pieces: list[str] = []
        width = self._trace.block_tokens
        if width is not None:
            for block in self._trace.blocks(row).tolist():
                if left < width:
                    break  # the last block is not full, and is nobody else's beginning
                pieces.append(self._block(copy, block, width))
                left -= width
        pieces.append(self._words(f"{self._seed}/{index}", left))
        return " ".join(piece for piece in pieces if piece)

    def _block_text(self, copy: int, block: int, width: int) -> str:
        return self._words(f"{self._seed}/block/{copy}/{block}", width)

    def _words(self, seed: str, count: int) -> str:
        """So many words, decided by the seed."""
        if count <= 0:
            return ""
        source = random.Random(seed)
        opening = source.choices(WORDS, k=min(_OPENING_WORDS, count))
        verses, rest = divmod(count - len(opening), _VERSE_WORDS)
        middle = source.choices(self._verses, k=verses)
        return " ".join([*opening, *middle, *source.choices(WORDS, k=rest)])
