"""The reads of one reply on their way into its decoder, without I/O: kept until there are enough to be worth decoding.

Decoding a hundred reads of one stream at once costs a third of decoding each as it comes, between those of a thousand other
streams. Nothing is lost by waiting: every read has its time already. What cannot wait is the end of the reply, which sets
its connection and its greenlet free; it shows in the read that holds it.
"""

from __future__ import annotations

from typing import Literal

from llm_locust.streaming.decoder import ReplyDecoder

_KEPT_READS = 64
_LARGE_READ = 1024
"""A read this long holds more than one event, or a long one, and would take memory; it is not kept waiting."""
_SHORT_READ = 16
"""A read this short may be the rest of an end that was cut in two."""
_END = b"\r\n\r\n"
"""What ends a body in chunks: an empty line. After another empty line it is a chunk that ends with one."""

_LINE_END = b"\r\n"

ClockSource = Literal["kernel", "user", "mixed"]


class OutOfTime(Exception):
    """A read came after the deadline: a stream that always has bytes ready outruns the timer."""


class Reception:
    """What was read of one reply.

    Put each read and its time into ``reads`` and ``times``; when :meth:`due` says so, and at the end, :meth:`settle` hands
    them to the decoder.
    """

    __slots__ = (
        "can_wait", "deadline_ns", "decoder", "enough", "enough_events", "read_lag_ns", "reads", "times", "total_reads",
        "user_reads",
    )  # fmt: skip

    def __init__(self, decoder: ReplyDecoder, deadline_ns: int, enough_events: int | None = None) -> None:
        self.decoder = decoder
        self.deadline_ns = deadline_ns
        self.enough_events = enough_events
        """Output events after which nothing more is wanted; ``None`` for all there are."""
        self.enough = False
        """So many came, and the reply went on."""
        self.reads: list[bytes] = []
        self.times: list[int] = []
        self.can_wait = False
        """Only an end needs to be looked at before :data:`_KEPT_READS` have come."""
        self.total_reads = 0
        self.user_reads = 0
        """Reads that took user time."""
        self.read_lag_ns = -1
        """The largest time from the kernel's stamp to the read; -1 before there was one."""

    def due(self, data: bytes) -> bool:
        """Whether the reads so far, ``data`` the last of them, are to be settled now."""
        return (
            not self.can_wait
            or self.enough_events is not None
            or (data[-4:] == _END and data[-6:-4] != _LINE_END)
            or not _SHORT_READ <= len(data) <= _LARGE_READ
            or len(self.reads) >= _KEPT_READS
        )

    def settle(self) -> bool:
        """Decode what was kept, and say whether the reply needs nothing more.

        Raises:
            OutOfTime: a read came after the deadline; those before it were decoded.
        """
        reads, times = self.reads, self.times
        late = bool(times) and times[-1] > self.deadline_ns
        if late:
            in_time = next(place for place, t_ns in enumerate(times) if t_ns > self.deadline_ns)
            del reads[in_time:], times[in_time:]
        self.total_reads += len(reads)
        self.decoder.feed_all(reads, times)
        reads.clear()
        times.clear()
        self.can_wait = self.decoder.can_wait
        done = self.decoder.done
        if not done and self.enough_events is not None and self.decoder.output_events >= self.enough_events:
            self.enough = True
        if late and not done and not self.enough:
            raise OutOfTime
        return done or self.enough

    @property
    def clock(self) -> ClockSource | None:
        """Where the times came from."""
        if not self.total_reads:
            return None
        return "kernel" if not self.user_reads else "user" if self.user_reads == self.total_reads else "mixed"
