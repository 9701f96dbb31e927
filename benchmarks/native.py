"""The two C programs: the server that knows when it sent each token, and the client that does nothing but read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).parent
COMPILER = os.environ.get("CC", "gcc")


class NoCompiler(Exception):
    """The benchmark cannot be run here, and why."""


@dataclass(frozen=True)
class Pace:
    """How the truth server streams each reply: one event a token."""

    ttft_ms: float = 50.0
    itl_ms: float = 20.0
    tokens: int = 100

    @property
    def reply_s(self) -> float:
        """From request to last token."""
        return (self.ttft_ms + (self.tokens - 1) * self.itl_ms) / 1000


class Server(NamedTuple):
    """A truth server that runs."""

    port: int
    log: Path
    pid: int


def build(folder: Path) -> None:
    """Compile both programs into ``folder``.

    Raises:
        NoCompiler: there is no C compiler, or not the headers of Linux.
    """
    if shutil.which(COMPILER) is None:
        raise NoCompiler(f"the benchmark compiles two small C programs and found no {COMPILER}: install gcc, or set CC")
    for name in ("truth_server", "floor_client"):
        done = subprocess.run(
            [COMPILER, "-O2", "-o", str(folder / name), str(SOURCES / f"{name}.c")], capture_output=True, text=True
        )
        if done.returncode != 0:
            raise NoCompiler(f"{name}.c does not compile here (it needs Linux):\n{done.stderr}")


def pinned(core: int, command: list[str], **options: object) -> subprocess.Popen[str]:
    """Start a process on one core; it stays there, with whatever it starts."""
    return subprocess.Popen(command, text=True, preexec_fn=lambda: os.sched_setaffinity(0, {core}), **options)  # type: ignore[call-overload, no-any-return]


@contextmanager
def truth_server(folder: Path, log: Path, pace: Pace, *, core: int) -> Iterator[Server]:
    """A server for the length of the context; its log is whole afterwards."""
    arguments = [f"{pace.ttft_ms * 1000:.0f}", f"{pace.itl_ms * 1000:.0f}", str(pace.tokens), str(log)]
    process = pinned(core, [str(folder / "truth_server"), *arguments], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield Server(int(process.stdout.readline()), log, process.pid)
    finally:
        process.terminate()
        process.wait(10)


class Floor(NamedTuple):
    """What the C client measured."""

    events_per_s: float
    cpu_us_per_event: float
    ttft_p50_ms: float
    ttft_p99_ms: float


def floor(folder: Path, server: Server, pace: Pace, *, concurrency: int, core: int) -> Floor:
    """Three rounds of ``concurrency`` streams read by the C client."""
    arguments = [str(server.port), str(concurrency), str(3 * concurrency), str(pace.tokens)]
    process = pinned(core, [str(folder / "floor_client"), *arguments], stdout=subprocess.PIPE)
    out, _ = process.communicate(timeout=60)
    return Floor(**json.loads(out))
