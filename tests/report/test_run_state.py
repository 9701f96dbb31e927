"""A run whose master was killed is not called running for ever, and one that goes on is not called dead."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from llm_locust.records import Manifest, RunFolder
from llm_locust.records.manifest import MasterProcess
from llm_locust.report import merge_run, report_run
from llm_locust.report.run_state import SILENT_S, state_of
from llm_locust.telemetry.master_process import goes_on, this_process
from tests.analysis.run_builder import RunBuilder

NOTES_ITSELF = """
import msgspec, sys
from llm_locust.telemetry.master_process import this_process
print(msgspec.json.encode(this_process()).decode(), flush=True)
sys.stdin.read()
"""

ELSEWHERE = MasterProcess(pid=1, started_s=0.0, boot_id="another machine's")


def unfinished(tmp_path: Path, master: MasterProcess | None) -> tuple[RunFolder, Manifest]:
    run = RunBuilder(tmp_path, state="running", master=master)
    run.stage(rate=2, window=10).requests(20)
    folder = RunFolder(run.write())
    return folder, Manifest.load(folder.manifest)


def test_a_process_is_known_while_it_lives_and_gone_when_it_was_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", NOTES_ITSELF], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        noted = msgspec.json.decode(process.stdout.readline(), type=MasterProcess)
        assert noted.pid == process.pid
        assert goes_on(noted) is True
        folder, manifest = unfinished(tmp_path, noted)
        assert state_of(folder, manifest) == (
            "running", "the run goes on: this is of what it had written so far"
        )  # fmt: skip
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # not yet waited for: its id is still taken
        assert goes_on(noted) is False
    assert goes_on(noted) is False
    assert state_of(folder, manifest) == (
        "interrupted", f"the master did not finish: its process {noted.pid} is gone, and has left no end of the run"
    )  # fmt: skip
    for summary in (merge_run(folder.path).summary, report_run(folder.path).summary):
        assert summary.state == "interrupted"
    assert "state: interrupted (the master did not finish" in folder.report_md.read_text()
    assert Manifest.load(folder.manifest).state == "running"  # raw files stay as they are


def test_another_process_that_came_to_have_its_id_is_not_taken_for_it() -> None:
    mine = this_process()
    assert goes_on(mine) is True
    assert goes_on(msgspec.structs.replace(mine, started_s=mine.started_s - 60)) is False


@pytest.mark.parametrize(
    "changes",
    [{"boot_id": "another"}, {"boot_id": None}, {"pid_namespace": 1}],
    ids=["machine", "unnamed", "container"],
)
def test_of_another_machine_or_container_nothing_can_be_seen(changes: dict[str, str | int | None]) -> None:
    assert goes_on(msgspec.structs.replace(this_process(), **changes)) is None


@pytest.mark.parametrize("master", [ELSEWHERE, None])
def test_where_the_master_cannot_be_seen_silence_tells(tmp_path: Path, master: MasterProcess | None) -> None:
    folder, manifest = unfinished(tmp_path, master)
    state, why = state_of(folder, manifest)
    assert state == "running"
    assert "by a master that cannot be seen from here: if it was killed, merge again when 10 minutes" in str(why)
    long_ago = time.time() - SILENT_S - 90
    for path in folder.path.rglob("*.*"):
        os.utime(path, (long_ago, long_ago))
    assert state_of(folder, manifest) == (
        "interrupted", "the master did not finish: nothing was written for 12 minutes"
    )  # fmt: skip


def test_a_run_that_noted_its_end_is_what_it_says(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, state="interrupted", state_reason="Ctrl-C", master=ELSEWHERE)
    run.stage(rate=2, window=10).requests(20)
    folder = RunFolder(run.write())
    assert state_of(folder, Manifest.load(folder.manifest)) == ("interrupted", "Ctrl-C")
