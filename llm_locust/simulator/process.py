"""The synthetic server as a process of its own, for tests and demos.

>>> from llm_locust.simulator.process import running
>>> with running(slots=2, decode_ms=5, fault=["status=503:0.5"]) as (base_url, log_path):  # doctest: +SKIP
...     requests.get(f"{base_url}/health")
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from llm_locust.simulator.options import READY_PREFIX

Value = str | int | float | bool | Path | Sequence[str] | None


class Running(NamedTuple):
    """Where the server is, and where it writes the truth (see :mod:`llm_locust.simulator.truth_log`)."""

    base_url: str
    log_path: Path


def arguments(options: Mapping[str, Value]) -> list[str]:
    """Options by name as the command takes them: ``True`` is a bare flag, ``False`` its ``--no-`` form.

    ``None`` leaves an option out, and a list repeats it.
    """
    words: list[str] = []
    for name, value in options.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        elif isinstance(value, Sequence) and not isinstance(value, str):
            for item in value:
                words += [f"--{option}", item]
        elif value is not None:
            words += [f"--{option}", str(value)]
    return words


class SimulatorProcess:
    """A server that has been started and is ready.

    Raises:
        RuntimeError: it ended, or was not ready, within ``start_seconds``; with what it said.
    """

    def __init__(self, options: Mapping[str, Value], *, start_seconds: float = 20.0) -> None:
        command = [sys.executable, "-m", "llm_locust", "simulate", *arguments(options)]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process; a pipe could fill
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._errors)
        try:
            self.base_url = self._await_ready(time.monotonic() + start_seconds)
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def errors(self) -> str:
        """What it has written to standard error."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    def wait(self, seconds: float = 10.0) -> int:
        """Wait for its end; returns the exit code.

        Raises:
            subprocess.TimeoutExpired: it is still running.
        """
        return self._process.wait(seconds)

    def stop(self, seconds: float = 10.0) -> int:
        """End it (SIGTERM; SIGKILL if it is not over within ``seconds``); returns the exit code."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code

    def _await_ready(self, deadline: float) -> str:
        assert self._process.stdout is not None
        descriptor, line = self._process.stdout.fileno(), b""
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise RuntimeError(f"the simulator was not ready in time; it said: {self.errors()}")
            piece = os.read(descriptor, 1024)
            if not piece:
                raise RuntimeError(f"the simulator ended at once; it said: {self.errors()}")
            line += piece
        text = line.decode().strip()
        if not text.startswith(READY_PREFIX):
            raise RuntimeError(f"the simulator should say where it listens, but said: {text}")
        return text.removeprefix(READY_PREFIX)


@contextlib.contextmanager
def running(**options: Value) -> Iterator[Running]:
    """A server with these options (those of ``llm-locust simulate``, with underscores) while the block lasts.

    It takes a free port and a log in a temporary folder unless told otherwise; the log is whole once the block is left,
    and each row once its request is over. A log of one's own is kept.
    """
    with tempfile.TemporaryDirectory(prefix="llm-locust-simulator-") as folder:
        log = options.get("log")
        log_path = Path(folder, "truth.csv") if log is None else Path(str(log))
        process = SimulatorProcess({"port": 0, **options, "log": log_path})
        try:
            yield Running(process.base_url, log_path)
        finally:
            process.stop()
