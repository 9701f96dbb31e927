"""A stage's own closed loop: so many in flight at all times, so many measured, and every worker its share of both."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import gevent
import msgspec
import pytest

from llm_locust.dispatch.messages import PrepareStage
from llm_locust.records import RequestRecord
from llm_locust.records.run import UserChoice
from llm_locust.workload import PromptsFile
from tests.dispatch.fakes import Bench, Builder, loops


def answer_all(bench: Bench) -> None:
    """Answer requests one at a time, the oldest first, until the stage is over."""
    place = 0
    while not bench.stage.over.is_set():
        if place < len(bench.server.waiting):
            bench.server.answer(place)
            place += 1
        gevent.sleep(0.001)


def phases(bench: Bench) -> Counter[str]:
    return Counter(record.phase for record in bench.rows.terminal)


@pytest.mark.parametrize("concurrency", [1, 3, 8])
def test_so_many_are_in_flight_and_each_end_lets_one_more_go(concurrency: int) -> None:
    bench = Bench(loops(concurrency, requests=5 * concurrency))
    bench.start()
    for ended in range(4 * concurrency):
        bench.server.await_requests(concurrency + ended)
        gevent.sleep(0.002)
        assert len(bench.server.waiting) == concurrency + ended
        assert bench.stage.in_flight == concurrency
        bench.server.answer(ended)
    bench.server.await_requests(5 * concurrency)
    for place in range(4 * concurrency, 5 * concurrency):
        bench.server.answer(place)
    bench.await_over()
    assert len(bench.rows.terminal) == 5 * concurrency


def test_n_requests_are_measured_and_shared_out_over_the_loops() -> None:
    bench = Bench(loops(3, requests=7), at_once=True)
    assert bench.stage.batch_left == 7
    bench.start()
    bench.await_over()
    assert phases(bench) == {"measure": 7}
    assert bench.stage.batch_left == 0
    assert len(bench.outcomes()) == 7
    assert {record.planned_ns for record in bench.rows.terminal} == {None}


def test_a_loop_without_a_share_of_the_requests_makes_none() -> None:
    bench = Bench(loops(4, requests=2), at_once=True)
    bench.start()
    bench.await_over()
    assert len(bench.rows.terminal) == 2


@pytest.mark.parametrize(("concurrency", "requests"), [(8, 24), (7, 20), (3, 10), (1, 5)])
@pytest.mark.parametrize("of", [1, 2, 4])
def test_the_workers_shares_of_loops_and_requests_add_up(concurrency: int, requests: int, of: int) -> None:
    in_flight, measured, indices, prompts = 0, 0, set(), set()
    for rank in range(of):
        bench = Bench(loops(concurrency, requests=requests, first_index=3000), rank=rank, of=of, stride=1000)
        bench.start()
        mine = len(range(rank, concurrency, of))
        bench.server.await_requests(mine)
        assert bench.stage.in_flight == mine
        in_flight += bench.stage.in_flight
        answer_all(bench)
        measured += phases(bench)["measure"]
        indices |= set(bench.outcomes())
        prompts |= {record.prompt_index for record in bench.rows.terminal}
    assert (in_flight, measured) == (concurrency, requests)
    assert len(indices) == requests  # unique over all workers
    assert len(prompts) == requests


def test_a_worker_without_a_loop_is_over_at_once() -> None:
    bench = Bench(loops(2, requests=4), rank=2, of=3)
    bench.start()
    assert bench.stage.over.is_set()
    assert bench.rows.terminal == []


def test_a_file_of_prompts_is_gone_through_by_all_workers_together(tmp_path: Path) -> None:
    """Indices of one worker are a thousand apart; its prompts must not be: a hundred prompts would shrink to one."""
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"{k}"}) + "\n" for k in range(10)))
    taken: list[int] = []
    for rank in range(2):
        builder = Builder()
        bench = Bench(
            loops(2, requests=20), rank=rank, of=2, stride=1000, builder=builder, at_once=True,
            prompts=PromptsFile(str(path), 8),
        )  # fmt: skip
        builder.prompts.clear()  # the trial before load
        bench.start()
        bench.await_over()
        taken += builder.prompts
        assert [row.prompt_index for row in bench.rows.issued] == builder.prompts
    assert Counter(taken) == dict.fromkeys(range(10), 2)


def test_every_request_is_written_down_before_it_is_sent() -> None:
    bench = Bench(loops(2, requests=4))
    bench.start()
    bench.server.await_requests(2)
    assert sorted(row.index for row in bench.rows.issued) == [0, 1]
    answer_all(bench)
    issued = {row.index: (row.phase, row.prompt_index, row.user) for row in bench.rows.issued}
    assert issued == {r.index: (r.phase, r.prompt_index, r.user) for r in bench.rows.terminal}


# --- time ----------------------------------------------------------------------------------------------------------


def sent(bench: Bench) -> list[RequestRecord]:
    return sorted(bench.rows.terminal, key=lambda record: record.sent_ns or 0)


def test_a_window_in_time_ends_the_loops_and_what_is_in_flight_goes_on() -> None:
    bench = Bench(loops(2, window_s=0.2))
    bench.start()
    bench.server.await_requests(2)
    gevent.sleep(0.21)
    bench.server.answer(0)
    while len(bench.rows.terminal) < 1:
        gevent.sleep(0.001)
    gevent.sleep(0.005)
    assert len(bench.server.waiting) == 2  # no further request after the window's end
    assert not bench.stage.over.is_set()
    bench.server.answer(1)
    bench.await_over()
    assert phases(bench) == {"measure": 2}


def test_what_is_sent_before_the_window_is_warmup_and_what_is_sent_in_it_is_measured() -> None:
    bench = Bench(loops(1, warmup_s=0.1, window_s=0.1), builder=Builder(takes_s=0.005), at_once=True)
    bench.start()
    bench.await_over()
    window_ns = bench.stage.start_ns + 100_000_000
    assert set(phases(bench)) == {"warmup", "measure"}
    assert all((r.sent_ns or 0) >= window_ns for r in sent(bench) if r.phase == "measure")
    kinds = [record.phase for record in sent(bench)]
    assert kinds == sorted(kinds, reverse=True)  # warm-up first


def test_n_requests_begin_to_count_when_the_warmup_is_over() -> None:
    bench = Bench(loops(2, warmup_s=0.1, requests=6), builder=Builder(takes_s=0.005), at_once=True)
    bench.start()
    bench.await_over()
    assert phases(bench)["measure"] == 6
    assert phases(bench)["warmup"] > 0


def test_loops_wait_for_the_stages_start() -> None:
    bench = Bench(loops(2, requests=2), at_once=True)
    start_ns = bench.clock.now_ns() + 50_000_000
    bench.stage.start(start_ns)
    bench.await_over()
    assert phases(bench) == {"measure": 2}  # not a warm-up of a stage that has none
    assert all((record.sent_ns or 0) >= start_ns for record in bench.rows.terminal)


# --- user classes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", [1, 2])
def test_user_classes_have_their_weights_share_of_the_loops(of: int) -> None:
    users = [UserChoice(name="A", weight=3), UserChoice(name="B", weight=1)]
    found: Counter[str] = Counter()
    for rank in range(of):
        bench = Bench(loops(8, requests=16), rank=rank, of=of, users=users, at_once=True)
        bench.start()
        bench.await_over()
        found += Counter(record.user for record in bench.rows.terminal)
    assert found == {"A": 12, "B": 4}


def test_a_class_of_no_weight_gets_no_loop() -> None:
    users = [UserChoice(name="A", weight=0), UserChoice(name="B", weight=2), UserChoice(name="C", weight=2)]
    bench = Bench(loops(4, requests=4), users=users, at_once=True)
    bench.start()
    bench.await_over()
    assert Counter(record.user for record in bench.rows.terminal) == {"B": 2, "C": 2}


# --- when something goes wrong -------------------------------------------------------------------------------------


def test_a_request_that_cannot_be_made_is_a_row_and_the_loop_goes_on() -> None:
    bench = Bench(loops(1, requests=5), builder=Builder(fails_from=2, fails=2), at_once=True)  # the first was the trial
    bench.start()
    bench.await_over()
    assert list(bench.outcomes().values()) == ["ok", "generator_error", "generator_error", "ok", "ok"]
    assert bench.stage.error == "KeyError: 'no such field'"
    assert len(bench.rows.issued) == 5
    assert (bench.stage.in_flight, bench.stage.making) == (0, 0)


def test_an_end_that_comes_while_loops_queue_for_their_turn_lets_none_of_them_go() -> None:
    bench = Bench(loops(12, requests=120))  # four go at a time
    bench.start()
    bench.server.await_requests(4)
    bench.stage.end_arrivals("stopped")
    begun = len(bench.rows.issued)
    assert begun < 12
    answer_all(bench)
    bench.await_over()
    gevent.sleep(0.005)
    assert len(bench.rows.issued) == begun
    assert len(bench.rows.terminal) == begun


def test_a_stage_that_is_ended_while_a_request_is_being_made_is_over_after_it() -> None:
    bench = Bench(loops(1, requests=3), builder=Builder(takes_s=0.05))
    bench.start()
    while bench.stage.making < 1:
        gevent.sleep(0.001)
    bench.stage.end_arrivals("stopped")
    assert not bench.stage.over.is_set()
    answer_all(bench)
    bench.await_over()
    assert len(bench.rows.terminal) == 1


def test_cancelling_a_loop_leaves_a_row_for_each_request_and_begins_no_other() -> None:
    bench = Bench(loops(3, requests=30))
    bench.start()
    bench.server.await_requests(3)
    bench.stage.cancel()
    bench.await_over()
    gevent.sleep(0.005)
    assert list(bench.outcomes().values()) == ["cancelled"] * 3


def test_an_end_before_the_start_begins_nothing() -> None:
    bench = Bench(loops(2, requests=2))
    bench.stage.start(bench.clock.now_ns() + 3_600_000_000_000)
    bench.stage.end_arrivals("stopped")
    bench.await_over()
    gevent.sleep(0.005)
    assert bench.rows.issued == []


@pytest.mark.parametrize("length", [{"requests": 1000}, {"window_s": 3600.0}])
def test_a_spent_budget_stops_the_loops_instead_of_filling_the_file_with_what_is_not_sent(
    length: dict[str, object],
) -> None:
    bench = Bench(loops(4, **length), at_once=True, max_requests=10)
    bench.start()
    while bench.stage.stop is None:
        gevent.sleep(0.001)
    gevent.sleep(0.05)
    found = Counter(bench.outcomes().values())
    assert found["ok"] == 10
    assert 1 <= found["not_sent"] <= 4  # each loop at most the one that told it
    assert not bench.stage.over.is_set()  # it is for the master to say that the run ends here
    bench.stage.end_arrivals(bench.stage.stop)
    bench.await_over()
    assert Counter(bench.outcomes().values()) == found


def test_progress_tells_the_master_how_far_the_loops_are() -> None:
    bench = Bench(loops(2, requests=6))
    bench.start()
    bench.server.await_requests(2)
    bench.server.answer(0)
    bench.server.await_requests(3)
    report = bench.stage.progress(None, None)
    assert (report.due, report.sent, report.in_flight, report.ok, report.batch_left) == (3, 3, 2, 1, 5)
    answer_all(bench)


def test_the_order_to_prepare_survives_the_wire() -> None:
    order = PrepareStage(spec=loops(2, requests=6), rank=0, of=1)
    assert msgspec.convert(msgspec.to_builtins(order), PrepareStage) == order
