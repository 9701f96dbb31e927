"""Ctrl-C and SIGTERM: once stops sending and lets the flying requests land, twice cancels them. The run is judged.

Python's own handler raises KeyboardInterrupt in whichever greenlet happens to run, which may be the dispatcher. This one
runs in a greenlet of its own, and hands the interrupt on to Locust only when there is no run to end first.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

import gevent

from llm_locust.records import ExitCode

BEFORE_LOAD = "stopped before load: nothing was sent, so nothing is judged"


class Interrupts:
    """Counts Ctrl-C (and SIGTERM) during a run."""

    def __init__(
        self,
        stop: Callable[[], bool],
        cancel: Callable[[], None],
        without_a_run: Callable[[], None],
        *,
        terminates: bool,
    ) -> None:
        """Take SIGINT and SIGTERM over.

        Args:
            stop: ends the run in order; ``False`` when there is none.
            cancel: ends it now.
            without_a_run: what is to be done then.
            terminates: whether SIGTERM without a run is ours too. Locust listens to it itself, but in a headless run with
                a shape only once that is over.
        """
        self._stop = stop
        self._cancel = cancel
        self._without_a_run = without_a_run
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
            self._without_a_run()

    def take(self) -> bool:
        """Whether there was any since the last call; asked when a run has ended."""
        seen, self.count = self.count > 0, 0
        return seen


def hand_on() -> None:
    """Raise KeyboardInterrupt in the main greenlet, as Python would have."""
    gevent.get_hub().handle_system_error(KeyboardInterrupt, KeyboardInterrupt())


def leave(code: int) -> None:
    """Raise SystemExit in the main greenlet, wherever Locust is."""
    gevent.get_hub().handle_system_error(SystemExit, SystemExit(code))


def end_quietly_until_taken_over() -> None:
    """Until :class:`Interrupts` takes over, Ctrl-C ends this process, and those forked from it, without a traceback."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return  # somebody else's, or ignored
    first = os.getpid()

    def end(_number: int, _frame: FrameType | None) -> None:
        if os.getpid() != first:
            sys.exit(ExitCode.DONE)  # a worker: the first process says it
        say(BEFORE_LOAD)
        sys.exit(ExitCode.UNDECIDED)

    signal.signal(signal.SIGINT, end)


def say(line: str) -> None:
    """A line for the person at the terminal, if it is still there."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)
