"""``llm-locust telemetry``: samples of the machine under test, taken on that machine."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from llm_locust.cli.seconds_option import a_length
from llm_locust.records import UsageError


@click.command("telemetry")
@click.option(
    "--pid", type=click.IntRange(min=1), help="Root of the server's tree of processes; without it, GPUs only."
)
@click.option(
    "--output",
    required=True,
    metavar="FILE.json",
    type=click.Path(path_type=Path),
    help="Where to write. Until the end the samples are in FILE.json.partial, which merge reads too.",
)
@click.option(
    "--duration",
    callback=a_length,
    metavar="S",
    help="How long (90, 90s, 5m).  [default: until the process ends, SIGTERM or Ctrl-C]",
)
@click.option(
    "--interval", callback=a_length, default="1", show_default=True, metavar="S", help="Seconds between two samples."
)
@click.option("--run-id", metavar="ID", help="The run that it is taken for; it stands in the file.")
@click.option("--gpus", metavar="0,1,...", help="Indices of the GPUs that the server uses.  [default: all]")
@click.option(
    "--pss", is_flag=True, help="Proportional memory too. The server may feel it: some 14 ms per GB and sample."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Serve the newest samples as a Prometheus page; 0: a free port."
)
@click.option("--bind", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where to serve it.")
def command(
    pid: int | None,
    output: Path,
    duration: float | None,
    interval: float,
    run_id: str | None,
    gpus: str | None,
    pss: bool,
    port: int | None,
    bind: str,
) -> None:
    """Sample the server's processes and GPUs on the machine where it runs, for as long as the load test.

    Start it before the server has loaded its model, or the start-up peak is seen in part only: what comes before the first
    stage of the run is start-up, what comes in the window of a stage is that stage's. Without a GPU, or without NVIDIA's
    driver, the processes alone are sampled.

    The memory of processes is their resident memory, which counts a shared page once in each of them, and the kernel's own
    record of each process's peak. The memory of a GPU is what all its users hold; that of the server alone stands beside it
    where the driver tells.

    \b
    llm-locust telemetry --pid 4711 --duration 600 --output server.json
    llm-locust telemetry --pid $(pgrep -o vllm) --output server.json --port 9410 --bind 0.0.0.0

    \b
    Exit status: 0 sampled, also when the process ended or SIGTERM or Ctrl-C came first
                 2 wrong usage: no such process, nothing to sample, a port that is taken, a file that cannot be written
    """
    from llm_locust.telemetry.devices.sampler import Sampling, sample_devices

    sampling = Sampling(
        output=output,
        pid=pid,
        duration_s=duration,
        interval_s=interval,
        run_id=run_id,
        port=port,
        bind=bind,
        gpus=None if gpus is None else _indices(gpus),
        pss=pss,
    )
    sample_devices(sampling, _say)


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # that nobody reads it any more is no reason to stop sampling
        click.echo(line)


def _indices(text: str) -> frozenset[int]:
    try:
        found = frozenset(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--gpus {text!r}: give the indices of GPUs, for example 0,1") from None
    if min(found) < 0:
        raise UsageError(f"--gpus {text!r}: the first GPU is 0; write indices of at least 0")
    return found
