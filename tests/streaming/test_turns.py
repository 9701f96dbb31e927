"""Few greenlets a turn of the loop, so that sockets are looked at in between."""

from __future__ import annotations

import os
from typing import Any

import gevent
import pytest
from gevent import socket
from gevent.event import Event

from llm_locust.streaming.turns import Turnstile, give_way


def test_giving_way_lets_a_socket_be_looked_at() -> None:
    here, there = socket.socketpair()
    seen = Event()
    watcher: Any = gevent.get_hub().loop.io(here.fileno(), 1)
    watcher.start(seen.set)
    try:
        there.sendall(b"x")
        give_way()
        give_way()  # in the first turn the timer may have come before the socket
        assert seen.is_set()
    finally:
        watcher.stop()
        watcher.close()
        here.close()
        there.close()


def test_at_most_so_many_pass_in_one_turn_of_the_loop_in_the_order_they_came() -> None:
    turnstile = Turnstile(per_turn=4)
    turns: list[list[int]] = [[]]
    done = Event()

    def begin_turn() -> None:
        turns.append([])

    prepare: Any = gevent.get_hub().loop.prepare()
    prepare.start(begin_turn)
    try:
        for number in range(10):
            turnstile.call(lambda _, number=number: turns[-1].append(number))
        turnstile.call(lambda _: done.set())
        assert len(turnstile) == 11
        done.wait()
    finally:
        prepare.stop()
        prepare.close()
    assert [passed for passed in turns if passed] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(turnstile) == 0


def test_greenlets_pass_in_order_and_one_that_was_killed_holds_up_nobody() -> None:
    turnstile = Turnstile(per_turn=1)
    passed: list[int] = []

    def walk(number: int) -> None:
        turnstile.wait()
        passed.append(number)

    walkers = [gevent.spawn(walk, number) for number in range(5)]
    gevent.sleep(0)  # all stand in the queue
    walkers[1].kill()
    gevent.joinall(walkers)
    assert passed == [0, 2, 3, 4]


def test_it_can_be_used_again_after_it_was_empty() -> None:
    turnstile = Turnstile()
    turnstile.wait()
    turnstile.wait()
    assert len(turnstile) == 0


def test_a_forked_process_has_a_queue_and_a_timer_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    turnstile = Turnstile()
    turnstile.call(lambda _: None)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    called = Event()
    turnstile.call(lambda _: called.set())
    assert len(turnstile) == 1
    called.wait()
