"""Waiting for what a running locust command does: rows, log lines, processes; never for a time to pass."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from llm_locust.records import Manifest, StageManifest
from tests.e2e.conftest import Locust, clean_environment


def until(true: Callable[[], bool], what: str, timeout_s: float = 40) -> None:
    give_up = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < give_up, f"it never came to pass: {what}"
        time.sleep(0.02)


def rows_on_disk(locust: Locust) -> int:
    """Terminal rows that the workers have written so far."""
    folder = locust.newest()
    files = [path for path in folder.request_files() if ".shipped" not in path.name] if folder.path.exists() else []
    return sum(max(path.read_bytes().count(b"\n") - 1, 0) for path in files)


def running_stage(locust: Locust, number: int = 0) -> StageManifest:
    """The manifest's word on a stage, once that has been told its start."""

    def found() -> list[StageManifest]:
        path = locust.newest().manifest
        stages = Manifest.load(path).stages if path.exists() else []
        return [stage for stage in stages[number : number + 1] if stage.start_ns]

    until(lambda: bool(found()), f"stage {number} starts")
    return found()[0]


def pid_of(locust: Locust, worker: int) -> int:
    """The process of a worker of the first stage."""
    (pid,) = (known.pid for known in running_stage(locust).workers if known.worker == worker)
    assert pid is not None
    return pid


def said(log: Path, words: str) -> bool:
    return log.exists() and words in log.read_text()


def stopped(pid: int) -> int:
    """Stop a process and see it stopped; when that was, in Unix nanoseconds."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, f"process {pid} stops")
    return time.time_ns()


def continued(pid: int) -> int:
    """Let a stopped process go on; when that was, in Unix nanoseconds."""
    at_ns = time.time_ns()
    os.kill(pid, signal.SIGCONT)
    return at_ns


def llm_locust(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Our own command, as a person gives it after a run."""
    return subprocess.run(
        [sys.executable, "-m", "llm_locust", *arguments],
        capture_output=True,
        text=True,
        env=clean_environment(),
        check=False,
    )
