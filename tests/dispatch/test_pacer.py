"""Waiting for an instant: never early, woken by an interrupt, and nothing left behind; with a timerfd and without."""

import errno
import os
import select
import time

import gevent
import psutil
import pytest
from gevent.event import Event

from llm_locust.dispatch import pacer as pacer_module
from llm_locust.dispatch.pacer import LibcTimer, Pacer, new_timer

NS_PER_MS = 1_000_000


@pytest.fixture(params=["timerfd", "plain"])
def pacer(request: pytest.FixtureRequest) -> Pacer:
    if request.param == "timerfd" and new_timer() is None:
        pytest.skip("this system has no timerfd")
    return Pacer(plain=request.param == "plain")


def test_it_never_returns_early(pacer: Pacer) -> None:
    for ahead_ms in (0.05, 1, 1.5, 7):
        at_ns = time.monotonic_ns() + int(ahead_ms * NS_PER_MS)
        pacer.wait_until(at_ns, Event())
        assert time.monotonic_ns() >= at_ns
    pacer.close()


def test_an_instant_in_the_past_returns_without_a_switch(pacer: Pacer) -> None:
    ran: list[str] = []
    gevent.spawn(ran.append, "other")
    pacer.wait_until(time.monotonic_ns() - 1, Event())
    pacer.wait_until(0, Event())
    assert ran == []
    pacer.close()


def test_others_run_while_it_waits(pacer: Pacer) -> None:
    ran: list[str] = []
    gevent.spawn(ran.append, "other")
    pacer.wait_until(time.monotonic_ns() + 100 * NS_PER_MS, Event())
    assert ran == ["other"]
    pacer.close()


def test_an_interrupt_ends_the_wait(pacer: Pacer) -> None:
    interrupt = Event()
    waiting = gevent.spawn(pacer.wait_until, time.monotonic_ns() + 3600 * 10**9, interrupt)
    gevent.sleep(0.005)
    assert not waiting.dead
    interrupt.set()
    waiting.join(10)
    assert waiting.successful()
    pacer.close()


def test_an_interrupt_that_was_set_before_needs_no_wait(pacer: Pacer) -> None:
    interrupt = Event()
    interrupt.set()
    ran: list[str] = []
    gevent.spawn(ran.append, "other")
    pacer.wait_until(time.monotonic_ns() + 3600 * 10**9, interrupt)
    assert ran == []
    pacer.close()


def test_an_interrupt_that_was_cleared_in_the_meantime_does_not_end_the_next_wait(pacer: Pacer) -> None:
    interrupt = Event()
    first = gevent.spawn(pacer.wait_until, time.monotonic_ns() + 3600 * 10**9, interrupt)
    gevent.sleep(0)
    interrupt.set()
    first.join(10)
    interrupt.clear()
    at_ns = time.monotonic_ns() + 2 * NS_PER_MS
    pacer.wait_until(at_ns, interrupt)
    assert time.monotonic_ns() >= at_ns
    pacer.close()


def test_a_killed_wait_leaves_a_pacer_that_still_works(pacer: Pacer) -> None:
    interrupt = Event()
    waiting = gevent.spawn(pacer.wait_until, time.monotonic_ns() + 2 * NS_PER_MS, interrupt)
    gevent.sleep(0)
    waiting.kill()
    at_ns = time.monotonic_ns() + 5 * NS_PER_MS  # the killed wait's instant passes meanwhile
    pacer.wait_until(at_ns, interrupt)
    assert time.monotonic_ns() >= at_ns
    pacer.close()


def test_closing_gives_the_descriptor_back(pacer: Pacer) -> None:
    pacer.close()
    before = psutil.Process().num_fds()
    other = Pacer(plain=pacer._alarm is None)
    other.close()
    other.close()
    assert psutil.Process().num_fds() == before


def test_a_closed_pacer_waits_the_plain_way(pacer: Pacer) -> None:
    pacer.close()
    at_ns = time.monotonic_ns() + NS_PER_MS
    pacer.wait_until(at_ns, Event())
    assert time.monotonic_ns() >= at_ns


def test_without_a_timerfd_it_is_plain_unless_a_timerfd_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacer_module, "new_timer", lambda: None)
    Pacer().wait_until(time.monotonic_ns() + NS_PER_MS, Event())
    with pytest.raises(OSError) as refused:
        Pacer(plain=False)
    assert refused.value.errno == errno.ENOSYS


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_systems_have_none(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    monkeypatch.setattr("sys.platform", platform)
    assert new_timer() is None


def test_a_c_library_without_it_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> LibcTimer:
        raise AttributeError("undefined symbol: timerfd_create")

    monkeypatch.setattr("sys.version_info", (3, 11))
    monkeypatch.setattr(pacer_module, "LibcTimer", missing)
    monkeypatch.setattr("sys.platform", "linux")
    assert new_timer() is None


@pytest.mark.skipif(new_timer() is None, reason="this system has no timerfd")
def test_a_timer_through_the_c_library_is_set_to_an_absolute_instant_and_off_again() -> None:
    timer = LibcTimer()
    timer.set(time.monotonic_ns() + 5 * NS_PER_MS)
    assert select.select([timer.descriptor], [], [], 10)[0]
    timer.set(0)
    assert not select.select([timer.descriptor], [], [], 0)[0]
    timer.set(1)  # long past: readable at once
    assert select.select([timer.descriptor], [], [], 10)[0]
    os.close(timer.descriptor)
