"""A worker follows the master's orders, also after it was given up and is back again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent
import msgspec
import pandas as pd
import pytest

from llm_locust.dispatch import worker
from llm_locust.dispatch.messages import CloseRun, OpenRun, Prepared, PrepareStage, Progress, Rows, StartStage
from llm_locust.dispatch.worker import WorkerAgent
from llm_locust.records import Clock, StageSpec
from llm_locust.records.run import RunSpec, UserChoice, WorkloadSpec
from llm_locust.workload import SyntheticPrompts
from tests.dispatch.fakes import Builder, HeldServer, burst


@pytest.fixture(autouse=True)
def prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest of a workload is the master's to compute; here there is none."""
    monkeypatch.setattr(worker, "workload_of", lambda spec: SyntheticPrompts(1, 8))


class Runner:
    """The worker's end of the line, with the master's in the test's hands."""

    worker_index = 3

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self._listeners: dict[str, Callable[..., None]] = {}

    def register_message(self, name: str, listener: Callable[..., None]) -> None:
        self._listeners[name] = listener

    def send_message(self, name: str, data: dict[str, Any], client_id: str | None = None) -> None:
        self.sent.append((name, data))

    def order(self, payload: Any) -> None:
        message = type("Message", (), {"data": msgspec.to_builtins(payload), "node_id": "master"})
        self._listeners[payload.TYPE](environment=None, msg=message)

    def told(self, name: str) -> list[dict[str, Any]]:
        return [data for sent, data in self.sent if sent == name]


class Server(HeldServer):
    """A held server with the rest of what a client of one has."""

    def resolve(self) -> tuple[str, ...]:
        return ("127.0.0.1:1",)

    def close(self) -> None:
        pass


class Bench:
    def __init__(self, folder: Path) -> None:
        self.runner = Runner()
        self.server = Server(Clock())
        self.folder = folder
        self.agent = WorkerAgent(
            self.runner,  # type: ignore[arg-type]
            builders=lambda: {"U": Builder()},
            connect=lambda run, clock: self.server,  # type: ignore[arg-type,return-value]
            observe=lambda record, reply, user: None,
        )
        self.runner.order(
            OpenRun(
                run=RunSpec(
                    run_id=folder.name,
                    folder=str(folder),
                    host="http://127.0.0.1:1",
                    model=None,
                    deadline_s=30,
                    max_in_flight=None,
                    users=[UserChoice(name="U", weight=1)],
                    workload=WorkloadSpec(seed=1, max_tokens=8, sha256=""),
                )
            )
        )

    def start(self, spec: StageSpec) -> None:
        self.runner.order(PrepareStage(spec=spec, rank=0, of=1))
        self.runner.order(StartStage(stage=spec.stage, start_ns=self.server.clock.now_ns()))

    def rows(self) -> pd.DataFrame:
        return pd.read_csv(self.folder / "requests" / "worker-3.csv").sort_values("index")


def slow(stage: int, first_index: int) -> StageSpec:
    """An arrival at once, and two more in an hour each."""
    return burst(3, rate_rps=1 / 3600, window_s=3 * 3600.0, stage=stage, first_index=first_index)


def test_the_next_stage_finds_a_worker_that_was_given_up_in_the_last_one_and_ends_that(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "run")
    bench.start(slow(0, 0))
    bench.server.await_requests(1)
    bench.start(slow(1, 3))
    bench.server.await_requests(2)
    assert [Prepared(**told).error for told in bench.runner.told(Prepared.TYPE)] == [None, None]
    bench.server.answer(0)
    with gevent.Timeout(5):
        while not bench.runner.told(Rows.TYPE):
            gevent.sleep(0.01)
    rows = bench.rows()
    assert rows["index"].tolist() == [0, 1, 2]
    assert rows["outcome"].tolist() == ["ok", "not_sent", "not_sent"]
    assert set(rows["error"].dropna()) == {"the next stage began"}
    bench.runner.order(CloseRun(run_id="run"))


def test_the_end_of_the_run_finds_a_worker_that_was_given_up_and_it_sends_nothing_more(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "run")
    bench.start(burst(2, rate_rps=20.0, window_s=0.1))
    bench.server.await_requests(1)
    stage = bench.agent._stage
    assert stage is not None
    bench.runner.order(CloseRun(run_id="run"))
    assert stage.over.wait(5)
    assert len(bench.server.waiting) == 1


def test_a_worker_whose_master_fell_silent_sends_nothing_more_and_lets_the_flying_request_land(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "PROGRESS_S", 0.01)
    bench = Bench(tmp_path / "run")
    silences = iter([16.0] * (worker.LOOKS - 1) + [0.0])  # an old heartbeat, and then a new one
    monkeypatch.setattr(bench.agent, "_master_silent_s", lambda: next(silences, 16.0))
    bench.start(slow(0, 0))
    bench.server.await_requests(1)
    with gevent.Timeout(5):
        while not any(told["failed"] == 2 for told in bench.runner.told(Progress.TYPE)):
            gevent.sleep(0.01)
    assert len(bench.runner.told(Progress.TYPE)) >= 2 * worker.LOOKS  # it looked again after the heartbeat
    bench.server.answer(0)
    with gevent.Timeout(5):
        while not bench.runner.told(Rows.TYPE):
            gevent.sleep(0.01)
    rows = bench.rows()
    assert rows["outcome"].tolist() == ["ok", "not_sent", "not_sent"]
    assert set(rows["error"].dropna()) == {"the master went away"}
    bench.runner.order(CloseRun(run_id="run"))
