"""A worker that is stopped (SIGSTOP, a machine that pauses) is late, and every one of its arrivals still has its row."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from llm_locust.simulator.process import running
from tests.e2e.conftest import Locust, Run, processes
from tests.e2e.waiting import continued, llm_locust, pid_of, rows_on_disk, said, stopped, until

pytestmark = pytest.mark.process

STEADY = [
    "--arrivals", "constant", "--rates", "20", "--stage-time", "8", "--warmup-time", "0", "--cooldown", "1",
    "--max-tokens", "4", "--deadline", "20", "--logfile", "log.txt",
]  # fmt: skip
NOT_BEFORE_NS = 20_000_000
"""What two clocks of this machine, each anchored once, may differ by."""


@dataclass
class Stopped:
    """A run one of whose workers was stopped for a while."""

    place: Locust
    process: subprocess.Popen[str]
    worker: int
    from_ns: int = 0
    until_ns: int = 0
    run: Run | None = None

    @property
    def log(self) -> Path:
        return self.place.home / "log.txt"

    @property
    def finished(self) -> Run:
        assert self.run is not None
        return self.run

    @property
    def meanwhile(self) -> pd.DataFrame:
        """What was due on that worker while it was stopped."""
        rows = self.finished.rows()
        return rows[
            (rows["worker"] == self.worker) & (rows["planned_ns"] > self.from_ns) & (rows["planned_ns"] < self.until_ns)
        ]


@pytest.fixture(scope="module")
def stopped_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Stopped]]:
    """Three runs side by side: one of two workers and an only worker stopped for 10 s, one of two for half a second."""
    # Whole replies where half a second is judged: with streams, tokens that came in the meantime would be read together,
    # and be judged for that too.
    wanted = {"one of two": (2, []), "the only one": (1, []), "briefly": (2, ["--no-stream", "--slo", "e2e=900000"])}
    found: dict[str, Stopped] = {}
    try:
        with running(slots=64) as server:
            for name, (workers, options) in wanted.items():
                place = Locust(tmp_path_factory.mktemp(name.replace(" ", "_")))
                process = place.start("--headless", *processes(workers), "--host", server.base_url, *STEADY, *options)
                found[name] = Stopped(place, process, worker=workers - 1)
            victims = {}
            for name, one in found.items():
                until(lambda one=one: rows_on_disk(one.place) > 10, f"rows of {name}")
                victims[name] = pid_of(one.place, one.worker)
                one.from_ns = stopped(victims[name])
            time.sleep(0.5)
            found["briefly"].until_ns = continued(victims.pop("briefly"))
            time.sleep(9.5)
            for name, pid in victims.items():
                found[name].until_ns = continued(pid)
            for one in found.values():
                one.run = one.place.finish(one.process)
        yield found
    finally:
        for one in found.values():
            one.place.kill_leftovers()


def test_a_worker_stopped_for_ten_seconds_heals_and_its_arrivals_are_late_but_not_lost(
    stopped_runs: dict[str, Stopped],
) -> None:
    found = stopped_runs["one of two"]
    run = found.finished
    assert said(found.log, "setting state to missing")
    assert run.code == 4
    run.assert_one_row_for_each_planned_arrival()
    late = found.meanwhile
    assert len(late) > 20
    assert set(late["outcome"]) == {"ok"}
    assert (late["dispatched_ns"] >= found.until_ns - NOT_BEFORE_NS).all()
    (stage,) = run.summary.stages
    assert (stage.verdict.result, stage.lost) == ("invalid", 0)
    assert "dispatch was late" in stage.verdict.sentence
    assert run.manifest.state == "complete"


def test_the_only_worker_stopped_for_ten_seconds_ends_the_run_with_a_row_for_every_arrival(
    stopped_runs: dict[str, Stopped],
) -> None:
    """Locust itself stops a test whose last worker goes missing: the run is over, but nothing of it is lost."""
    found = stopped_runs["the only one"]
    run = found.finished
    assert said(found.log, "The last worker went missing")
    assert run.code == 4
    run.assert_one_row_for_each_planned_arrival()
    assert len(found.meanwhile) > 20
    assert set(found.meanwhile["outcome"]) <= {"ok", "not_sent"}  # late, or withdrawn by the end of the run
    assert (found.meanwhile["dispatched_ns"].dropna() >= found.until_ns - NOT_BEFORE_NS).all()
    (stage,) = run.summary.stages
    assert (stage.verdict.result, stage.lost) == ("invalid", 0)
    assert (run.manifest.state, run.manifest.state_reason) == ("interrupted", "its last worker went away")


def test_a_stop_of_half_a_second_heals_and_dispatch_lag_alone_judges_it(stopped_runs: dict[str, Stopped]) -> None:
    found = stopped_runs["briefly"]
    run = found.finished
    run.assert_ran()
    run.assert_one_row_for_each_planned_arrival()
    assert not said(found.log, "setting state to missing")
    late = found.meanwhile
    assert len(late) > 2
    assert set(late["outcome"]) == {"ok"}
    assert (late["dispatched_ns"] >= found.until_ns - NOT_BEFORE_NS).all()
    (stage,) = run.summary.stages
    assert stage.generator.valid, stage.generator.reasons  # with a limit of 900 s, 9 s late are no matter
    assert stage.generator.lag_bound_ms == 9000
    again = llm_locust("report", str(run.folder.path), "--slo", "e2e=1000")
    assert again.returncode == 4, again.stderr
    assert "generator-limited: dispatch was late" in " ".join(again.stdout.split())
