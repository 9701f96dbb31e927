"""Ctrl-C and SIGTERM: once stops sending and lets the flying requests land, twice cancels them. The run is judged.

Python's own handler raises KeyboardInterrupt in whichever greenlet happens to run, which may be the dispatcher. This one
runs in a greenlet of its own, and hands the interrupt on to Locust only when there is no run to end first.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable

import gevent


class Interrupts:
    """Counts Ctrl-C (and SIGTERM) during a run."""

    def __init__(self, stop: Callable[[], bool], cancel: Callable[[], None], *, terminates: bool) -> None:
        """Take SIGINT and SIGTERM over.

        Args:
            stop: ends the run in order; ``False`` when there is none, and the interrupt is Locust's.
            cancel: ends it now.
            terminates: whether SIGTERM without a run is ours too. Locust listens to it itself, but in a headless run with
                a shape only once that is over.
        """
        self._stop = stop
        self._cancel = cancel
        self.count = 0
        gevent.signal_handler(signal.SIGINT, self._on_signal, True)
        gevent.signal_handler(signal.SIGTERM, self._on_signal, terminates)
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it
            gevent.signal_handler(signal.SIGHUP, self._on_signal, True)  # the terminal was closed

    def _on_signal(self, without_a_run: bool) -> None:
        if self.count > 0:
            self.count += 1
            self._cancel()
        elif self._stop():
            self.count = 1
        elif without_a_run:
            hand_on()

    def take(self) -> bool:
        """Whether there was any since the last call; asked when a run has ended."""
        seen, self.count = self.count > 0, 0
        return seen


def hand_on() -> None:
    """Raise KeyboardInterrupt in the main greenlet, as Python would have."""
    gevent.get_hub().handle_system_error(KeyboardInterrupt, KeyboardInterrupt())


def say(line: str) -> None:
    """A line for the person at the terminal, if it is still there."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)
