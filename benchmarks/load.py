"""One point of the benchmark: a real ``locust`` run, its master beside the server and its one worker on a core alone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.native import Pace, Server, pinned
from llm_locust.records import RunFolder

ROOT = Path(__file__).parents[1]
CHAT = ROOT / "locustfiles" / "chat.py"
LADDER = ROOT / "shapes" / "rate_ladder.py"
SAMPLE_S = 0.05


@dataclass(frozen=True)
class Point:
    """Open arrivals at a rate, or a closed loop of so many users."""

    rate_rps: float | None = None
    users: int | None = None
    workers: int = 1

    @property
    def label(self) -> str:
        """How the table names it."""
        what = f"open {self.rate_rps:g}/s" if self.rate_rps is not None else f"closed {self.users}"
        return what if self.workers == 1 else f"{what}, {self.workers} workers"

    def streams(self, pace: Pace) -> int:
        """How many replies are under way at once, about."""
        return self.users if self.users is not None else round((self.rate_rps or 0) * pace.reply_s)


@dataclass(frozen=True)
class CpuSample:
    """What the workers had used by then, together."""

    at_ns: int
    cpu_s: float
    waited_s: float
    """Ready to run, while its core ran something else."""
    rss_mb: float


@dataclass(frozen=True)
class Finished:
    """A run that is over."""

    folder: RunFolder
    samples: list[CpuSample]
    exit_code: int


class RunFailed(Exception):
    """Locust left no run folder; the message is what it printed."""


def run_point(
    point: Point, server: Server, pace: Pace, *, folder: Path, seconds: float, worker_cores: list[int], master_core: int
) -> Finished:
    """Run it, and keep the workers' CPU time as it was every 50 ms. Each worker has a core; they share when there are few.

    Raises:
        RunFailed: there was no run.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        master_port = str(probe.getsockname()[1])
    # The tail of the stage's replies comes in the cool-down.
    timing = ["--stage-time", f"{seconds:g}", "--warmup-time", f"{min(seconds, pace.reply_s + 1):g}", "--cooldown", "3"]
    common = ["--host", f"http://127.0.0.1:{server.port}", "--max-tokens", str(pace.tokens), "--deadline", "30"]
    if point.rate_rps is not None:
        files, load = f"{CHAT},{LADDER}", ["--rates", f"{point.rate_rps:g}", *timing]
    else:
        total = seconds + pace.reply_s + 2
        files, load = (
            str(CHAT),
            ["-u", str(point.users), "-r", str(point.users), "--run-time", f"{total:.0f}s", *timing],
        )
    locust = [sys.executable, "-m", "locust", "-f", files, "--headless"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LOCUST", "LLM_LOCUST", "OPENAI"))}
    master_log = folder / "locust-master.txt"
    with master_log.open("w") as log, (folder / "locust-worker.txt").open("w") as worker_log:
        count = str(point.workers)
        master = pinned(
            master_core,
            [*locust, "--master", "--expect-workers", count, "--master-bind-port", master_port, *common, *load],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        workers = [
            pinned(
                worker_cores[number % len(worker_cores)],
                [*locust, "--worker", "--master-port", master_port],
                cwd=folder,
                env=environment,
                stdout=worker_log,
                stderr=subprocess.STDOUT,
            )
            for number in range(point.workers)
        ]
        try:
            samples = _watch(master, workers, limit_s=seconds + 90)
        finally:
            for process in (*workers, master):
                if process.poll() is None:
                    process.kill()
                process.wait(10)
    runs = sorted((folder / "runs").glob("*")) if (folder / "runs").is_dir() else []
    if not runs or not RunFolder(runs[-1]).summary.exists():
        raise RunFailed(f"{point.label}: locust left no judged run:\n{master_log.read_text()[-3000:]}")
    return Finished(RunFolder(runs[-1]), samples, master.returncode)


def _watch(master: subprocess.Popen[str], workers: list[subprocess.Popen[str]], *, limit_s: float) -> list[CpuSample]:
    samples: list[CpuSample] = []
    processes = [psutil.Process(worker.pid) for worker in workers]
    end = time.monotonic() + limit_s
    while master.poll() is None and time.monotonic() < end:
        try:
            used = [process.cpu_times() for process in processes]
            memory = sum(process.memory_info().rss for process in processes)
            waited_ns = sum(int(Path(f"/proc/{p.pid}/schedstat").read_text().split()[1]) for p in processes)
            cpu_s = sum(times.user + times.system for times in used)
            samples.append(CpuSample(time.time_ns(), cpu_s, waited_ns / 1e9, memory / 1e6))
        except (psutil.Error, OSError):
            pass
        time.sleep(SAMPLE_S)
    return samples
