"""A worker's clock is measured by a series of pings; a far worker does not hold the stage up with all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from llm_locust.dispatch import roster
from llm_locust.dispatch.messages import Ping, Pong
from llm_locust.dispatch.roster import PINGS, Roster
from llm_locust.records import Clock


class Line:
    """A line to one worker that answers each ping at once, with a clock two seconds ahead."""

    def __init__(self, clock: Clock) -> None:
        self.pings = 0
        self._clock = clock
        self._receive: dict[type[Any], Callable[[Any, str], None]] = {}

    def on(self, payload_type: type[Any], receive: Callable[[Any, str], None]) -> None:
        self._receive[payload_type] = receive

    def send(self, payload: msgspec.Struct, client_id: str | None = None) -> None:
        assert isinstance(payload, Ping)
        self.pings += 1
        pong = Pong(serial=payload.serial, worker_ns=self._clock.now_ns() + 2_000_000_000)
        self._receive[Pong](pong, client_id or "")


@pytest.mark.parametrize(("seconds", "pings"), [(3600.0, PINGS), (0.0, 1)])
def test_a_clock_is_measured_by_as_many_pings_as_there_is_time_for(
    monkeypatch: pytest.MonkeyPatch, seconds: float, pings: int
) -> None:
    monkeypatch.setattr(roster, "PINGS_S", seconds)
    clock = Clock()
    line = Line(clock)
    sample = Roster(line, clock).clock_sample("worker")  # type: ignore[arg-type]
    assert line.pings == pings
    assert sample is not None
    assert abs(sample.offset_ns - 2_000_000_000) <= sample.uncertainty_ns
