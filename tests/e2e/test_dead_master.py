"""The master is killed: the workers end what they have begun, write it down, and the folder can be judged afterwards."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from llm_locust.records import Manifest, RunFolder
from llm_locust.records.summary import RunSummary
from llm_locust.simulator.process import Running
from tests.e2e.conftest import CHAT, Locust, free_port, truth
from tests.e2e.waiting import llm_locust, rows_on_disk, until

pytestmark = pytest.mark.process

Simulator = Callable[..., Running]

IMPATIENT = """
import locust.runners
import llm_locust.dispatch.worker
locust.runners.MASTER_HEARTBEAT_TIMEOUT = 6  # Locust's own is 60
llm_locust.dispatch.worker.MASTER_SILENT_S = 2
"""
PLANNED = 600


def test_when_the_master_is_killed_workers_finish_write_and_say_so_and_their_folders_merge(
    locust: Locust, simulator: Simulator
) -> None:
    server = simulator(slots=64, decode_ms=200, batch_slowdown=0)
    port = str(free_port())
    impatient = locust.home / "impatient.py"
    impatient.write_text(IMPATIENT)
    master = locust.start(
        "--headless", "--master", "--expect-workers", "2", "--master-bind-port", port, "--host", server.base_url,
        "--rates", "10", "--arrivals", "constant", "--stage-time", "60", "--warmup-time", "0", "--cooldown", "1",
        "--max-tokens", "8", "--deadline", "20",
    )  # fmt: skip
    workers = [locust.start("--worker", "--master-port", port, files=f"{impatient},{CHAT}") for _ in range(2)]
    until(lambda: rows_on_disk(locust) > 10, "rows")
    os.kill(master.pid, signal.SIGKILL)
    for worker in workers:
        worker.communicate(timeout=60)
    assert [worker.returncode for worker in workers] == [4, 4]
    folder = locust.newest()
    assert Manifest.load(folder.manifest).state == "running"  # nobody was left to write another word
    assert not list(folder.requests_dir.glob("worker-?.csv.reserve"))  # files are closed
    sent = len(truth(server))
    assert 10 < sent < PLANNED

    def judged(*arguments: str) -> tuple[int, dict[str, int], str]:
        done = llm_locust("merge", str(folder.path), *arguments)
        table = pd.read_csv(folder.merged)
        assert sorted(table["index"]) == sorted(pd.read_csv(folder.plan)["index"]) == list(range(PLANNED))
        return done.returncode, table["outcome"].value_counts().to_dict(), " ".join(done.stdout.split())

    code, outcomes, text = judged()
    assert (code, outcomes) == (4, {"ok": sent, "not_sent": PLANNED - sent})
    assert "generator-limited" in text
    assert f"State of the run: interrupted (the master did not finish: its process {master.pid} is gone" in text
    errors = set(pd.read_csv(folder.merged)["error"].dropna())
    assert errors == {"the master went away"}

    # As if worker 1 had been on another machine: what the master had of it is there, its own file comes later.
    elsewhere = RunFolder(locust.home / "elsewhere" / folder.run_id)
    elsewhere.requests_dir.mkdir(parents=True)
    own = shutil.move(folder.worker_csv(1), elsewhere.worker_csv(1))
    code, outcomes, text = judged()
    assert (code, outcomes["lost"]) == (4, PLANNED - sum(n for name, n in outcomes.items() if name != "lost"))
    assert outcomes["lost"] > PLANNED // 3
    assert "lost with worker 1" in text
    assert "--from" in text
    code, outcomes, text = judged("--from", str(elsewhere.path))
    assert (code, outcomes) == (4, {"ok": sent, "not_sent": PLANNED - sent})
    assert RunSummary.load(folder.summary).reconciliation.rows_collapsed > 0  # what was shipped is there twice

    lines = Path(own).read_text().splitlines(keepends=True)
    lines[1] = lines[1].replace(",200,", ",204,", 1)
    Path(own).write_text("".join(lines))
    refused = llm_locust("merge", str(folder.path), "--from", str(elsewhere.path))
    assert refused.returncode == 2
    for word in (str(own), str(folder.worker_csv(1, shipped=True)), "status"):
        assert word in refused.stderr
