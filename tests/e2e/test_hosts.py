"""Workers on hosts of their own: nothing is shared but the line to the master, and the plan."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

import pandas as pd
import pytest

from llm_locust.arrivals import plan_stage
from llm_locust.records import RunFolder
from llm_locust.records.run import UserChoice
from llm_locust.simulator.process import Running
from tests.e2e.conftest import CHAT, Locust, clean_environment, free_port, truth
from tests.e2e.namespaces import Host, hosts, why_not
from tests.e2e.waiting import llm_locust

pytestmark = pytest.mark.process

Simulator = Callable[..., Running]

SHORT = [
    "--rates", "12", "--stage-time", "3", "--warmup-time", "0.5", "--cooldown", "0.5", "--max-tokens", "4",
    "--deadline", "10",
]  # fmt: skip


@pytest.fixture
def two_hosts() -> Iterator[list[Host]]:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with hosts(2) as found:
        yield found


def test_two_hosts_of_their_own_share_a_plan_and_ship_every_row(
    locust: Locust, simulator: Simulator, two_hosts: list[Host]
) -> None:
    server = simulator(slots=16, host="0.0.0.0")
    address = f"{two_hosts[0].gateway}:{server.base_url.rpartition(':')[2]}"
    port = str(free_port())
    (locust.home / "runs").mkdir()
    master = locust.start(
        "--headless", "--master", "--expect-workers", "2", "--master-bind-host", "0.0.0.0", "--master-bind-port", port,
        "--host", f"http://{address}", *SHORT,
    )  # fmt: skip
    workers = []
    for host in two_hosts:
        (locust.home / host.name / "runs").mkdir(parents=True)
        command = [
            sys.executable, "-m", "locust", "-f", CHAT, "--worker", "--master-host", host.gateway, "--master-port", port,
        ]  # fmt: skip
        workers.append(
            subprocess.Popen(
                host.command(*command, instead=(locust.home / "runs", locust.home / host.name / "runs")),
                cwd=locust.home / host.name,
                env=clean_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
    locust.started += workers
    run = locust.finish(master)
    said = [worker.communicate(timeout=30) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], said
    run.assert_ran()

    assert not [path for path in run.folder.request_files() if ".shipped" not in path.name]
    shipped = run.rows(shipped=True)
    assert sorted(shipped["index"]) == sorted(run.plan["index"])
    assert set(shipped["outcome"]) == {"ok"}
    assert set(shipped["request_id"]) == set(truth(server)["request_id"])
    written = {
        path.name: path for host in two_hosts for path in (locust.home / host.name / "runs").rglob("worker-*.csv")
    }
    assert sorted(written) == ["worker-0.csv", "worker-1.csv"]  # each wrote its own, where it was
    for worker in (0, 1):
        assert written[f"worker-{worker}.csv"].read_bytes() == run.folder.worker_csv(worker, shipped=True).read_bytes()
    (stage,) = run.manifest.stages
    assert stage.plan_sha256 == plan_stage(stage.spec, [UserChoice(name="ChatUser", weight=1)]).sha256
    assert [worker.rank for worker in stage.workers] == [0, 1]
    assert {tuple(worker.addresses) for worker in stage.workers} == {(address,)}

    judged = run.folder.merged.read_bytes()
    own = [str(locust.home / host.name / "runs" / run.folder.run_id) for host in two_hosts]
    again = llm_locust("merge", str(run.folder.path), "--from", own[0], "--from", own[1])
    assert again.returncode == run.code
    assert run.folder.merged.read_bytes() == judged
    assert run.summary.reconciliation.rows_collapsed == len(shipped)
    assert RunFolder(own[0]).request_files()


def test_a_server_with_an_ipv6_address(locust: Locust, simulator: Simulator) -> None:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError as error:
        pytest.skip(f"there is no IPv6 here: {error}")
    server = simulator(slots=16, host="::1")
    assert server.base_url.startswith("http://[::1]:")
    run = locust.run("--host", server.base_url, *SHORT)
    run.assert_ran()
    run.assert_one_row_for_each_planned_arrival()
    rows = run.rows()
    assert set(rows["outcome"]) == {"ok"}
    assert set(rows["request_id"]) == set(truth(server)["request_id"])
    (worker,) = run.manifest.stages[0].workers
    assert worker.addresses == [server.base_url.removeprefix("http://")]
    assert pd.notna(rows["first_output_ns"]).all()
