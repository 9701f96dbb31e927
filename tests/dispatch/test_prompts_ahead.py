"""Prompts of an open stage are made before it starts, and each only once."""

from __future__ import annotations

from types import SimpleNamespace

from llm_locust.dispatch import Preparing
from llm_locust.plugin.progress import RunProgress
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
    bench.stage.prompts.make_ahead()
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


def test_whoever_waits_for_the_prompts_is_told_how_far_they_are() -> None:
    control = SimpleNamespace(
        preparing={"a": Preparing(stage=0, made=300, of=1000), "b": Preparing(stage=0, made=200, of=1000)},
        record=SimpleNamespace(start_ns=0),
    )
    assert RunProgress._preparing(control) == ("making prompts (500 of 2,000)", None, 0.25)  # type: ignore[arg-type]
    assert RunProgress._preparing(SimpleNamespace(preparing={})) == ("preparing", None, 0.0)  # type: ignore[arg-type]
