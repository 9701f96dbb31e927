"""The timeline of one reply: deltas with their times in, the times, gaps and counts of the record out."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from operator import sub
from typing import Literal

from llm_locust.streaming.cold import was_cold
from llm_locust.streaming.dialects import Counts, Delta
from llm_locust.streaming.reply import Reply


class Timeline:
    """What the events of one reply add up to.

    Call :meth:`begin_read` once per socket read, then :meth:`add` for each event that it completed.
    """

    def __init__(self, *, keep_text: bool) -> None:
        self.output_events = 0
        self.finished = False
        self.error: str | None = None
        """The first error that the stream itself carried."""
        self._counts = Counts()
        self._finish_reason: str | None = None
        self._first_output_ns: int | None = None
        self._first_answer_ns: int | None = None
        self._finish_ns: int | None = None
        self._output_times = array("q")  # a list of ints would take five times the memory
        self._coalesced = 0
        self._first_coalesced = False
        self._outputs_in_read = 0
        self._read_has_first = False
        self._text: list[str] | None = [] if keep_text else None
        self._reasoning: list[str] | None = [] if keep_text else None
        self._has_output = False

    def begin_read(self) -> None:
        """A new socket read: what follows shares its time."""
        self._outputs_in_read = 0
        self._read_has_first = False

    def add(self, delta: Delta, t_ns: int) -> None:
        """One event of a stream, completed by the read at ``t_ns``."""
        if delta.answered or delta.reasoning:
            self._output(t_ns)
            if delta.answered and self._first_answer_ns is None:
                self._first_answer_ns = t_ns
        if delta.finished and self._finish_ns is None:
            self._finish_ns = t_ns
        self.add_untimed(delta)

    def add_run(self, field: Literal["text", "reasoning"], strings: Sequence[str], times: Sequence[int]) -> None:
        """Output events of one string each, every one in a read of its own, after at least one other output event."""
        if field == "text" and self._first_answer_ns is None:
            self._first_answer_ns = times[0]
        self._output_times.extend(times)
        self.output_events += len(strings)
        if self._text is not None and self._reasoning is not None:
            (self._text if field == "text" else self._reasoning).extend(strings)

    def add_many(self, field: Literal["text", "reasoning"], strings: Sequence[str], t_ns: int) -> None:
        """As :meth:`add_run`, with all of them in one read."""
        self._coalesced += 1
        self.add_run(field, strings, [t_ns] * len(strings))

    def add_untimed(self, delta: Delta) -> None:
        """A delta whose output has no time of its own: a reply in one piece."""
        self._has_output = self._has_output or delta.answered or bool(delta.reasoning)
        if self._text is not None and self._reasoning is not None:
            self._text.append(delta.text)
            self._reasoning.append(delta.reasoning)
        if delta.finished:
            self.finished = True
            self._finish_reason = delta.finish_reason
        if delta.error is not None and self.error is None:
            self.error = delta.error
        if delta.counts is not None:
            self._merge(delta.counts)

    @property
    def has_output(self) -> bool:
        """Something was generated, in a stream or in one piece."""
        return self._has_output

    def _output(self, t_ns: int) -> None:
        self.output_events += 1
        self._outputs_in_read += 1
        if self._first_output_ns is None:
            self._first_output_ns = t_ns
            self._read_has_first = True
        self._output_times.append(t_ns)
        if self._outputs_in_read == 2:
            self._coalesced += 1
            self._first_coalesced = self._first_coalesced or self._read_has_first

    def _merge(self, later: Counts) -> None:
        # The last usage seen wins, field by field: a later one that leaves a count out does not unsay it.
        for name in Counts.__struct_fields__:
            value = getattr(later, name)
            if value is not None:
                setattr(self._counts, name, value)

    def write_to(self, reply: Reply, *, streamed: bool) -> None:
        """Fill in what is known; ``streamed`` says that the events were timed as a stream."""
        counts = self._counts
        reply.finish_reason = self._finish_reason
        reply.prompt_tokens = counts.prompt_tokens
        reply.reasoning_tokens = counts.reasoning_tokens
        reply.cached_tokens = counts.cached_tokens
        reply.total_duration_ns = counts.total_duration_ns
        reply.load_duration_ns = counts.load_duration_ns
        reply.cold = was_cold(counts.load_duration_ns)
        reply.prompt_eval_duration_ns = counts.prompt_eval_duration_ns
        reply.eval_duration_ns = counts.eval_duration_ns
        if counts.output_tokens is not None and (counts.output_tokens > 0 or not self._has_output):
            reply.output_tokens, reply.output_tokens_source = counts.output_tokens, "usage"
        elif streamed:
            reply.output_tokens, reply.output_tokens_source = self.output_events, "events"
        if self._text is not None and self._reasoning is not None:
            reply.text, reply.reasoning = _joined(self._text), _joined(self._reasoning)
        if not streamed:
            return
        times: Sequence[int] = self._output_times
        gaps_ns = list(map(sub, times[1:], times))
        if gaps_ns and min(gaps_ns) < 0:
            # Stamps of two wakes are put on our clock by the distance measured at each, which differs by microseconds:
            # no output comes before the one that it follows.
            times = list(accumulate(times, max))
            gaps_ns = list(map(sub, times[1:], times))
        last_output_ns = times[-1] if times else None
        reply.output_events = self.output_events
        reply.first_output_ns = self._first_output_ns
        reply.first_answer_ns = self._first_answer_ns
        reply.last_output_ns = last_output_ns
        if self._finish_ns is not None:
            reply.complete_ns = max(self._finish_ns, last_output_ns or 0)
        if gaps_ns:
            reply.max_gap_ns = max(gaps_ns)
            reply.gaps_us = [gap // 1000 for gap in gaps_ns]
        reply.coalesced = self._coalesced
        if self.output_events:
            reply.first_coalesced = self._first_coalesced


def _joined(pieces: list[str]) -> str:
    """One text; halves of surrogate pairs that a server wrote apart meet again, lone ones become U+FFFD."""
    return "".join(pieces).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
