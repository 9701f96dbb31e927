"""Conversations: the next turn follows the model's own reply and is written down before it is sent."""

from __future__ import annotations

import gevent

from llm_locust.dispatch.unplanned import write_down
from llm_locust.records import WorkloadFacts
from llm_locust.workload import Prompt
from tests.dispatch.fakes import Bench, Builder, burst, loops


class Conversations:
    """Every prompt begins a conversation of so many turns."""

    converses = True

    def __init__(self, turns: int, think_s: float = 0.0) -> None:
        self.facts = WorkloadFacts(name="talk", kind="synthetic", source="here", sha256="x")
        self.turns = turns
        self.think_s = think_s
        self.replies: list[str] = []

    def prompt(self, index: int) -> Prompt:
        return Prompt(
            index=index, messages=[{"role": "user", "content": "1"}], max_tokens=8, session=f"s{index}", turn=1
        )

    def next_turn(self, prompt: Prompt, reply_text: str) -> tuple[float, Prompt] | None:
        self.replies.append(reply_text)
        turn = (prompt.turn or 1) + 1
        if turn > self.turns:
            return None
        messages = [*prompt.chat, {"role": "assistant", "content": reply_text}, {"role": "user", "content": str(turn)}]
        return self.think_s, Prompt(
            index=prompt.index, messages=messages, max_tokens=8, session=prompt.session, turn=turn
        )


class Hearing(Builder):
    """A user that remembers what it asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Prompt] = []

    def build_request(self, prompt: Prompt, request_id: str):  # type: ignore[no-untyped-def]
        self.asked.append(prompt)
        return super().build_request(prompt, request_id)


def turns_of(bench: Bench) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for record in sorted(bench.rows.terminal, key=lambda record: record.dispatched_ns or 0):
        found.setdefault(record.session or "", []).append(record.turn or 0)
    return found


def test_every_conversation_goes_on_to_its_last_turn_with_the_replies_fed_back() -> None:
    builder = Hearing()
    bench = Bench(burst(3, cooldown_s=60.0), prompts=Conversations(3), builder=builder, at_once=True, cap=None)
    bench.start()

    def measured() -> dict[str, list[int]]:
        """Those of the window: conversations that begin in the cool-down are not waited for."""
        return {name: turns for name, turns in turns_of(bench).items() if name in ("s0", "s1", "s2")}

    while sum(map(len, measured().values())) < 9:
        gevent.sleep(0.001)
    bench.stage.end_arrivals(None)
    bench.await_over()
    assert measured() == {"s0": [1, 2, 3], "s1": [1, 2, 3], "s2": [1, 2, 3]}
    last = next(prompt for prompt in builder.asked if prompt.session == "s0" and prompt.turn == 3)
    assert [message["content"] for message in last.chat] == ["1", "said", "2", "said", "3"]


def test_a_follow_up_is_written_down_first_and_its_index_is_nobody_elses() -> None:
    indices: list[int] = []
    for rank in range(2):
        bench = Bench(burst(6, first_index=10), rank=rank, of=2, prompts=Conversations(2), at_once=True)
        bench.start()
        bench.await_over()
        follow_ups = [record for record in bench.rows.terminal if record.turn == 2]
        assert sorted(record.index for record in follow_ups) == sorted(row.index for row in bench.rows.issued)
        assert all(record.planned_ns is None for record in follow_ups)
        assert bench.stage.taken == 3
        assert bench.stage.follow_ups is not None
        assert bench.stage.follow_ups.issued == 3
        indices += bench.outcomes()
    assert sorted(indices) == [10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21]


def test_a_turn_belongs_to_the_phase_in_which_it_is_sent() -> None:
    bench = Bench(burst(1, warmup_s=0.0, window_s=30.0, rate_rps=1 / 30), prompts=Conversations(2), at_once=True)
    bench.start()
    while len(bench.rows.terminal) < 2:
        gevent.sleep(0.001)
    assert [row.phase for row in bench.rows.issued] == ["measure"]
    late = Bench(
        burst(1, window_s=0.0005, rate_rps=1000.0, cooldown_s=0.0), prompts=Conversations(2, think_s=0.05), at_once=True
    )
    late.start()
    late.await_over()
    assert [row.phase for row in late.rows.issued] == ["cooldown"]


def test_turns_still_to_come_are_withdrawn_when_arrivals_end() -> None:
    bench = Bench(burst(2), prompts=Conversations(2, think_s=60.0), at_once=True)
    bench.start()
    while len(bench.stage.follow_ups or ()) < 2:
        gevent.sleep(0.001)
    assert not bench.stage.over.is_set()  # two users are thinking
    bench.stage.end_arrivals(None)
    bench.await_over()
    assert bench.outcomes() == {0: "ok", 1: "ok"}
    assert bench.rows.issued == []


def test_a_conversation_ends_with_a_reply_that_failed() -> None:
    bench = Bench(burst(1), prompts=Conversations(3), deadline_s=0.05)
    bench.start()
    bench.await_over()
    assert bench.outcomes() == {0: "timeout"}


def test_a_cap_holds_a_next_turn_back_like_any_other_request() -> None:
    bench = Bench(burst(2), prompts=Conversations(2), cap=1)
    bench.start()
    for place in range(4):
        bench.server.await_requests(place + 1)
        assert bench.stage.in_flight == 1
        bench.server.answer(place)
    bench.await_over()
    assert sorted(bench.outcomes().values()) == ["ok"] * 4


def test_a_closed_loop_goes_on_with_its_conversation_before_it_begins_another() -> None:
    bench = Bench(loops(1, requests=4), prompts=Conversations(2), at_once=True)
    bench.start()
    bench.await_over()
    asked = [(record.session, record.turn) for record in bench.rows.terminal]
    assert asked == [("s0", 1), ("s0", 2), ("s2", 1), ("s2", 2)]


def test_a_workload_that_cannot_go_on_is_our_fault_and_holds_nothing_up() -> None:
    class Broken(Conversations):
        def next_turn(self, prompt: Prompt, reply_text: str) -> tuple[float, Prompt] | None:
            raise KeyError("turn")

    bench = Bench(burst(1), prompts=Broken(2), at_once=True)
    bench.start()
    bench.await_over()
    assert bench.outcomes() == {0: "ok"}
    assert bench.stage.error == "a conversation could not go on: KeyError: 'turn'"


def test_a_turn_that_is_withdrawn_after_it_was_made_is_still_that_turn() -> None:
    prompts = Conversations(2)
    bench = Bench(burst(1), prompts=prompts, at_once=True)
    following = prompts.next_turn(prompts.prompt(0), "said")
    assert following is not None
    ready = write_down(bench.stage, bench.builder, index=7, user="U", phase="measure", prompt=following[1])
    assert ready is not None
    bench.stage.not_sent(ready.record, "enough")
    (row,) = bench.rows.issued
    assert (ready.record.turn, ready.record.session, ready.record.prompt_sha256) == (2, "s0", following[1].sha256)
    assert (row.turn, row.session) == (2, "s0")
