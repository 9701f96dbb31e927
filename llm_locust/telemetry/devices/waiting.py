"""Waits for the next sample, and is woken by what ends the sampling: a signal, or the end of the process."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from types import FrameType, TracebackType

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Waiting:
    """Takes SIGTERM, SIGINT and SIGHUP while it is entered; they then end the wait instead of the program.

    The handler only writes a byte: what locks (an ``Event``) locks up a program that is interrupted while it holds the lock.

    Args:
        pid: a process whose end wakes too, where the system can tell (Linux).
    """

    def __init__(self, pid: int | None) -> None:
        self.signalled: str | None = None
        """The name of the signal that came."""
        self.process_ended = False
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._watched = [self._read]
        self._process: int | None = None
        if pid is not None and hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                self._process = os.pidfd_open(pid)
                self._watched.append(self._process)

    def __enter__(self) -> Waiting:
        hung_up = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # by nohup, which is to be obeyed
        taken = [number for number in ENDING_SIGNALS if number != signal.SIGHUP or not hung_up]
        self._before = {number: signal.signal(number, self._take) for number in taken}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        for descriptor in (self._write, *self._watched):
            os.close(descriptor)

    def wait(self, seconds: float) -> None:
        """Return after so many seconds, or at once when there is a reason to stop."""
        ready, _, _ = select.select(self._watched, [], [], max(seconds, 0.0))
        self.process_ended = self._process in ready

    def _take(self, number: int, _frame: FrameType | None) -> None:
        self.signalled = signal.Signals(number).name
        with contextlib.suppress(BlockingIOError):
            os.write(self._write, b"!")
