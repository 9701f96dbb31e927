"""Who takes part: the roll call before each stage, and each worker's clock against the master's."""

from __future__ import annotations

import time
from collections.abc import Callable

import gevent
from gevent.event import Event

from llm_locust.dispatch.link import LOCAL, Link
from llm_locust.dispatch.messages import Hello, Here, Ping, Pong
from llm_locust.records import Clock, ClockSample

ROLL_CALL_S = 5.0
PINGS = 40
PINGS_S = 3.0
"""A far worker answers fewer in this time; more would only hold the stage up."""


def best_sample(trips: list[tuple[int, int, int]]) -> ClockSample | None:
    """The offset from the round trip with the least delay; ``None`` when there was none.

    Args:
        trips: (master ns at sending, worker ns, master ns at receipt) per answered ping.
    """
    if not trips:
        return None
    sent, worker, received = min(trips, key=lambda trip: trip[2] - trip[0])
    middle = (sent + received) // 2
    return ClockSample(at_ns=middle, offset_ns=worker - middle, uncertainty_ns=(received - sent + 1) // 2)


class Roster:
    """The master's view of its workers."""

    def __init__(self, link: Link, clock: Clock) -> None:
        self._link = link
        self._clock = clock
        self._call = 0
        self._present: dict[str, Here] = {}
        self._arrived = Event()
        self._serial = 0
        self._pongs: dict[int, tuple[int, int]] = {}
        self._answered: dict[int, Event] = {}
        link.on(Here, self._on_here)
        link.on(Pong, self._on_pong)

    def call(self) -> dict[str, Here]:
        """The workers that answer now, by client id, in the order of their indices.

        ``clients.ready`` is empty from the second stage on, so who answers counts, not what state Locust thinks it is in.
        """
        self._call += 1
        self._present = {}
        self._link.send(Hello(roll_call=self._call))
        give_up = time.monotonic() + ROLL_CALL_S
        while not set(self._link.clients()) <= set(self._present) and time.monotonic() < give_up:
            self._arrived.clear()
            self._arrived.wait(0.1)
        return dict(sorted(self._present.items(), key=lambda item: item[1].worker))

    def clock_sample(self, client_id: str) -> ClockSample | None:
        """This worker's clock now: the best of a series of pings; ``None`` when it does not answer."""
        if client_id == LOCAL:
            return ClockSample(at_ns=self._clock.now_ns(), offset_ns=0, uncertainty_ns=0)
        trips: list[tuple[int, int, int]] = []
        enough = time.monotonic() + PINGS_S
        for _ in range(PINGS):
            if trips and time.monotonic() > enough:
                break
            self._serial += 1
            serial = self._serial
            answered = self._answered[serial] = Event()
            sent = self._clock.now_ns()
            self._link.send(Ping(serial=serial), client_id)
            if not answered.wait(1.0):
                self._answered.pop(serial, None)
                break
            worker, received = self._pongs.pop(serial)
            trips.append((sent, worker, received))
        return best_sample(trips)

    def _on_here(self, here: Here, client_id: str) -> None:
        if here.roll_call == self._call:
            self._present[client_id] = here
            self._arrived.set()

    def _on_pong(self, pong: Pong, _client_id: str) -> None:
        received = self._clock.now_ns()
        if (answered := self._answered.pop(pong.serial, None)) is not None:
            self._pongs[pong.serial] = (pong.worker_ns, received)
            answered.set()


def in_parallel(calls: dict[str, Callable[[], ClockSample | None]]) -> dict[str, ClockSample | None]:
    """Run the calls at once and return their results by key."""
    greenlets = {key: gevent.spawn(call) for key, call in calls.items()}
    gevent.joinall(list(greenlets.values()))
    return {key: greenlet.value for key, greenlet in greenlets.items()}
