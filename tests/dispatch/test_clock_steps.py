"""A step of the wall clock during a stage is counted, reported as it happens, and kept with the stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from locust.env import Environment

from llm_locust.dispatch import Link, Roster, WorkerAgent
from llm_locust.dispatch.bounds import Bounds
from llm_locust.dispatch.controller import GENERATOR_COLUMNS
from llm_locust.dispatch.messages import Prepared, PrepareStage, Progress, StageDone
from llm_locust.dispatch.stage_control import StageControl
from llm_locust.dispatch.stage_run import StageRun
from llm_locust.records import Clock
from llm_locust.records.run import RunSpec, UserChoice, WorkloadSpec
from llm_locust.streaming import Reply
from llm_locust.workload import fixed, load_workload
from tests.dispatch.fakes import Bench, Builder, HeldServer, burst


def test_a_stage_counts_its_own_steps_and_not_those_of_the_stages_before() -> None:
    bench = Bench(burst(1), at_once=True)
    bench.server.clock_steps = 2
    second = StageRun(bench.stage.run, PrepareStage(spec=burst(1, stage=1), rank=0, of=1))
    assert (bench.stage.clock_steps, second.clock_steps) == (2, 0)
    bench.server.clock_steps = 5
    assert [stage.progress(None, None).clock_steps for stage in (bench.stage, second)] == [5, 3]


class SteppedServer(HeldServer):
    """The wall clock is stepped while each reply is read."""

    def resolve(self) -> tuple[str, ...]:
        return ("127.0.0.1:1",)

    def close(self) -> None:
        pass

    def stream(self, *request: Any, **options: Any) -> Reply:
        self.clock_steps += 1
        return super().stream(*request, **options)


def test_the_steps_of_a_stage_come_to_the_generators_health_and_to_the_manifest(tmp_path: Path) -> None:
    runner = Environment().create_local_runner()
    link, clock = Link(runner), Clock()
    roster = Roster(link, clock)
    WorkerAgent(
        runner,
        lambda: {"U": Builder()},
        lambda run, of_worker: SteppedServer(of_worker, at_once=True),  # type: ignore[arg-type, return-value]
        lambda *observed: None,
    )
    asked = WorkloadSpec(seed=1, max_tokens=8)
    run = RunSpec(
        run_id="run",
        folder=str(tmp_path),
        host="http://127.0.0.1:1",
        model=None,
        deadline_s=5,
        max_in_flight=None,
        users=[UserChoice(name="U", weight=1)],
        workload=fixed(asked, load_workload(asked)),
    )
    control = StageControl(run, burst(3), link, roster, clock, lambda lines: None, Bounds(), set())
    link.on(StageDone, control.on_done)
    link.on(Progress, control.on_progress)
    link.on(Prepared, control.on_prepared)
    stage = control.execute()
    assert [worker.clock_steps for worker in stage.workers] == [3]
    assert [report.clock_steps for report in control.progress.values()] == [3]
    assert "clock_steps" in GENERATOR_COLUMNS
