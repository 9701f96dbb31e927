"""Processes that a command starts in groups of their own: Ctrl-C handed on to them, and none left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator

LOOK_S = 0.2
CANCELS = 2
"""This many interrupts end a run and cancel what is in flight; one more kills."""


class Interrupted:
    """Told by Ctrl-C, SIGTERM or a closed terminal, and how often."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.times = 0

    def again(self, *_: object) -> None:
        """Once more."""
        self.times += 1
        self.event.set()


@contextlib.contextmanager
def counted_interrupts() -> Iterator[Interrupted]:
    """SIGINT, SIGTERM and SIGHUP are counted instead of raised, where this is the main thread."""
    seen = Interrupted()
    if threading.current_thread() is not threading.main_thread():
        yield seen
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, seen.again) for number in numbers}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def tell_group(leader: int, number: signal.Signals) -> None:
    """Send a signal to a group of processes by its leader's id; nothing where all of it has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, number)


def interrupt_for(times: int) -> signal.Signals:
    """What a run of ``locust`` is told at the n-th Ctrl-C: to end in order, to cancel, and then it is killed."""
    return signal.SIGKILL if times > CANCELS else signal.SIGINT


def run_group(words: list[str], interrupted: Interrupted) -> int:
    """Run a command as the leader of a group to its end; returns its exit code.

    Its output goes where ours goes. Each interrupt is handed on once to the whole group, whose members a terminal does not
    tell by itself. Whatever is left of the group in the end is killed.
    """
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True)
    handed_on = 0
    try:
        while True:
            try:
                return process.wait(LOOK_S)
            except subprocess.TimeoutExpired:
                if interrupted.times > handed_on:
                    handed_on += 1
                    tell_group(process.pid, interrupt_for(handed_on))
    finally:
        tell_group(process.pid, signal.SIGKILL)
        process.wait()
