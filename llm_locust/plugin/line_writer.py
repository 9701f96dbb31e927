"""Lines to a file or to standard output without ever holding up the event loop, and standard output kept for them alone."""

from __future__ import annotations

import os
import sys
from collections import deque

import gevent
from gevent.event import Event

from llm_locust.plugin.interrupts import say
from llm_locust.records import UsageError

STDOUT = "-"

MOST_WAITING = 600
"""Lines kept for a reader that does not read; after that, lines are left out, and how many is said."""


def reserve_stdout() -> int:
    """Keep standard output for lines: whatever else this process prints goes to standard error from now on.

    Returns:
        A descriptor of what standard output was.
    """
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    return kept


def open_lines(file: str) -> int:
    """A descriptor to append lines to.

    Raises:
        UsageError: it cannot be written.
    """
    if file == STDOUT:
        return reserve_stdout()
    try:
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UsageError(f"--json-lines {file}: cannot be written: {error.strerror}") from None


class LineWriter:
    """Writes whole lines in the order they come, on a thread of the event loop's pool: a pipe that is full blocks only that.

    Args:
        descriptor: Where to; it is closed at the end.
        name: What it is called in messages.
    """

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor = descriptor
        self._name = name
        self._lines: deque[bytes] = deque()
        self._news = Event()
        self._closing = False
        self.left_out = 0
        """Lines that found no place, since nobody read."""
        self._greenlet = gevent.spawn(self._write_all)

    def write(self, line: bytes) -> None:
        """One line, its newline included."""
        if self._greenlet.dead or self._closing:
            return
        if len(self._lines) >= MOST_WAITING:
            self.left_out += 1
            return
        self._lines.append(line)
        self._news.set()

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what is left, but wait no longer than so for a reader that does not read."""
        self._closing = True
        self._news.set()
        self._greenlet.join(timeout_s)
        self.left_out += len(self._lines)
        if self.left_out:
            say(f"WARNING: --json-lines {self._name}: {self.left_out} lines were not written, since nobody read")

    def _write_all(self) -> None:
        try:
            while True:
                while self._lines:
                    trouble = gevent.get_hub().threadpool.apply(_write_whole, (self._descriptor, self._lines[0]))
                    if trouble is not None:
                        self._lines.clear()
                        say(f"WARNING: --json-lines {self._name} ends here: {trouble}; the run goes on")
                        return
                    self._lines.popleft()
                if self._closing:
                    break
                self._news.clear()
                self._news.wait()
        finally:
            os.close(self._descriptor)


def _write_whole(descriptor: int, line: bytes) -> str | None:
    """Write it to the end; why not, if not. Nothing is raised: the pool would print it."""
    try:
        while line:
            line = line[os.write(descriptor, line) :]
    except OSError as error:
        return error.strerror
    return None
