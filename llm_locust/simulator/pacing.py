"""The engine in real time: its virtual nanoseconds are those of the monotonic clock, one to one and for ever.

A greenlet wakes at the end of each step and hands out its tokens. If the process was busy it wakes late, hands out what has
become due and goes on by the engine's own times: the clock is never set back to make up for it, so lateness does not add
up. How late each step's tokens were handed out is a histogram on the metrics page.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import gevent
from gevent.event import Event

from llm_locust.simulator.engine import Engine, Job, Token


class EnginePacer:
    """Drives one engine and delivers each token to its request."""

    def __init__(self, engine: Engine, observe: Callable[[list[Token], int], None]) -> None:
        """``observe`` is given each batch of tokens and the monotonic time at which they were handed out."""
        self.engine = engine
        self._observe = observe
        self._deliver: dict[Job, Callable[[Token], None]] = {}
        self._changed = Event()
        self._greenlet = gevent.spawn(self._run)

    def submit(self, job: Job, deliver: Callable[[Token], None]) -> bool:
        """Hand a request to the engine; ``deliver`` (which must not block) gets its tokens. ``False``: refused."""
        was_idle = self.engine.next_ns is None
        if not self.engine.submit(job, time.monotonic_ns()):
            return False
        self._deliver[job] = deliver
        if was_idle:
            self._changed.set()
        return True

    def abort(self, job: Job) -> None:
        """The client left; tokens that were due but not handed out are dropped. Nothing happens if it was over."""
        if self._deliver.pop(job, None) is not None:
            self.engine.abort(job, time.monotonic_ns())

    def preload(self, keep_ns: int | None = None) -> int:
        """Load the model unless it is; returns the monotonic time at which it is loaded."""
        loaded_ns = self.engine.preload(time.monotonic_ns(), keep_ns)
        self._changed.set()
        return loaded_ns

    def unload(self) -> None:
        """Unload the model: now, or once all requests have ended."""
        self.engine.unload(time.monotonic_ns())

    def reset_prefix_cache(self) -> None:
        """Forget the prefixes that no request holds at this moment."""
        self.refresh()
        self.engine.pool.forget_cached()

    def refresh(self) -> None:
        """Bring the engine's state up to now, for whoever is about to read it."""
        self._hand_out()

    def stop(self) -> None:
        """No more tokens."""
        self._greenlet.kill()

    def _hand_out(self) -> None:
        now_ns = time.monotonic_ns()
        said = self.engine.advance(now_ns)
        if not said:
            return
        self._observe(said, now_ns)
        for token in said:
            deliver = self._deliver.pop(token.job, None) if token.is_last else self._deliver.get(token.job)
            if deliver is not None:
                deliver(token)

    def _run(self) -> None:
        while True:
            self._hand_out()
            due_ns = self.engine.next_ns
            if due_ns is None:
                self._changed.wait()
            else:
                # At least one turn of the event loop, so that an engine that is behind lets its tokens out.
                gevent.sleep(max(0.0, (due_ns - time.monotonic_ns()) / 1e9))
            self._changed.clear()
