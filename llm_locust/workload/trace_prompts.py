"""Prompts for the rows of a trace: its own where it holds them, else made-up text of the lengths and shared blocks it tells.

A prompt's number is ``row + copy * rows``: copies of a trace, laid over it for a higher rate, have other texts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from llm_locust.arrivals.traces import UNKNOWN, Trace
from llm_locust.records import WorkloadFacts
from llm_locust.records.run import TokenRule
from llm_locust.workload.digest import endless_digest
from llm_locust.workload.output import Output
from llm_locust.workload.prompt import OneTurn, Prompt
from llm_locust.workload.text import TextMaker

_UNKNOWN_TOKENS = 48


class TracePrompts(OneTurn):
    """One prompt for each row of a trace, and for each row of each of its copies."""

    def __init__(
        self, trace: Trace, *, seed: int, max_tokens: int, output: Output | None = None, rule: TokenRule | None = None
    ) -> None:
        """Make none yet.

        Args:
            trace: The trace.
            seed: Of the made-up texts.
            max_tokens: Output limit of a row that tells none, unless there is an
            output: ... that says more; a row's own output is its limit.
            rule: How made-up text is counted; ``None``: a word is taken for a token.
        """
        self._trace = trace
        self._seed = seed
        self._output = output or Output(max_tokens)
        self._rule = rule or TokenRule()
        self._maker = TextMaker(seed, self._rule)
        self._block = lru_cache(maxsize=4096)(self._block_text)
        own = trace.log is not None
        identity = f"{trace.sha256} seed={seed} {self._output.name} overhead={self._rule.overhead}"
        self.facts = WorkloadFacts(
            name=f"{trace.format}-trace",
            kind="representative" if own else "synthetic",
            source=f"{trace.path} ({trace.format}{'' if own else ', lengths of the trace, made-up text'})",
            sha256=endless_digest(identity, lambda index: self.prompt(index).sha256),
            prompts=trace.used if own else None,
            read=trace.read,
            dropped=trace.dropped,
            tokens_counted_by=None if own else self._rule.counted_by,
        )

    def prompt(self, index: int) -> Prompt:
        """The prompt of this number."""
        trace = self._trace
        copy, row = divmod(index, trace.used)
        output = int(trace.output_tokens[row])
        session = trace.session_name(row)
        asked = int(trace.input_tokens[row])
        limit = output if output > 0 else self._output.limit(index)
        shared: dict[str, Any] = {
            "index": index,
            "max_tokens": limit,
            "session": session if session is None or copy == 0 else f"{session}#{copy}",
            "turn": None if (turn := int(trace.turn[row])) == UNKNOWN else turn,
            "input_tokens": None if asked == UNKNOWN else asked,
            "extra": self._output.extra(limit),
        }
        if trace.log is not None:
            request = trace.request(row)
            return Prompt(
                prompt=request.prompt,
                messages=request.messages,
                id=None if request.id is None else str(request.id),
                slice=request.slice,
                prefix_group=request.prefix_group,
                **shared,
            )
        return Prompt(prompt=self._text(index, copy, row, asked), **shared)

    def _text(self, index: int, copy: int, row: int, asked: int) -> str:
        """Text of so many tokens; what two rows of a copy share by their block ids is the same in both.

        The chat template is part of the first block, as it is for the server: so the whole is as long as the row says, and
        every other block is exactly as many tokens as the trace's blocks are.
        """
        left = asked if asked > 0 else _UNKNOWN_TOKENS
        ahead = self._rule.overhead
        pieces: list[str] = []
        width = self._trace.block_tokens
        if width is not None and ahead < width:
            for block in self._trace.blocks(row).tolist():
                if left < width:
                    break  # the last block is not full, and is nobody else's beginning
                pieces.append(self._block(copy, block, width - ahead, not pieces))
                left -= width
                ahead = 0
        # A prompt has some text, whatever its template takes.
        rest = left - ahead if pieces else max(1, left - ahead)
        pieces.append(self._maker.text(f"{self._seed}/{index}", rest, opens=not pieces))
        return " ".join(piece for piece in pieces if piece)

    def _block_text(self, copy: int, block: int, words: int, opens: bool) -> str:
        return self._maker.text(f"{self._seed}/block/{copy}/{block}", words, opens=opens)
