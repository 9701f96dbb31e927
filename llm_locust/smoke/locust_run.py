"""One short run of the real ``locust`` command in processes of its own, and what it left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from llm_locust.child_processes import tell_group
from llm_locust.ports import free_port
from llm_locust.records import Manifest, RunFolder, UsageError
from llm_locust.records.stage_summary import StageSummary
from llm_locust.records.summary import RunSummary

LONGEST_S = 240.0
"""A run that has not ended by then never will."""
ENDING_S = 20.0


class LocustRun:
    """A run that has ended.

    Args:
        code: the exit code; ``None`` when it had to be ended.
        said: what it wrote to standard error.
        path: its run folder; ``None`` when it made none.
    """

    def __init__(self, code: int | None, said: str, path: Path | None) -> None:
        self.code = code
        self.said = said
        self.folder = RunFolder(path) if path is not None else None

    @cached_property
    def summary(self) -> RunSummary | None:
        """Its summary; ``None`` when there is none."""
        try:
            return RunSummary.load(self.folder.summary) if self.folder is not None else None
        except UsageError:
            return None

    @cached_property
    def manifest(self) -> Manifest | None:
        """Its manifest; ``None`` when there is none."""
        try:
            return Manifest.load(self.folder.manifest) if self.folder is not None else None
        except UsageError:
            return None

    @property
    def stage(self) -> StageSummary | None:
        """Its only stage; ``None`` when nothing was judged."""
        return self.summary.stages[0] if self.summary is not None and self.summary.stages else None

    @property
    def last_words(self) -> str:
        """The last line that it wrote to standard error."""
        lines = [line for line in self.said.splitlines() if line.strip()]
        return lines[-1] if lines else "it said nothing"


def run_locust(
    files: Sequence[Path | str],
    options: Sequence[str],
    *,
    home: Path,
    run_dir: Path,
    workers: int = 0,
    environment: Mapping[str, str] = os.environ,
) -> LocustRun:
    """Run ``locust`` headless and wait for its end.

    What a person has set for runs of their own (``LOCUST_*``, a ``locust.conf`` beside them) has no say in it.

    Args:
        files: locustfiles and shapes.
        options: of the command.
        home: its working directory.
        run_dir: where the run folder is made.
        workers: worker processes beside the master; 0 for a single process that is both.
        environment: of this process.
    """
    command = [sys.executable, "-m", "locust", "-f", ",".join(map(str, files))]
    command += ["--headless", "--only-summary", "--loglevel", "WARNING"]
    if workers:
        port = str(free_port())
        command += ["--processes", str(workers), "--master-bind-port", port, "--master-port", port]
    before = _folders(run_dir)
    process = subprocess.Popen(
        [*command, *options, "--run-dir", str(run_dir)],
        cwd=home,
        env={name: value for name, value in environment.items() if not name.startswith("LOCUST")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is passed on below, once
    )
    said = b""
    code: int | None = None
    try:
        said = process.communicate(timeout=LONGEST_S)[1]
        code = process.returncode
    except subprocess.TimeoutExpired:
        pass
    finally:
        if process.poll() is None:
            said += _end(process)
    made = sorted(_folders(run_dir) - before)
    return LocustRun(code, said.decode(errors="replace"), made[-1] if made else None)


def _end(process: subprocess.Popen[bytes]) -> bytes:
    """End the processes that were started here, in order if they will."""
    for number in (signal.SIGINT, signal.SIGKILL):
        tell_group(process.pid, number)
        try:
            return process.communicate(timeout=ENDING_S)[1]
        except subprocess.TimeoutExpired:
            continue
    return b""


def _folders(run_dir: Path) -> set[Path]:
    return {path for path in run_dir.iterdir() if path.is_dir()} if run_dir.is_dir() else set()
