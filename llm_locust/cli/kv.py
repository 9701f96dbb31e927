"""``llm-locust kv``: how much KV cache requests will take, and how many fit, before any GPU is busy."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec
from rich.console import Console

from llm_locust.analysis.words import number
from llm_locust.cli.model_options import COUNT, Amount, Model, model_options, print_lines, read_model
from llm_locust.records import UsageError
from llm_locust.report.inert import LONGEST_NAME, one_line
from llm_locust.sizing.engine_cache import EngineBeside, EngineCache, beside, engine_caches
from llm_locust.sizing.kv_cache import (
    DEFAULT_BLOCK_TOKENS,
    GIB,
    LEFT_OUT,
    KvEstimate,
    KvFit,
    KvLoad,
    gib,
    kv_estimate,
    kv_fit,
    to_bytes,
)
from llm_locust.sizing.kv_dtypes import known_kv_dtype


class Preflight(msgspec.Struct, frozen=True, kw_only=True):
    """What the command says, as data."""

    available: bool
    """There is an estimate."""
    unavailable_because: str | None
    unavailable_key: str | None
    """The key of the model's file that told it."""
    model: Model
    estimate: KvEstimate | None
    fits: KvFit | None
    """``None`` without a budget."""
    engines: list[EngineBeside]
    left_out: list[str]
    notes: list[str]


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
    notes: list[str] = []
    estimate = fits = None
    if model.shape is not None:
        block = block_size or (only.block_tokens if only is not None else None) or DEFAULT_BLOCK_TOKENS
        load = KvLoad(
            tokens=tokens,
            concurrency=concurrency or 1,
            block_tokens=block,
            tensor_parallel=tp,
            ollama_num_parallel=ollama_num_parallel,
        )
        estimate = kv_estimate(model.shape, load)
        fits = _fits(estimate, engine_kv_gib, only, notes)
        notes += _about(estimate, fits, model, concurrency)
    preflight = Preflight(
        available=estimate is not None,
        unavailable_because=None if model.uneven is None else model.uneven.reason,
        unavailable_key=None if model.uneven is None else model.uneven.key,
        model=model,
        estimate=estimate,
        fits=fits,
        engines=[beside(engine, estimate, tokens) for engine in engines],
        left_out=list(LEFT_OUT),
        notes=notes,
    )
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(preflight), indent=2).decode())
    else:
        print_lines(_lines(preflight), Console())
    if not preflight.available:
        sys.exit(4)


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
        raise UsageError(f"--host {probe.base_url}: no page of it says anything about an engine; is it running there?")
    return engine_caches(facts) or [EngineCache(engine=facts.get("engine"), version=facts.get("engine_version"))]


def _fits(estimate: KvEstimate, gib_given: float | None, engine: EngineCache | None, notes: list[str]) -> KvFit | None:
    """Against the budget that was given, or else the one that the engine tells."""
    if gib_given is not None:
        return kv_fit(estimate, to_bytes(gib_given), "--engine-kv-gib")
    if engine is not None and engine.cache_bytes is not None:
        if engine.replica is not None:
            notes.append(f"what fits is told for one engine of the server, {engine.replica}")
        return kv_fit(estimate, engine.cache_bytes, "the engine")
    return None


def _about(estimate: KvEstimate, fits: KvFit | None, model: Model, concurrency: int | None) -> list[str]:
    """What a reader of the figures would not expect."""
    load, notes = estimate.load, []
    if model.context_tokens is not None and load.tokens > model.context_tokens:
        notes.append(
            f"the model was made for {model.context_tokens:,} tokens: no request is as long as {load.tokens:,}"
        )
    if estimate.copies_of_heads > 1:
        notes.append(
            f"with {load.tensor_parallel} GPUs for {estimate.shape.kv_heads} KV heads every head is stored "
            f"{estimate.copies_of_heads} times: more GPUs do not make the share of one smaller"
        )
    if load.ollama_num_parallel is not None:
        notes.append("Ollama allocates the whole context for each of its places when it loads the model")
        if concurrency is not None and concurrency > load.ollama_num_parallel:
            notes.append(
                f"of {concurrency:,} requests at once {load.ollama_num_parallel:,} have a place, the rest wait"
            )
    if fits is not None and fits.requests == 0:
        notes.append("not even one request of this length fits")
    elif fits is not None and fits.requests < load.held:
        notes.append(f"{fits.requests:,} of {load.held:,} requests fit at once: the rest wait, or are put aside again")
    return notes


def _lines(of: Preflight) -> list[tuple[str, str]]:
    lines = _estimated(of) if of.estimate is not None else [("KV cache", f"unavailable: {of.unavailable_because}")]
    for engine in of.engines:
        lines += _engine(engine)
    lines += [("Note", note) for note in of.notes]
    if of.estimate is not None:
        lines.append(("Left out", ", ".join(of.left_out)))
    return lines


def _estimated(of: Preflight) -> list[tuple[str, str]]:
    estimate, model = of.estimate, of.model
    assert estimate is not None
    shape, load = estimate.shape, estimate.load
    kind = "" if model.attention is None else f" ({model.attention})"
    name = "" if model.model_type is None else f"{one_line(model.model_type, LONGEST_NAME)}: "
    held = "places of Ollama" if load.ollama_num_parallel is not None else "at once"
    rounded = f" = {estimate.tokens_held_per_request:,}" if estimate.tokens_held_per_request != load.tokens else ""
    lines = [
        (
            "Model",
            f"{name}{shape.layers} layers x {shape.kv_heads} KV heads{kind} x {shape.head_dim}; the cache holds "
            f"{shape.dtype.name} ({number(shape.dtype.bytes)} bytes, {model.sources['--kv-dtype']})",
        ),
        *(("", one_line(note, LONGEST_NAME)) for note in model.notes),
        ("Per token", f"{estimate.bytes_per_token:,} bytes"),
        (
            "Per request",
            f"{_size(estimate.bytes_per_request)}: {load.tokens:,} tokens in {estimate.blocks_per_request:,} blocks of "
            f"{load.block_tokens}{rounded}",
        ),
        ("In all", f"{_size(estimate.total_bytes)}: {load.held:,} {held}"),
    ]
    if load.tensor_parallel > 1:
        lines.append(
            (
                "Each GPU",
                f"{_size(estimate.gpu_total_bytes)} of that: {_size(estimate.gpu_bytes_per_request)} a request, "
                f"{estimate.gpu_bytes_per_token:,} bytes a token, {estimate.kv_heads_per_gpu} of {shape.kv_heads} KV heads",
            )
        )
    if of.fits is not None:
        where = " on each GPU" if load.tensor_parallel > 1 else ""
        lines.append(
            (
                "Fits",
                f"{of.fits.requests:,} requests at once in {_size(of.fits.budget_bytes)}{where} ({of.fits.source}): "
                f"{of.fits.blocks:,} blocks, {of.fits.tokens:,} tokens",
            )
        )
    return lines


def _engine(of: EngineBeside) -> list[tuple[str, str]]:
    said = of.figures
    name = one_line(" ".join(part for part in (said.engine, said.version) if part) or "an engine", LONGEST_NAME)
    parts = []
    if said.cache_tokens is not None:
        parts.append(f"{said.cache_tokens:,} tokens of cache")
    if said.block_tokens is not None:
        parts.append(f"blocks of {said.block_tokens}")
    if said.cache_bytes is not None:
        parts.append(f"{_size(said.cache_bytes)} on each GPU")
    if said.dtype is not None:
        parts.append(f"holding {one_line(said.dtype, LONGEST_NAME)}")
    if said.slots is not None:
        parts.append(f"{said.slots:,} slots")
    if said.context_of_all_slots_tokens is not None:
        parts.append(f"{said.context_of_all_slots_tokens:,} tokens in all slots")
    if said.context_limit_tokens is not None:
        parts.append(f"requests of at most {said.context_limit_tokens:,} tokens")
    if said.max_concurrency is not None:
        parts.append(f"{number(said.max_concurrency)} of that length at once")
    which = "" if said.replica is None else f" (engine {one_line(said.replica, LONGEST_NAME)})"
    lines = [("Engine says", f"{name}{which}: {', '.join(parts) or 'nothing about its cache'}")]
    if of.estimated_bytes is not None:
        lines.append(("", f"by the formula those tokens take {_size(of.estimated_bytes)} on each GPU"))
    if of.bytes_per_token is not None:
        share = of.difference_share
        off = (
            ""
            if share is None
            else f": {number(abs(share) * 100, 2)} % {'above' if share > 0 else 'below'} the formula"
        )
        lines.append(("", f"{number(of.bytes_per_token, 6)} bytes a token on each GPU{off}"))
    if of.requests is not None:
        lines.append(("", f"room for {of.requests:,} of these requests at once"))
    return lines + [("", note) for note in of.notes]


def _size(size: int) -> str:
    """In GiB, small ones in smaller units."""
    for unit, name in ((GIB, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size * 2 >= unit:
            return f"{gib(size / unit)} {name}"
    return f"{size} bytes"
