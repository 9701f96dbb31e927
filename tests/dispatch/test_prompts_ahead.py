"""Prompts of an open stage are made before it starts, and each only once."""

from __future__ import annotations

from llm_locust.workload import Prompt, SyntheticPrompts
from tests.dispatch.fakes import Bench, burst


class Counted(SyntheticPrompts):
    """Remembers which prompts it made."""

    def __init__(self) -> None:
        self.made: list[int] = []
        super().__init__(1, 8)
        self.made.clear()  # what its digest took

    def prompt(self, index: int) -> Prompt:
        self.made.append(index)
        return super().prompt(index)


def test_nothing_is_made_while_the_stage_runs_and_every_row_has_its_prompt() -> None:
    workload = Counted()
    bench = Bench(burst(20, first_index=100), prompts=workload, at_once=True)
    tried = len(workload.made)  # one request of each class, not sent
    bench.stage.make_prompts()
    assert workload.made[tried:] == list(range(100, 120))
    bench.start()
    bench.await_over()
    assert len(workload.made) == tried + 20
    expected = {index: SyntheticPrompts(1, 8).prompt(index).sha256 for index in range(100, 120)}
    assert {record.index: record.prompt_sha256 for record in bench.rows.terminal} == expected


def test_a_stage_that_starts_unprepared_makes_them_when_they_are_due() -> None:
    workload = Counted()
    bench = Bench(burst(20), prompts=workload, at_once=True)
    bench.start()
    bench.await_over()
    assert sorted(record.prompt_index for record in bench.rows.terminal if record.prompt_index is not None) == list(
        range(20)
    )
