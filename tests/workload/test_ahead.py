"""Prompts made ahead: in order, within the memory allowed, never twice, and whatever is asked is answered."""

from __future__ import annotations

from llm_locust.records import WorkloadFacts
from llm_locust.workload import Prompt
from llm_locust.workload.ahead import PromptsAhead, prepare
from llm_locust.workload.prompt import OneTurn

TEXT = 1000
ONE = TEXT + 600
"""What one of these prompts is taken to need in memory."""


class Made(OneTurn):
    """Remembers what it was asked for; every prompt takes a second."""

    def __init__(self) -> None:
        self.facts = WorkloadFacts(name="n", kind="synthetic", source="s", sha256="")
        self.asked: list[int] = []

    def prompt(self, index: int) -> Prompt:
        self.asked.append(index)
        return Prompt(index=index, prompt="x" * TEXT, max_tokens=1)

    def now(self) -> float:
        return float(len(self.asked))


def ahead(workload: Made, numbers: list[int], room: int = 100) -> PromptsAhead:
    return PromptsAhead(workload, numbers, most_bytes=room * ONE, now=workload.now)


def test_a_slice_makes_prompts_in_the_order_of_their_arrivals_until_its_time_is_over() -> None:
    workload = Made()
    prompts = ahead(workload, [5, 3, 9, 4])
    assert prompts.make(2.0)
    assert workload.asked == [5, 3]
    assert not prompts.make(10.0)
    assert workload.asked == [5, 3, 9, 4]
    assert (prompts.made, len(prompts)) == (4, 4)


def test_what_was_made_is_given_and_not_made_again() -> None:
    workload = Made()
    prompts = ahead(workload, [5, 3])
    prompts.make(10.0)
    assert [prompts.take(number).index for number in (5, 3)] == [5, 3]
    assert workload.asked == [5, 3]
    assert prompts.bytes == 0


def test_no_more_is_kept_than_there_is_room_for_and_what_is_taken_makes_room() -> None:
    workload = Made()
    prompts = ahead(workload, list(range(10)), room=3)
    assert not prompts.make(100.0)
    assert workload.asked == [0, 1, 2]
    assert prompts.bytes == 3 * ONE
    prompts.take(0)
    assert not prompts.make(100.0)
    assert workload.asked == [0, 1, 2, 3]


def test_a_prompt_that_comes_due_before_it_was_made_is_made_at_once_and_only_once() -> None:
    workload = Made()
    prompts = ahead(workload, [0, 1, 2, 3])
    prompts.make(1.0)
    assert [prompts.take(number).index for number in (0, 1)] == [0, 1]
    prompts.make(100.0)
    assert workload.asked == [0, 1, 2, 3]
    assert prompts.bytes == 2 * ONE


def test_prompts_that_nobody_announced_are_made_when_they_are_asked_for() -> None:
    workload = Made()
    assert ahead(workload, [0]).take(77).index == 77


def test_preparing_gives_way_between_slices_and_says_how_far_it_is() -> None:
    workload = Made()
    turns: list[int] = []
    said: list[tuple[int, int]] = []
    prepare(
        ahead(workload, [0, 1, 2]),
        lambda: turns.append(len(workload.asked)),
        lambda made, of: said.append((made, of)),
        now=workload.now,
    )
    assert workload.asked == [0, 1, 2]
    assert turns == [1, 2]
    assert said == [(1, 3), (2, 3)]


def test_no_more_prompts_are_kept_than_may_be_whatever_their_size() -> None:
    workload = Made()
    prompts = PromptsAhead(workload, list(range(10)), most_prompts=4, now=workload.now)
    assert not prompts.make(100.0)
    assert workload.asked == [0, 1, 2, 3]


def test_a_prompt_that_comes_twice_is_given_twice() -> None:
    workload = Made()
    prompts = ahead(workload, [5, 5, 6])
    prompts.make(100.0)
    assert [prompts.take(number).index for number in (5, 5, 6)] == [5, 5, 6]
    assert prompts.bytes == 0
