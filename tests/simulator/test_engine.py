"""Continuous batching on paper: every time below is worked out by hand from the rules in the engine's docstring."""

from __future__ import annotations

import random

import pytest

from llm_locust.simulator.engine import Engine, EngineConfig, Job

MS = 1_000_000


def engine(**changes: object) -> Engine:
    """Two slots, one millisecond per prompt token, ten per step, and memory to spare."""
    settings: dict[str, object] = {"slots": 2, "prefill_tps": 1000, "decode_ms": 10, "kv_blocks": 1000, "block_size": 4}
    return Engine(EngineConfig(**(settings | changes)))  # type: ignore[arg-type]


def job(prompt: int, reply: int, *, salt: int = 0) -> Job:
    """``prompt`` and ``reply`` tokens; jobs of different salt share no prefix."""
    base = salt * 1_000_000
    return Job(range(base, base + prompt), range(base + prompt, base + prompt + reply))


def times_ms(tokens: list, of: Job) -> list[float]:
    return [token.at_ns / MS for token in tokens if token.job is of]


def test_one_request_alone_has_its_first_token_after_its_prefill_and_one_step_and_then_one_each_step() -> None:
    machine, alone = engine(), job(5, 3)
    assert machine.submit(alone, 0)
    said = machine.advance(1000 * MS)
    assert times_ms(said, alone) == [15, 25, 35]
    assert [token.position for token in said] == [0, 1, 2]
    assert [token.gap_ns for token in said] == [None, 10 * MS, 10 * MS]
    assert [token.is_last for token in said] == [False, False, True]
    assert (alone.admitted_ns, alone.first_ns, alone.last_ns, alone.over) == (0, 15 * MS, 35 * MS, True)
    assert machine.next_ns is None
    assert machine.totals.prompt_tokens == 5
    assert machine.totals.generation_tokens == 3
    assert machine.totals.finished == {"length": 1}


def test_nothing_is_said_before_its_time() -> None:
    machine, alone = engine(), job(5, 1)
    machine.submit(alone, 0)
    assert machine.advance(15 * MS - 1) == []
    assert machine.next_ns == 15 * MS
    assert times_ms(machine.advance(15 * MS), alone) == [15]


def test_a_second_request_waits_for_the_only_slot() -> None:
    machine, first, second = engine(slots=1), job(5, 2), job(5, 2, salt=1)
    machine.submit(first, 0)
    machine.submit(second, 0)
    said = machine.advance(20 * MS)
    assert (machine.running, machine.waiting) == (1, 1)
    said += machine.advance(1000 * MS)
    assert times_ms(said, first) == [15, 25]
    assert second.admitted_ns == 25 * MS
    assert times_ms(said, second) == [40, 50]
    assert (machine.running, machine.waiting) == (0, 0)


def test_a_batch_shares_the_prefill_and_slows_each_step() -> None:
    machine, first, second = engine(batch_slowdown=0.5), job(5, 2), job(5, 3, salt=1)
    machine.submit(first, 0)
    machine.submit(second, 0)
    said = machine.advance(1000 * MS)
    # 5 + 5 ms of prefill and 10 * 1.5 of decode; a step of two; a step of one.
    assert times_ms(said, first) == [25, 40]
    assert times_ms(said, second) == [25, 40, 50]


def test_what_arrives_during_a_step_waits_for_its_end_and_holds_everybody_up_by_its_prefill() -> None:
    machine, first, second = engine(), job(5, 3), job(20, 1, salt=1)
    machine.submit(first, 0)
    machine.submit(second, 1 * MS)
    said = machine.advance(1000 * MS)
    assert second.admitted_ns == 15 * MS
    assert times_ms(said, first) == [15, 45, 55]
    assert times_ms(said, second) == [45]


def test_an_idle_engine_starts_at_the_arrival() -> None:
    machine, first, second = engine(), job(5, 1), job(5, 1, salt=1)
    machine.submit(first, 100 * MS)
    machine.submit(second, 200 * MS)
    said = machine.advance(1000 * MS)
    assert times_ms(said, first) == [115]
    assert times_ms(said, second) == [215]


def test_an_engine_asked_late_gives_the_times_of_one_asked_in_time() -> None:
    arrivals = [(random.Random(5).randrange(400) * MS // 7, 3 + n % 5, 1 + n % 7) for n in range(30)]
    late, prompt = engine(batch_slowdown=0.1), engine(batch_slowdown=0.1)
    jobs: dict[Engine, list[Job]] = {late: [], prompt: []}
    heard: dict[Engine, list[tuple[int, int, int]]] = {late: [], prompt: []}
    for machine in (late, prompt):
        for number, (at_ns, asked, length) in enumerate(sorted(arrivals)):
            if machine is prompt:
                while machine.next_ns is not None and machine.next_ns < at_ns:
                    heard[machine] += [
                        (jobs[machine].index(t.job), t.position, t.at_ns) for t in machine.advance(machine.next_ns)
                    ]
            jobs[machine].append(job(asked, length, salt=number))
            machine.submit(jobs[machine][-1], at_ns)
        heard[machine] += [(jobs[machine].index(t.job), t.position, t.at_ns) for t in machine.advance(10_000 * MS)]
    assert heard[late] == heard[prompt]
    assert len(heard[late]) == sum(length for _, _, length in arrivals)


def test_past_the_queue_limit_the_next_is_refused_at_once() -> None:
    machine = engine(slots=1, queue_limit=1)
    assert machine.submit(job(5, 1), 0)
    assert machine.submit(job(5, 1, salt=1), 0), (
        "the first is about to take the slot, so this one is the only one waiting"
    )
    assert not machine.submit(job(5, 1, salt=2), 0)
    assert machine.totals.rejections == 1
    machine.advance(15 * MS)
    assert machine.submit(job(5, 1, salt=3), 15 * MS), "the slot went to the waiting one, so there is room in the queue"


def test_a_queue_limit_of_zero_takes_only_what_can_run() -> None:
    machine = engine(slots=1, queue_limit=0)
    assert machine.submit(job(5, 1), 0)
    assert not machine.submit(job(5, 1, salt=1), 0)
    machine.advance(15 * MS)
    assert machine.submit(job(5, 1, salt=2), 15 * MS)


def test_without_a_queue_limit_it_queues_without_bound() -> None:
    machine = engine(slots=1)
    assert all(machine.submit(job(1, 1, salt=n), 0) for n in range(500))
    assert len(machine.advance(500 * 11 * MS)) == 500


def test_the_most_recently_admitted_is_preempted_when_a_block_is_missing_and_computed_again() -> None:
    # Three blocks of four tokens. Both prompts fill one; the fifth token of each needs a second.
    machine, first, second = engine(kv_blocks=3), job(4, 4), job(4, 2, salt=1)
    machine.submit(first, 0)
    machine.submit(second, 0)
    said = machine.advance(17 * MS)
    assert machine.pool.usage == 2 / 3
    said += machine.advance(18 * MS)  # at 18 the first takes the third block, and the second has to go
    assert (machine.running, machine.waiting, machine.totals.preemptions) == (1, 1, 1)
    assert machine.pool.usage == 2 / 3
    said += machine.advance(1000 * MS)
    assert times_ms(said, first) == [18, 28, 38, 48]
    # From 48 on there is room: its prompt and the token that it had said are prefilled again (5 ms).
    assert times_ms(said, second) == [18, 63]
    assert (second.admitted_ns, second.preemptions, machine.totals.preemptions) == (0, 1, 1)
    assert machine.totals.prompt_tokens == 8, "a prompt counts once, however often it is computed"
    assert machine.pool.free == 3


def test_a_prompt_that_does_not_fit_yet_waits_even_if_a_slot_is_free() -> None:
    machine, first, second = engine(kv_blocks=3, queue_limit=1), job(8, 2), job(5, 1, salt=1)
    machine.submit(first, 0)
    machine.submit(second, 0)
    said = machine.advance(1 * MS)
    assert (machine.running, machine.waiting) == (1, 1)
    assert not machine.submit(job(1, 1, salt=2), 1 * MS), "the free slot is of no use, so the waiting one is waiting"
    said += machine.advance(1000 * MS)
    assert times_ms(said, first) == [18, 28]
    assert times_ms(said, second) == [43]


def test_a_request_that_could_never_fit_is_an_error_of_the_caller() -> None:
    with pytest.raises(ValueError, match="never fit"):
        engine(kv_blocks=2).submit(job(5, 5), 0)
    machine = engine(kv_blocks=2)
    assert machine.submit(job(5, 4), 0), "the last token of a reply needs no room: nothing is computed from it"
    assert len(machine.advance(1000 * MS)) == 4


def test_an_equal_prefix_is_not_prefilled_again() -> None:
    machine, first, second = engine(prefix_caching=True), job(10, 1), job(10, 1)
    machine.submit(first, 0)
    machine.submit(second, 100 * MS)
    said = machine.advance(1000 * MS)
    assert times_ms(said, first) == [20]
    # Two full blocks of four are known; the two tokens after them take 2 ms.
    assert times_ms(said, second) == [112]
    assert second.cached_tokens == 8
    assert (machine.totals.prefix_queries, machine.totals.prefix_hits) == (20, 8)
    assert machine.totals.cached_prompt_tokens == 8


def test_of_a_prompt_known_to_its_end_the_last_block_is_computed_again() -> None:
    machine = engine(prefix_caching=True)
    machine.submit(job(8, 1), 0)
    again = job(8, 1)
    machine.submit(again, 100 * MS)
    assert times_ms(machine.advance(1000 * MS), again) == [114]


def test_a_reply_sent_back_in_the_next_turn_hits_too() -> None:
    machine, first = engine(prefix_caching=True), Job([1, 2, 3, 4, 5, 6], [7, 8, 9])
    machine.submit(first, 0)
    machine.advance(100 * MS)
    # Computed so far: six tokens of prompt, and all of the reply but its last token: two full blocks.
    second = Job([1, 2, 3, 4, 5, 6, 7, 8, 9, 50, 51, 52], [60])
    machine.submit(second, 100 * MS)
    assert times_ms(machine.advance(1000 * MS), second) == [114]
    assert second.cached_tokens == 8


def test_without_prefix_caching_nothing_is_looked_up() -> None:
    machine, second = engine(), job(10, 1)
    machine.submit(job(10, 1), 0)
    machine.submit(second, 100 * MS)
    assert times_ms(machine.advance(1000 * MS), second) == [120]
    assert (machine.totals.prefix_queries, machine.totals.prefix_hits) == (0, 0)


def test_shared_blocks_are_held_once() -> None:
    machine = engine(kv_blocks=4, prefix_caching=True)
    machine.submit(job(10, 5), 0)
    machine.submit(job(10, 5), 0)
    machine.advance(1 * MS)
    assert machine.running == 2
    assert machine.pool.usage == 1.0, "two shared, and one each for the rest"


def test_an_abort_frees_the_slot_for_the_next_step() -> None:
    machine, leaver, second = engine(slots=1), job(5, 100), job(5, 1, salt=1)
    machine.submit(leaver, 0)
    machine.submit(second, 0)
    machine.advance(20 * MS)
    machine.abort(leaver, 20 * MS)
    assert (machine.running, machine.waiting, machine.pool.usage) == (0, 1, 0.0)
    said = machine.advance(1000 * MS)
    assert times_ms(said, leaver) == []
    assert times_ms(said, second) == [40]  # the step under way ended at 25
    assert machine.totals.finished == {"abort": 1, "length": 1}


def test_a_waiting_request_can_be_aborted_and_a_finished_one_is_left_alone() -> None:
    machine, first, second = engine(slots=1), job(5, 2), job(5, 2, salt=1)
    machine.submit(first, 0)
    machine.submit(second, 0)
    machine.abort(second, 1 * MS)
    assert machine.waiting == 0
    assert times_ms(machine.advance(1000 * MS), first) == [15, 25]
    machine.abort(first, 1000 * MS)
    assert machine.totals.finished == {"abort": 1, "length": 1}


def test_the_first_work_waits_for_a_cold_load() -> None:
    machine, first, second = engine(load_ns=1000 * MS), job(5, 1), job(5, 1, salt=1)
    assert machine.loaded_ns is None
    machine.submit(first, 100 * MS)
    machine.submit(second, 500 * MS)
    said = machine.advance(5000 * MS)
    assert machine.loaded_ns == 1100 * MS
    assert times_ms(said, first) == times_ms(said, second) == [1120]
    assert (first.load_wait_ns, second.load_wait_ns) == (1000 * MS, 600 * MS)
    assert first.admitted_ns == 1100 * MS


def test_a_preloaded_engine_has_nothing_to_load() -> None:
    machine, first = engine(load_ns=1000 * MS), job(5, 1)
    assert machine.preload(0) == 1000 * MS
    machine.submit(first, 2000 * MS)
    assert times_ms(machine.advance(5000 * MS), first) == [2015]
    assert first.load_wait_ns == 0


def test_time_does_not_go_back() -> None:
    machine = engine()
    machine.advance(10)
    with pytest.raises(ValueError, match="time went back"):
        machine.advance(9)


@pytest.mark.parametrize("prefix_caching", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_whatever_happens_every_reply_is_said_once_in_order_and_every_block_comes_back(
    seed: int, prefix_caching: bool
) -> None:
    dice = random.Random(seed)
    machine = engine(slots=4, kv_blocks=8, prefix_caching=prefix_caching)
    now, jobs, heard = 0, [], []
    for _ in range(60):
        now += dice.randrange(40 * MS)
        jobs.append(job(dice.randint(1, 16), dice.randint(1, 16), salt=dice.randrange(3)))
        machine.submit(jobs[-1], now)
        if dice.random() < 0.3:
            machine.abort(dice.choice(jobs), now)
        heard += machine.advance(now)
        assert machine.running <= 4
        assert 0 <= machine.pool.usage <= 1
    heard += machine.advance(now + 1_000_000 * MS)
    for one in jobs:
        positions = [token.position for token in heard if token.job is one]
        assert one.over
        assert positions == list(range(one.emitted))
    assert machine.totals.preemptions > 0
    assert machine.totals.finished["length"] + machine.totals.finished["abort"] == 60
    assert machine.totals.generation_tokens == len(heard)
    assert machine.pool.free == 8
