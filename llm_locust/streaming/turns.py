"""Turns of the event loop: giving way in long work, and letting few greenlets at a time through.

gevent runs callbacks (a greenlet that is spawned, woken, or sleeps for 0 s) 50 or more in a row before it looks at a socket
or a timer. Where each has half a millisecond of work, what comes meanwhile is read and sent 25 ms late.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import Any

import gevent
from gevent.hub import Waiter

_A_TURN_S = 1e-9
"""A timer of this length runs out in the next turn of the loop, and one of 0 s is a mere callback."""


def give_way() -> None:
    """Let everything else that is due have its turn."""
    gevent.sleep(_A_TURN_S)


class Turnstile:
    """Lets so many through in one turn of the loop, in the order they came; sockets are looked at between two turns."""

    def __init__(self, per_turn: int = 4) -> None:
        self._per_turn = per_turn
        self._queue: deque[Callable[[None], object]] = deque()
        self._timer: Any = None
        self._process = 0

    def __len__(self) -> int:
        return len(self._queue)

    def call(self, callback: Callable[[None], object]) -> None:
        """Call it (with ``None``, as a waiter is switched to) in the loop when its turn has come.

        It may switch to a greenlet, and must not raise.
        """
        if self._process != os.getpid():  # a timer made before a fork belongs to another loop
            self._process = os.getpid()
            self._queue.clear()
            self._timer = gevent.get_hub().loop.timer(_A_TURN_S, _A_TURN_S)
        self._queue.append(callback)
        if not self._timer.active:
            self._timer.again(self._turn, update=True)

    def wait(self) -> None:
        """Return when the turn of the calling greenlet has come."""
        waiter: Any = Waiter()
        self.call(waiter.switch)
        waiter.get()

    def _turn(self) -> None:
        for _ in range(min(self._per_turn, len(self._queue))):
            self._queue.popleft()(None)
        if not self._queue:
            self._timer.stop()
