"""Ctrl-C before anything was sent: a sentence and exit code 4, no traceback, and nobody left."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from llm_locust.plugin.interrupts import BEFORE_LOAD
from tests.e2e.conftest import CHAT, LADDER, Locust, free_port, processes

pytestmark = pytest.mark.process


def interrupted_at(process: subprocess.Popen[str], words: str) -> str:
    """Interrupt the whole group, as a terminal does, when these words are said; what was said from there on."""
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            break
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=30)[1]  # ends when the last process that could write has ended
    assert "Traceback" not in said
    return said


def test_a_master_that_waits_for_its_workers_ends(locust: Locust) -> None:
    port = str(free_port())
    process = locust.start(
        "--headless", "--host", "http://127.0.0.1:1", "--rates", "1", "--master", "--expect-workers", "2",
        "--master-bind-port", port, "--loglevel", "DEBUG",
    )  # fmt: skip
    said = interrupted_at(process, "Waiting for workers to be ready")
    assert BEFORE_LOAD in said
    assert process.returncode == 4


@pytest.mark.parametrize(("workers", "files"), [(0, f"{CHAT},{LADDER}"), (2, f"{CHAT},{LADDER}"), (0, CHAT)])
def test_a_run_that_waits_for_the_server_ends(locust: Locust, workers: int, files: str) -> None:
    rates = ["--rates", "1"] if LADDER in files else []
    process = locust.start(
        *(processes(workers) if workers else []), "--headless", "--host", "http://127.0.0.1:1", *rates,
        "--ready-timeout", "60", files=files,
    )  # fmt: skip
    said = interrupted_at(process, "waiting for http")
    assert BEFORE_LOAD in said
    assert process.returncode == 4
    assert not locust.newest().path.exists()
