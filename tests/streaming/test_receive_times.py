"""The kernel's receive times, on the clock of the records."""

from __future__ import annotations

import socket
import struct
import time

import pytest

from llm_locust.records import Clock
from llm_locust.streaming.receive_times import SO_TIMESTAMPNS, ReceiveTimes

ANCHOR_NS = 5_000_000_000
MONOTONIC_NS = 1_000_000_000


def stamp(t_ns: int) -> list[tuple[int, int, bytes]]:
    return [(socket.SOL_SOCKET, SO_TIMESTAMPNS, struct.pack("@qq", *divmod(t_ns, 1_000_000_000)))]


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The wall clock's nanoseconds, in a list that a test may change; the monotonic clock stands still."""
    now = [ANCHOR_NS + MONOTONIC_NS]
    monkeypatch.setattr(time, "time_ns", lambda: now[0])
    monkeypatch.setattr(time, "monotonic_ns", lambda: MONOTONIC_NS)
    return now


def test_a_stamp_is_the_time_and_the_lag_is_known(wall: list[int]) -> None:
    times = ReceiveTimes(Clock())
    assert times.of(stamp(wall[0] - 40_000)) == (wall[0] - 40_000, 40_000)


def test_a_stamp_keeps_its_place_when_the_wall_clock_was_stepped_long_before(wall: list[int]) -> None:
    times = ReceiveTimes(Clock())
    wall[0] += 3_600_000_000_000
    assert times.of(stamp(wall[0] - 40_000)) == (ANCHOR_NS + MONOTONIC_NS - 40_000, 40_000)


def test_a_wake_that_sees_the_wall_clock_step_takes_user_time_once(wall: list[int]) -> None:
    times = ReceiveTimes(Clock())
    times.of(stamp(wall[0]))
    wall[0] += 1_000_001
    assert times.of(stamp(wall[0] - 40_000)) == (ANCHOR_NS + MONOTONIC_NS, None)
    assert times.of(stamp(wall[0] - 40_000)) == (ANCHOR_NS + MONOTONIC_NS - 40_000, 40_000)
    assert times.clock_steps == 1


def test_being_put_aside_between_the_readings_of_two_clocks_is_no_step(
    wall: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = ReceiveTimes(Clock())
    times.of(stamp(wall[0]))
    readings = [wall[0] - 5_000_000, wall[0]]
    monkeypatch.setattr(time, "time_ns", lambda: readings.pop(0) if len(readings) > 1 else readings[0])
    assert times.of(stamp(wall[0] - 40_000)) == (wall[0] - 40_000, 40_000)
    assert times.of(stamp(wall[0] - 40_000)) == (wall[0] - 40_000, 40_000)
    assert times.clock_steps == 0


def test_one_wake_serves_many_stamps(wall: list[int]) -> None:
    times = ReceiveTimes(Clock())
    wall[0] += 3_600_000_000_000
    assert times.wake() == -3_600_000_000_000


def test_a_stamp_is_never_later_than_its_reading(wall: list[int]) -> None:
    times = ReceiveTimes(Clock())
    assert times.of(stamp(wall[0] + 100)) == (wall[0], 0)


def test_without_a_stamp_it_is_user_time(wall: list[int]) -> None:
    times = ReceiveTimes(Clock())
    assert times.of([]) == times.now() == (wall[0], None)
