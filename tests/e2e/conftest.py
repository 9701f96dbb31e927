"""Real runs: the locust command as a person starts it, against a server in another process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pytest

from llm_locust.records import COLUMNS, STRING_COLUMNS, Manifest, RunFolder
from llm_locust.records.plan import PLAN_STRING_COLUMNS
from llm_locust.records.summary import RunSummary
from llm_locust.simulator.process import Running, running

ROOT = Path(__file__).parents[2]
CHAT = f"{ROOT / 'locustfiles' / 'chat.py'}"
LADDER = f"{ROOT / 'shapes' / 'rate_ladder.py'}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def processes(count: int) -> list[str]:
    """Options for a master and workers forked from one command, on a port that no other test has."""
    port = str(free_port())
    return ["--processes", str(count), "--master-bind-port", port, "--master-port", port]


def clean_environment() -> dict[str, str]:
    """This process's environment, without what a developer may have set for runs of their own."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("LOCUST", "LLM_LOCUST", "OPENAI"))}


@dataclass
class Run:
    """A finished locust command and what it left."""

    code: int
    stdout: str
    stderr: str
    folder: RunFolder

    @property
    def summary(self) -> RunSummary:
        return RunSummary.load(self.folder.summary)

    @property
    def manifest(self) -> Manifest:
        return Manifest.load(self.folder.manifest)

    @property
    def plan(self) -> pd.DataFrame:
        types = dict.fromkeys(PLAN_STRING_COLUMNS, "string")
        return pd.read_csv(self.folder.plan, dtype=types | {"index": "int64", "planned_ns": "Int64"})

    def rows(self, shipped: bool = False) -> pd.DataFrame:
        """The workers' own rows, or the master's copies."""
        types = {name: "string" if name in STRING_COLUMNS else "Int64" for name in COLUMNS}
        files = [path for path in self.folder.request_files() if (".shipped" in path.name) is shipped]
        return pd.concat([pd.read_csv(path, dtype=types) for path in files], ignore_index=True)

    def assert_ran(self) -> None:
        """It ran to its end and was judged; a busy test machine may make any stage invalid, which is a judgement too."""
        assert self.code in (0, 4), self.stderr
        assert self.manifest.state == "complete", self.stderr
        for stage in self.manifest.stages:  # a stage lasts as long as its window, also when all requests ended before
            assert stage.window_end_ns is None or stage.end_ns is None or stage.end_ns >= stage.window_end_ns

    def assert_one_row_for_each_planned_arrival(self) -> None:
        planned, rows = sorted(self.plan["index"]), sorted(self.rows()["index"])
        assert planned
        assert rows == planned


@dataclass
class Locust:
    """Starts locust in a folder of the test's own."""

    home: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)
    html: bool = False
    """Whether report.html is drawn at the end: some seconds of processor time, and few tests look at it."""

    def start(
        self, *arguments: str, files: str = f"{CHAT},{LADDER}", env: dict[str, str] | None = None
    ) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "locust", "-f", files, *arguments]
        process = subprocess.Popen(
            command,
            cwd=self.home,
            env=clean_environment() | ({} if self.html else {"LOCUST_LLM_NO_HTML": "true"}) | (env or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def kill_leftovers(self) -> None:
        """After a test that failed half-way: its processes, by their own group."""
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def finish(self, process: subprocess.Popen[str], timeout_s: float = 120) -> Run:
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            stdout, stderr = process.communicate()
            pytest.fail(f"locust did not end:\n{stdout[-3000:]}\n{stderr[-3000:]}")
        return Run(process.returncode, stdout, stderr, self.newest())

    def newest(self) -> RunFolder:
        folders = sorted((self.home / "runs").glob("*")) if (self.home / "runs").is_dir() else []
        return RunFolder(folders[-1] if folders else self.home / "no-run")

    def run(
        self,
        *arguments: str,
        files: str = f"{CHAT},{LADDER}",
        env: dict[str, str] | None = None,
        timeout_s: float = 120,
    ) -> Run:
        return self.finish(self.start("--headless", *arguments, files=files, env=env), timeout_s)


@pytest.fixture
def locust(tmp_path: Path) -> Iterator[Locust]:
    found = Locust(tmp_path)
    yield found
    found.kill_leftovers()


@pytest.fixture
def simulator() -> Iterator[Callable[..., Running]]:
    """Starts synthetic servers, each with options of its own, and ends them after the test."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(running(**options))


def truth(server: Running) -> pd.DataFrame:
    """What the server knows of the load: one row per request it took; the one checked before load is left out."""
    log = pd.read_csv(server.log_path, dtype={"request_id": "string"})
    return log[~log["request_id"].str.endswith(".check", na=False)]
