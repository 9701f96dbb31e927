"""``llm-locust demo``: a server, a distributed ladder against it, and the table, in one command."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from llm_locust.bundled_files import bundled
from llm_locust.child_processes import Interrupted, counted_interrupts, run_group
from llm_locust.ports import free_port
from llm_locust.records import ExitCode, UsageError

BOOT_S = 60


class Ladder:
    """What the demo runs against one kind of engine: the server's options and rates that straddle its capacity."""

    def __init__(self, serve: str, locust: str, prompts: str | None = None) -> None:
        self.serve = serve.split()
        self.locust = locust.split()
        self.prompts = prompts
        """A prompt with a place for a number, where the built-in ones are too long for the engine."""

    def options(self, folder: Path) -> list[str]:
        """The options of locust; a prompts file is written into the folder."""
        if self.prompts is None:
            return self.locust
        file = folder / "prompts.jsonl"
        file.write_text("".join(f'{{"prompt": "{self.prompts.format(n)}"}}\n' for n in range(1000)), encoding="utf-8")
        return [*self.locust, "--prompts", str(file)]


ENGINES = {
    # 8 slots x 32 tokens x about 25 ms a step: near 10 requests/s, so the last rate is past what it can do.
    "simulator": Ladder(
        serve="simulate --slots 8 --decode-ms 20 --prefill-tps 8000",
        locust="--rates 2,6,14 --stage-time 15 --warmup-time 3 --cooldown 3 "
        "--max-tokens 32 --deadline 15 --slo ttft=1000,tpot=60,e2e=3000",
    ),
    # One CPU thread makes some 100 tokens/s in all and reads prompts at twice that: short ones, or it does nothing else.
    "llama": Ladder(
        serve="llama --slots 4",
        locust="--rates 1,2,12 --stage-time 15 --warmup-time 3 --cooldown 3 "
        "--max-tokens 8 --deadline 20 --slo ttft=1000,e2e=3000",
        prompts="{} is a number that",
    ),
}


@contextmanager
def serving(arguments: Sequence[str], interrupted: Interrupted | None = None) -> Iterator[str]:
    """A server of ours as a process on a free port; yields its base URL once ``/health`` answers.

    Args:
        arguments: of ``llm-locust``, without the port.
        interrupted: who is told of Ctrl-C while it comes up; ``None``: nobody listens.

    Raises:
        UsageError: it does not come up; the last that it said is told.
        SystemExit: somebody wanted it all to stop meanwhile.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [sys.executable, "-m", "llm_locust", *arguments, "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the load; the server is ended below, when the load has drained
        text=True,
    )
    try:
        give_up = time.monotonic() + BOOT_S
        while not _healthy(url):
            if server.poll() is not None or time.monotonic() > give_up:
                server.kill()
                said = (server.stderr.read() if server.stderr else "").strip()
                raise UsageError(f"the server did not come up: {said.splitlines()[-1] if said else 'it said nothing'}")
            if interrupted is None:
                time.sleep(0.1)
            elif interrupted.event.wait(0.1):
                click.echo("stopped before load: nothing was sent", err=True)
                sys.exit(ExitCode.UNDECIDED)
        yield url
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _healthy(url: str) -> bool:
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{url}/health", timeout=2) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@click.command("demo")
@click.option("--engine", type=click.Choice(sorted(ENGINES)), default="simulator", show_default=True)
@click.option("--workers", default=2, show_default=True, type=click.IntRange(1, 64))
@click.option("--run-dir", default="runs", show_default=True, help="Where the run folder is made.")
def command(engine: str, workers: int, run_dir: str) -> None:
    """Start a server, run a ladder of rates against it from a master and workers, and print the table."""
    ladder = ENGINES[engine]
    files = f"{bundled('locustfiles') / 'chat.py'},{bundled('shapes') / 'rate_ladder.py'}"
    with (
        counted_interrupts() as interrupted,
        serving(ladder.serve, interrupted) as url,
        tempfile.TemporaryDirectory(prefix="llm-locust-demo-") as folder,
    ):
        run = ["-f", files, "--headless", "--only-summary", "--loglevel", "WARNING"]
        port = str(free_port())
        run += ["--processes", str(workers), "--master-bind-port", port, "--master-port", port, "--host", url]
        run += [*ladder.options(Path(folder)), "--run-dir", run_dir]
        click.echo(f"$ {shlex.join(['locust', *run])}", err=True)
        code = run_group([sys.executable, "-m", "locust", *run], interrupted)
    if code == ExitCode.UNDECIDED and not interrupted.times:
        click.echo("A stage could not be judged, most likely because this machine was busy; locust exits with 4 then.")
        code = ExitCode.DONE  # it was a demonstration, and it has shown that too
    sys.exit(code)
