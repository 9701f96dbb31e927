"""Budgets and the circuit breaker, over any number of workers."""

from __future__ import annotations

import pytest

from llm_locust.dispatch.bounds import Bounds, broken_circuit
from llm_locust.dispatch.messages import Progress
from tests.dispatch.fakes import Bench, burst


def report(ok: int, failed: int, streak: int) -> Progress:
    return Progress(
        stage=0, at_ns=0, due=0, sent=ok + failed, in_flight=0, waiting=0, ok=ok, failed=failed, batch_left=0,
        output_tokens=0, failures_in_a_row=streak, last_failure="connect_error: refused" if streak else None, stop=None,
        cpu_percent=None, loop_lag_ms=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reports", "limit", "broken"),
    [
        ([report(0, 20, 20)], 20, True),
        ([report(100, 20, 20)], 20, True),
        ([report(0, 19, 19)], 20, False),
        ([report(5, 12, 12), report(3, 8, 8)], 20, True),
        ([report(0, 30, 30), report(10, 5, 0)], 20, False),  # the other worker's last one was good
        ([report(0, 20, 20), report(0, 0, 0)], 20, True),  # the other has seen no end yet
        ([report(0, 500, 500)], None, False),
        ([], 20, False),
    ],
)
def test_the_circuit_breaks_when_nothing_works_any_more(
    reports: list[Progress], limit: int | None, broken: bool
) -> None:
    why = broken_circuit(reports, limit)
    assert (why is not None) is broken
    assert why is None or "connect_error: refused" in why


def test_what_is_left_of_a_budget_never_falls_below_zero() -> None:
    bounds = Bounds(max_requests=10, max_output_tokens=100)
    left = bounds.left(sent=4, output_tokens=130)
    assert (left.max_requests, left.max_output_tokens) == (6, 0)
    assert Bounds().left(sent=4, output_tokens=130) == Bounds()


def test_a_worker_sends_its_share_of_requests_and_says_that_it_is_used_up() -> None:
    bench = Bench(burst(5), max_requests=3, at_once=True)
    bench.start()
    bench.await_over()
    assert sorted(bench.outcomes().values()) == ["not_sent", "not_sent", "ok", "ok", "ok"]
    assert bench.stage.progress(None, None).stop == "--max-requests is used up"


def test_tokens_are_reserved_before_they_are_generated() -> None:
    """Limit 20, requests of at most 8: two are let out while in flight, though nothing was generated yet."""
    bench = Bench(burst(4), max_output_tokens=20)
    bench.start()
    bench.server.await_requests(2)
    bench.server.answer(0)
    bench.server.answer(1)
    bench.await_over()
    assert sorted(bench.outcomes().values()) == ["not_sent", "not_sent", "ok", "ok"]


def test_a_streak_of_failures_ends_with_a_success() -> None:
    bench = Bench(burst(3), deadline_s=0.05)
    bench.start()
    bench.server.await_requests(3)
    bench.await_over()
    assert bench.stage.failures_in_a_row == 3
    assert bench.stage.last_failure == "timeout: deadline"
    again = Bench(burst(3), at_once=True)
    again.stage.failures_in_a_row = 7
    again.start()
    again.await_over()
    assert again.stage.failures_in_a_row == 0
