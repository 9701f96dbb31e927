"""How long a model stays: what a request may say of it, and the engine's weights coming and going on paper."""

from __future__ import annotations

import pytest

from llm_locust.simulator.engine import Engine
from llm_locust.simulator.keep_alive import FOREVER_NS, parse_keep_alive
from tests.simulator.test_engine import MS, engine, job, times_ms

S = 1000 * MS


@pytest.mark.parametrize(
    ("said", "nanoseconds"),
    [
        (None, None),
        (0, 0),
        ("0", 0),
        ("0s", 0),
        (5, 5 * S),
        (0.25, 250 * MS),
        ("5m", 300 * S),
        ("1h30m", 5400 * S),
        ("1.5s", 1500 * MS),
        ("300ms", 300 * MS),
        (-1, FOREVER_NS),
        ("-1m", FOREVER_NS),
        ("999999999h", FOREVER_NS),
        ("9" * 400 + "h", FOREVER_NS),
    ],
)
def test_numbers_are_seconds_and_texts_durations(said: object, nanoseconds: int | None) -> None:
    assert parse_keep_alive(said) == nanoseconds


@pytest.mark.parametrize("said", ["", "5", "-1", "m", "5 m", "5d", "soon", True, [], {}])
def test_what_is_no_duration_is_refused(said: object) -> None:
    with pytest.raises(ValueError, match="keep_alive"):
        parse_keep_alive(said)


def loading(**changes: object) -> Engine:
    """One second of load, 5 ms of prefill for the jobs below and 10 ms a token."""
    return engine(load_ns=1 * S, **changes)


def keeping(keep_ns: int | None, salt: int = 0):  # type: ignore[no-untyped-def]
    made = job(5, 2, salt=salt)
    made.keep_ns = keep_ns
    return made


def test_weights_that_are_to_go_go_with_the_last_request_and_the_next_pays_for_them() -> None:
    machine, first, second = loading(), keeping(0), keeping(None, salt=1)
    machine.submit(first, 0)
    assert times_ms(machine.advance(1025 * MS), first) == [1015, 1025]
    assert machine.loaded_ns is None
    machine.submit(second, 2 * S)
    assert times_ms(machine.advance(10 * S), second) == [3015, 3025]
    assert (first.load_wait_ns, second.load_wait_ns) == (1 * S, 1 * S)
    assert machine.loaded_ns == 3 * S  # the wish went with the weights
    assert machine.next_ns is None


def test_who_comes_before_they_are_gone_keeps_them_and_the_wish() -> None:
    machine, first, second = loading(), keeping(0), keeping(None, salt=1)
    machine.submit(first, 0)
    machine.submit(second, 1020 * MS)
    machine.advance(1025 * MS)
    assert machine.loaded_ns == 1 * S
    machine.advance(10 * S)
    assert (first.load_wait_ns, second.load_wait_ns) == (1 * S, 0)
    assert machine.loaded_ns is None


def test_who_comes_during_the_load_waits_for_the_rest_of_it() -> None:
    machine, first, second = loading(), keeping(None), keeping(None, salt=1)
    machine.submit(first, 0)
    machine.submit(second, 700 * MS)
    machine.advance(10 * S)
    assert (first.load_wait_ns, second.load_wait_ns) == (1 * S, 300 * MS)


def test_a_later_wish_overrules() -> None:
    machine = loading()
    machine.submit(keeping(0), 0)
    machine.submit(keeping(FOREVER_NS, salt=1), 1 * S)
    machine.advance(10 * S)
    assert machine.loaded_ns == 1 * S
    assert machine.expires_ns is not None
    assert machine.expires_ns > 100 * 365 * 86_400 * S


def test_an_idle_time_counts_from_the_last_token() -> None:
    machine = loading()
    machine.submit(keeping(2 * S), 0)
    machine.advance(1025 * MS)
    assert machine.expires_ns == 3025 * MS
    machine.advance(3025 * MS - 1)
    assert machine.loaded_ns == 1 * S
    machine.advance(3025 * MS)
    assert (machine.loaded_ns, machine.expires_ns) == (None, None)


def test_work_stops_the_idle_time() -> None:
    machine = loading()
    machine.submit(keeping(2 * S), 0)
    second = keeping(None, salt=1)
    machine.submit(second, 3 * S)
    machine.advance(3020 * MS)
    assert machine.expires_ns is None
    machine.advance(4 * S)
    assert second.load_wait_ns == 0
    assert machine.expires_ns == 5025 * MS


def test_who_leaves_takes_the_weights_along_if_they_were_to_go() -> None:
    machine, only = loading(), keeping(0)
    machine.submit(only, 0)
    machine.advance(1016 * MS)
    machine.abort(only, 1017 * MS)
    machine.advance(1025 * MS)  # the step under way keeps its length
    assert machine.loaded_ns is None


def test_an_idle_engine_unloads_at_once_and_has_forgotten_its_prefixes() -> None:
    machine = loading(prefix_caching=True)
    machine.submit(job(9, 1), 0)
    machine.advance(2 * S)
    again = job(9, 1)
    machine.submit(again, 2 * S)
    machine.advance(3 * S)
    assert again.cached_tokens == 8
    machine.unload(3 * S)
    assert machine.loaded_ns is None
    late = job(9, 1)
    machine.submit(late, 4 * S)
    machine.advance(10 * S)
    assert (late.cached_tokens, late.load_wait_ns) == (0, 1 * S)
    assert machine.loaded_ns == 5 * S


def test_a_busy_engine_unloads_when_its_requests_have_ended() -> None:
    machine, first = loading(), keeping(FOREVER_NS)
    machine.submit(first, 0)
    machine.unload(500 * MS)
    assert machine.loaded_ns == 1 * S
    assert times_ms(machine.advance(1025 * MS), first) == [1015, 1025]
    assert machine.loaded_ns is None


def test_unloading_what_is_not_loaded_leaves_no_wish_behind() -> None:
    machine = loading()
    machine.unload(0)
    machine.submit(keeping(None), 0)
    machine.advance(10 * S)
    assert machine.loaded_ns == 1 * S


def test_a_load_without_a_request_keeps_to_its_idle_time() -> None:
    machine = loading()
    assert machine.preload(0, keep_ns=2 * S) == 1 * S
    assert machine.expires_ns == 3 * S
    machine.unload(500 * MS)  # asked for while it loads: it goes as soon as it is there
    machine.advance(1 * S)
    assert machine.loaded_ns is None
