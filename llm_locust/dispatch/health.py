"""The load generator's own health: CPU of this process, and how late its event loop runs."""

from __future__ import annotations

import gc
import time

import gevent
import psutil

QUIET_THRESHOLDS = (50_000, 20, 100)


class QuietCollector:
    """Keeps the garbage collector from pausing a stage: what is there at its start is never looked at again.

    A full collection costs 20 to 60 ms, in which nothing is sent or read.
    """

    def __init__(self) -> None:
        self._before = gc.get_threshold()
        gc.collect()
        gc.freeze()
        gc.set_threshold(*QUIET_THRESHOLDS)

    def close(self) -> None:
        """As it was before."""
        gc.set_threshold(*self._before)
        gc.unfreeze()


class LoopMonitor:
    """Watches a 100 ms timer: what it is late by, every other callback of the process was late by too."""

    PERIOD_S = 0.1

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._process.cpu_percent()  # the first call only sets the mark
        self._worst_ms: float | None = None
        self._greenlet = gevent.spawn(self._watch)

    def take(self) -> tuple[float | None, float | None]:
        """CPU percent of one core since the last call, and the worst lateness in ms (``None``: no timer came due)."""
        worst, self._worst_ms = self._worst_ms, None
        return self._process.cpu_percent(), worst

    def close(self) -> None:
        """Stop watching."""
        self._greenlet.kill()

    def _watch(self) -> None:
        while True:
            due = time.monotonic() + self.PERIOD_S
            gevent.sleep(self.PERIOD_S)
            late_ms = (time.monotonic() - due) * 1000
            if self._worst_ms is None or late_ms > self._worst_ms:
                self._worst_ms = late_ms
