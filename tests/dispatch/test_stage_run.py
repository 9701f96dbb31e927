"""A stage on a worker: arrivals are open, every one that was due gets exactly one row, and a cap is a wait on record."""

import gevent
import pytest

from llm_locust.dispatch.worker_run import share
from llm_locust.records import RequestRecord, UsageError
from tests.dispatch.fakes import Bench, Builder, Evicting, burst


def by_index(bench: Bench) -> list[RequestRecord]:
    return sorted(bench.rows.terminal, key=lambda record: record.index)


def test_arrivals_do_not_wait_for_completions() -> None:
    bench = Bench(burst(20))
    bench.start()
    bench.server.await_requests(20)  # not one reply has been given
    assert bench.stage.in_flight == 20
    for place in range(20):
        bench.server.answer(place)
    bench.await_over()
    assert bench.outcomes() == dict.fromkeys(range(20), "ok")


def test_planned_times_are_the_plans_own_whatever_happened_before() -> None:
    bench = Bench(burst(3), at_once=True)
    bench.start()
    bench.await_over()
    start = bench.stage.start_ns
    assert [record.planned_ns for record in by_index(bench)] == [start, start + 1_000_000, start + 2_000_000]
    for record in by_index(bench):
        assert record.planned_ns is not None
        assert record.dispatched_ns is not None
        assert record.sent_ns is not None
        assert record.planned_ns <= record.dispatched_ns <= record.sent_ns


@pytest.mark.parametrize("of", [1, 2, 3])
def test_the_workers_take_every_arrival_exactly_once(of: int) -> None:
    indices: list[int] = []
    for rank in range(of):
        bench = Bench(burst(10, first_index=100), rank=rank, of=of, at_once=True)
        bench.start()
        bench.await_over()
        indices += bench.outcomes()
    assert sorted(indices) == list(range(100, 110))


def test_every_one_of_any_number_of_workers_makes_the_same_plan() -> None:
    spec = burst(10, arrivals="poisson")
    plans = [Bench(spec, rank=rank, of=of).stage.plan for of in (1, 2, 4, 8) for rank in range(of)]
    assert len({plan.sha256 for plan in plans if plan is not None}) == 1


def test_a_cap_holds_arrivals_back_in_order_and_the_wait_is_on_record() -> None:
    bench = Bench(burst(3), cap=1)
    bench.start()
    bench.server.await_requests(1)
    while bench.stage.taken < 3:
        gevent.sleep(0.001)
    assert len(bench.server.waiting) == 1
    for place in range(3):
        bench.server.answer(place)
        if place < 2:
            bench.server.await_requests(place + 2)
    bench.await_over()
    first, second, third = by_index(bench)
    assert [request.body for request, _ in bench.server.waiting] == [b"run.0", b"run.1", b"run.2"]
    assert second.sent_ns is not None
    assert third.sent_ns is not None
    assert second.sent_ns >= (first.end_ns or 0)
    assert third.sent_ns >= (second.end_ns or 0)


def test_the_cap_of_a_run_is_split_over_the_workers_without_losing_a_place() -> None:
    assert [share(8, rank, 3) for rank in range(3)] == [3, 3, 2]
    assert share(None, 0, 3) is None


def test_an_arrival_held_back_past_the_deadline_is_not_sent() -> None:
    bench = Bench(burst(3), cap=1, deadline_s=0.05)
    bench.start()
    bench.await_over()  # the first times out at its deadline; the others have then waited longer than theirs
    assert bench.outcomes()[0] == "timeout"
    assert set(bench.outcomes()) == {0, 1, 2}
    assert "not_sent" in bench.outcomes().values()
    assert all(record.end_ns is not None for record in bench.rows.terminal)


def test_an_interrupt_accounts_for_every_planned_arrival_and_lets_the_flying_ones_land() -> None:
    bench = Bench(burst(2, rate_rps=1.0, window_s=3600.0, cooldown_s=10.0))
    bench.start()
    bench.server.await_requests(1)
    bench.stage.end_arrivals("stopped")
    assert not bench.stage.over.is_set()  # one is still in flight
    bench.server.answer(0)
    bench.await_over()
    outcomes = bench.outcomes()
    assert outcomes.pop(0) == "ok"
    assert outcomes == dict.fromkeys(range(1, 3600), "not_sent")
    assert bench.stage.taken == 3600  # the ten cool-down arrivals never came due
    assert {record.error for record in by_index(bench)[1:]} == {"stopped"}


def test_the_regular_end_of_a_cooldown_withdraws_what_was_not_due_yet() -> None:
    bench = Bench(burst(1, rate_rps=1.0, window_s=1.0, cooldown_s=3600.0), at_once=True)
    bench.start()
    bench.server.await_requests(1)
    bench.stage.end_arrivals(None)
    bench.await_over()
    assert bench.outcomes() == {0: "ok"}


def test_the_regular_end_finds_a_worker_that_was_stopped_and_what_was_due_still_goes_out_late() -> None:
    bench = Bench(burst(3), at_once=True)
    bench.stage.start(bench.clock.now_ns() - 10_000_000_000)
    bench.stage.end_arrivals(None)  # before the first is taken up
    bench.await_over()
    assert bench.outcomes() == {0: "ok", 1: "ok", 2: "ok"}
    for record in bench.rows.terminal:
        assert record.planned_ns is not None
        assert record.dispatched_ns is not None
        assert record.dispatched_ns - record.planned_ns > 9_000_000_000


def test_an_interrupt_that_finds_a_worker_late_sends_nothing_more() -> None:
    bench = Bench(burst(3), at_once=True)
    bench.stage.start(bench.clock.now_ns() - 10_000_000_000)
    bench.stage.end_arrivals(None)
    bench.stage.end_arrivals("stopped")
    bench.await_over()
    assert bench.outcomes() == {0: "not_sent", 1: "not_sent", 2: "not_sent"}


def test_no_arrival_of_the_window_is_without_a_row_even_if_the_end_comes_before_it_was_due() -> None:
    bench = Bench(burst(3, rate_rps=1.0, window_s=3.0), at_once=True)
    bench.start()
    bench.server.await_requests(1)
    bench.stage.end_arrivals(None)
    bench.await_over()
    assert bench.outcomes() == {0: "ok", 1: "not_sent", 2: "not_sent"}


def test_cancelling_ends_everything_at_once_and_loses_no_row() -> None:
    bench = Bench(burst(4), cap=2)
    bench.start()
    bench.server.await_requests(2)
    while bench.stage.taken < 4:
        gevent.sleep(0.001)
    bench.stage.cancel()
    bench.await_over()
    assert bench.outcomes() == {0: "cancelled", 1: "cancelled", 2: "not_sent", 3: "not_sent"}


def test_an_interrupt_sends_nothing_that_a_cap_holds_back() -> None:
    bench = Bench(burst(3), cap=1)
    bench.start()
    bench.server.await_requests(1)
    while bench.stage.taken < 3:
        gevent.sleep(0.001)
    bench.stage.end_arrivals("stopped")
    bench.server.answer(0)
    bench.await_over()
    assert bench.outcomes() == {0: "ok", 1: "not_sent", 2: "not_sent"}


def test_an_error_in_the_users_own_request_is_ours_and_not_the_servers() -> None:
    bench = Bench(burst(2), builder=Builder(fails_from=2), at_once=True)  # the first was the trial before load
    bench.start()
    bench.await_over()
    assert sorted(bench.outcomes().values()) == ["generator_error", "ok"]
    assert bench.stage.error == "KeyError: 'no such field'"


def test_time_taken_to_make_a_request_is_the_generators_lateness_and_no_cap_wait() -> None:
    bench = Bench(burst(3), builder=Builder(takes_s=0.05), at_once=True)
    bench.start()
    bench.await_over()
    for record in bench.rows.terminal:
        assert record.dispatched_ns is not None
        assert record.planned_ns is not None
        assert record.sent_ns is not None
        assert record.dispatched_ns - record.planned_ns >= 50_000_000
        assert record.sent_ns - record.dispatched_ns < 50_000_000


def test_a_request_that_cannot_be_built_at_all_fails_before_load() -> None:
    with pytest.raises(KeyError):
        Bench(burst(2), builder=Builder(fails_from=0))


def test_every_record_is_observed_once() -> None:
    bench = Bench(burst(5), at_once=True)
    bench.start()
    bench.await_over()
    assert sorted(record.index for record in bench.observed) == [0, 1, 2, 3, 4]


def test_a_closed_loop_sends_the_next_when_the_last_has_ended_and_writes_it_down_first() -> None:
    bench = Bench(burst(1, mode="closed", rate_rps=None, concurrency=1, window_s=None))
    bench.start()
    bench.stage.open_window(bench.clock.now_ns())
    turns = gevent.spawn(lambda: [bench.stage.turn(bench.builder, "U") for _ in range(2)])
    bench.server.await_requests(1)
    assert [row.index for row in bench.rows.issued] == [0]
    bench.server.answer(0)
    bench.server.await_requests(2)
    bench.stage.end_arrivals("stopped")
    bench.server.answer(1)
    turns.join(5)
    bench.await_over()
    assert bench.outcomes() == {0: "ok", 1: "ok"}
    assert {record.phase for record in bench.rows.terminal} == {"measure"}
    assert {record.planned_ns for record in bench.rows.terminal} == {None}


def test_a_closed_loop_user_that_locust_removes_leaves_its_request_to_end() -> None:
    bench = Bench(burst(1, mode="closed", rate_rps=None, concurrency=1, window_s=None))
    bench.start()
    user = gevent.spawn(bench.stage.turn, bench.builder, "U")
    bench.server.await_requests(1)
    user.kill()
    assert bench.rows.terminal == []
    bench.server.answer(0)
    bench.stage.end_arrivals("stopped")
    bench.await_over()
    assert bench.outcomes() == {0: "ok"}


def test_a_stage_is_over_only_when_the_last_request_has_been_made_and_has_ended() -> None:
    bench = Bench(burst(1), builder=Builder(takes_s=0.05))
    bench.start()
    while bench.stage.taken < 1:
        gevent.sleep(0.001)
    bench.stage.end_arrivals(None)  # the dispatcher is done, and the only request is still being made
    assert bench.stage.making == 1
    assert not bench.stage.over.is_set()
    bench.server.await_requests(1)
    assert not bench.stage.over.is_set()
    bench.server.answer(0)
    bench.await_over()
    assert bench.outcomes() == {0: "ok"}


def test_an_arrival_still_being_made_when_somebody_stops_the_run_is_not_sent() -> None:
    bench = Bench(burst(1), builder=Builder(takes_s=0.05))
    bench.start()
    while bench.stage.taken < 1:
        gevent.sleep(0.001)
    bench.stage.end_arrivals("stopped")
    bench.await_over()
    assert bench.outcomes() == {0: "not_sent"}
    assert bench.server.waiting == []


def test_the_batch_counts_down_by_measured_outcomes_alone() -> None:
    bench = Bench(burst(2, warmup_s=0.002, cooldown_s=0.002))  # two arrivals in each phase
    assert bench.stage.batch_left == 2
    bench.start()
    bench.server.await_requests(6)
    left = []
    for place in range(6):
        bench.server.answer(place)
        while len(bench.rows.terminal) <= place:
            gevent.sleep(0.001)
        left.append(bench.stage.batch_left)
    assert left == [2, 2, 1, 0, 0, 0]
    bench.stage.end_arrivals(None)
    bench.await_over()


def test_prompts_are_those_of_the_plan() -> None:
    bench = Bench(burst(3, first_index=50, prompts_from=7000), at_once=True)
    bench.start()
    bench.await_over()
    assert [(record.index, record.prompt_index) for record in by_index(bench)] == [(50, 7000), (51, 7001), (52, 7002)]


# --- budgets -------------------------------------------------------------------------------------------------------


def test_a_spent_budget_of_requests_ends_the_others_unsent_and_asks_the_master_to_stop() -> None:
    bench = Bench(burst(5), at_once=True, max_requests=2)
    bench.start()
    bench.await_over()
    assert sorted(bench.outcomes().values()) == ["not_sent", "not_sent", "not_sent", "ok", "ok"]
    assert bench.stage.stop == "--max-requests is used up"
    assert bench.stage.sent == 2


def test_tokens_that_may_still_come_are_reserved() -> None:
    bench = Bench(burst(4), max_output_tokens=20)  # prompts of 8 tokens: two fit, a third does not
    bench.start()
    while len(bench.rows.terminal) < 2:
        gevent.sleep(0.001)
    assert len(bench.server.waiting) == 2
    for place in range(2):
        bench.server.answer(place)
    bench.await_over()
    assert sorted(bench.outcomes().values()) == ["not_sent", "not_sent", "ok", "ok"]
    assert bench.stage.stop == "--max-output-tokens is used up"


# --- cold arrivals -------------------------------------------------------------------------------------------------


def test_the_arrival_before_a_cold_one_has_the_model_unloaded_on_whichever_worker_it_is() -> None:
    spec = burst(40, cold_share=0.3)
    asked: set[str] = set()
    for rank in range(2):
        builder = Evicting()
        bench = Bench(spec, rank=rank, of=2, builder=builder, at_once=True)
        builder.evicting.clear()  # the trial before load
        bench.start()
        bench.await_over()
        asked |= set(builder.evicting)
    assert bench.stage.plan is not None
    assert bench.stage.plan.cold is not None
    cold = [place for place, is_cold in enumerate(bench.stage.plan.cold.tolist()) if is_cold]
    assert asked == {f"run.{place - 1}" for place in cold if place > 0}
    assert 0 < len(asked) < 39


def test_a_user_class_that_cannot_have_the_model_unloaded_is_refused_before_load() -> None:
    with pytest.raises(UsageError, match="--cold-share: Builder cannot have the model unloaded"):
        Bench(burst(2, cold_share=0.5))


def test_a_request_of_ones_own_that_knows_nothing_of_unloading_fails_before_load() -> None:
    class Own(Builder):
        can_evict = True

    with pytest.raises(TypeError, match="evict_after"):
        Bench(burst(2, cold_share=0.5), builder=Own())
