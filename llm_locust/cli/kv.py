"""``llm-locust kv``: how much KV cache requests will take, and how many fit, before any GPU is busy."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec
from rich.console import Console

from llm_locust.cli.model_options import COUNT, Amount, model_options, print_lines, read_model
from llm_locust.records import ExitCode, UsageError
from llm_locust.report.kv_lines import kv_lines
from llm_locust.sizing.engine_cache import EngineCache, engine_caches
from llm_locust.sizing.kv_dtypes import known_kv_dtype
from llm_locust.sizing.preflight import Asked, preflight


@click.command("kv")
@model_options
@click.option("--tokens", "--context", type=COUNT, metavar="N", help="Tokens of a request, prompt and output together.")
@click.option("--concurrency", type=COUNT, metavar="N", help="Requests at once.  [default: 1]")
@click.option(
    "--engine-kv-gib",
    type=Amount(),
    metavar="GIB",
    help="The cache that the engine reports to have on each GPU, in GiB (vLLM logs it as available KV cache memory); not "
    "all of the GPU's memory.",
)
@click.option(
    "--ollama-num-parallel",
    type=COUNT,
    metavar="N",
    help="OLLAMA_NUM_PARALLEL: so many times the context is allocated, whatever is in flight.",
)
@click.option("--host", metavar="URL", help="A running engine: its own figures are shown beside the estimate.")
@click.option("--model", "model_name", metavar="NAME", help="Which of its models.  [default: the first that it lists]")
@click.option(
    "--header", "headers", multiple=True, metavar="NAME: VALUE", help="Sent to it; @env:VARIABLE for a secret."
)
@click.option(
    "--api-key-env", metavar="VARIABLE", help="Where its key is.  [default: LLM_LOCUST_API_KEY, OPENAI_API_KEY]"
)
@click.option("--ca-file", metavar="PEM", help="Certificates to trust instead of the system's.")
@click.option("--insecure", is_flag=True, help="Do not verify its certificate.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON; sizes are bytes.")
def command(
    config: Path | None,
    layers: int | None,
    kv_heads: int | None,
    head_dim: int | None,
    kv_dtype: str | None,
    tp: int,
    block_size: int | None,
    tokens: int | None,
    concurrency: int | None,
    engine_kv_gib: float | None,
    ollama_num_parallel: int | None,
    host: str | None,
    model_name: str | None,
    headers: tuple[str, ...],
    api_key_env: str | None,
    ca_file: str | None,
    insecure: bool,
    as_json: bool,
) -> None:
    """Estimate the KV cache: 2 x layers x KV heads x head size x bytes a value x tokens x requests, in whole blocks.

    The formula is for models of which every layer keeps every token: MHA, GQA and MQA. For sliding windows, local
    attention, Mamba, MLA, hybrids of these and cross attention it says "unavailable" and which key of the model's file told
    it. It is an estimate of the cache alone, and names what it leaves out.

    \b
    llm-locust kv --layers 32 --kv-heads 8 --head-dim 128 --tokens 8192
    llm-locust kv --config config.json --tokens 8192 --concurrency 16 --engine-kv-gib 24.8 --tp 2
    llm-locust kv --config config.json --tokens 2048 --host http://127.0.0.1:8000

    \b
    Exit status: 0 estimated
                 2 wrong usage: a number is missing, a file cannot be read, the engine does not answer
                 4 unavailable: no formula holds for this model
    """
    engines = [] if host is None else _ask(host, model_name, headers, api_key_env, ca_file, insecure)
    only = engines[0] if engines else None
    model = read_model(
        config,
        layers,
        kv_heads,
        head_dim,
        kv_dtype,
        {"--tokens": tokens},
        engine_dtype=None if only is None else known_kv_dtype(only.dtype),
    )
    assert tokens is not None
    load = Asked(
        tokens=tokens,
        concurrency=concurrency,
        block_tokens=block_size,
        tensor_parallel=tp,
        ollama_num_parallel=ollama_num_parallel,
        engine_kv_gib=engine_kv_gib,
    )
    found = preflight(model, load, engines)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        print_lines(kv_lines(found), Console())
    if not found.available:
        sys.exit(ExitCode.UNDECIDED)


def _ask(
    host: str,
    model: str | None,
    headers: tuple[str, ...],
    api_key_env: str | None,
    ca_file: str | None,
    insecure: bool,
) -> list[EngineCache]:
    from llm_locust.telemetry.probe import Probe
    from llm_locust.telemetry.server_facts import ServerFacts
    from llm_locust.users.headers import parse_headers, request_headers

    probe = Probe(host, request_headers(api_key_env, parse_headers(headers)), ca_file=ca_file, insecure=insecure)
    facts = ServerFacts(probe, model).plain()
    if not facts:
        raise UsageError(
            f"--host {probe.base_url}: no page of it says anything about an engine; is it running there? "
            "Check the address, or give the numbers by --config"
        )
    return engine_caches(facts) or [EngineCache(engine=facts.get("engine"), version=facts.get("engine_version"))]
