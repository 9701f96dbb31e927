"""What was done stands in a file, belongs to one process, and is not gone on with as something else."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import msgspec
import psutil
import pytest

from llm_locust.matrix.config import MatrixConfig, parse_config
from llm_locust.matrix.ledger import STATE, Known, Ledger, read_state
from llm_locust.records import UsageError
from tests.matrix.test_config import SMALL

UNITS = ["off.short", "on.short"]


@pytest.fixture
def config() -> MatrixConfig:
    return parse_config(SMALL, "m.toml", Path())


def test_what_is_done_stays_done_and_what_was_running_is_made_again(tmp_path: Path, config: MatrixConfig) -> None:
    with Ledger.opened(tmp_path, "run", config, UNITS) as ledger:
        ledger.begin("off.short")
        ledger.end("off.short", "done", run="runs/off.short/1", code=0)
        ledger.begin("on.short")
    state = read_state(tmp_path)
    assert state is not None
    assert state.owner is None
    with Ledger.opened(tmp_path, "run", config, UNITS) as again:
        assert {name: unit.status for name, unit in again.state.units.items()} == {
            "off.short": "done",
            "on.short": "running",
        }
        assert again.state.units["off.short"].run == "runs/off.short/1"


def test_another_matrix_in_the_folder_is_refused_with_what_changed(tmp_path: Path, config: MatrixConfig) -> None:
    with Ledger.opened(tmp_path, "run", config, UNITS):
        pass
    other = parse_config(SMALL.replace("requests_per_slot = 5", "requests_per_slot = 9"), "m.toml", Path())
    with (
        pytest.raises(UsageError, match=r"another matrix.*\n  load\.requests_per_slot: 5 -> 9\n"),
        Ledger.opened(tmp_path, "run", other, UNITS),
    ):
        pass
    flags = parse_config(SMALL.replace('["--on"]', '["--on", "--more"]'), "m.toml", Path())
    with (
        pytest.raises(UsageError, match=r'axis\[0\]\.settings\[1\]\.flags: \["--on"\] -> \["--on","--more"\]'),
        Ledger.opened(tmp_path, "run", flags, UNITS),
    ):
        pass


def test_a_smoke_test_is_not_gone_on_with_as_a_run(tmp_path: Path, config: MatrixConfig) -> None:
    with Ledger.opened(tmp_path, "protocol-smoke", config, UNITS):
        pass
    with (
        pytest.raises(UsageError, match="was begun with --mode protocol-smoke"),
        Ledger.opened(tmp_path, "run", config, UNITS),
    ):
        pass


def test_two_processes_do_not_share_a_folder(tmp_path: Path, config: MatrixConfig) -> None:
    with Ledger.opened(tmp_path, "run", config, UNITS):
        pass
    state = read_state(tmp_path)
    assert state is not None
    parent = psutil.Process().ppid()
    state.owner = Known(pid=parent, created=psutil.Process(parent).create_time(), what="matrix")
    (tmp_path / STATE).write_bytes(msgspec.json.encode(state))
    with (
        pytest.raises(UsageError, match=f"process {parent} is running this matrix"),
        Ledger.opened(tmp_path, "run", config, UNITS),
    ):
        pass
    state.owner = Known(pid=parent, created=1.0, what="matrix")  # a later process that got the same id
    (tmp_path / STATE).write_bytes(msgspec.json.encode(state))
    with Ledger.opened(tmp_path, "run", config, UNITS):
        pass


def test_what_a_killed_matrix_left_behind_is_ended_and_nothing_else(tmp_path: Path, config: MatrixConfig) -> None:
    with Ledger.opened(tmp_path, "run", config, UNITS):
        pass
    state = read_state(tmp_path)
    assert state is not None
    left, other = (subprocess.Popen(["sleep", "60"], start_new_session=True) for _ in range(2))
    try:
        ours = Known.of(left.pid, "engine of off")
        assert ours is not None
        theirs = Known(pid=other.pid, created=1.0, what="had this id before")
        state.processes = [ours, theirs]
        (tmp_path / STATE).write_bytes(msgspec.json.encode(state))
        with Ledger.opened(tmp_path, "run", config, UNITS):
            assert left.wait(10) == -signal.SIGTERM
            assert other.poll() is None
    finally:
        for process in (left, other):
            process.kill()
            process.wait()
