"""The clock of the records: integer nanoseconds of Unix time from a monotonic clock anchored once per process."""

from __future__ import annotations

import time


class Clock:
    """Unix nanoseconds that a step of the wall clock cannot move.

    Make it in the process that uses it: Locust forks workers after importing locustfiles, and an anchor taken before
    the fork would be shared. The anchor is the wall clock at construction; from then on only the monotonic clock
    counts.
    """

    __slots__ = ("anchor_ns",)

    def __init__(self) -> None:
        # The pair read closest together of a few is the best anchor; a preemption between the reads would bend it.
        best_width = None
        for _ in range(5):
            before = time.monotonic_ns()
            wall = time.time_ns()
            after = time.monotonic_ns()
            if best_width is None or after - before < best_width:
                best_width = after - before
                self.anchor_ns = wall - (before + after) // 2

    def now_ns(self) -> int:
        """Now, in Unix nanoseconds of this process's anchored clock."""
        return time.monotonic_ns() + self.anchor_ns

    def wall_step_ns(self) -> int:
        """How far the wall clock has moved against the anchor since construction (0 when nobody stepped it)."""
        return time.time_ns() - self.now_ns()
