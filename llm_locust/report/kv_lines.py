"""The KV preflight in sentences: what one token, one request and all of them take, what fits, what an engine says."""

from __future__ import annotations

from llm_locust.analysis.words import number
from llm_locust.report.inert import LONGEST_NAME, one_line
from llm_locust.sizing.engine_cache import EngineBeside
from llm_locust.sizing.kv_cache import GIB, gib
from llm_locust.sizing.preflight import Preflight


def kv_lines(of: Preflight) -> list[tuple[str, str]]:
    """Names and what belongs to them; an empty name goes on with the one before."""
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
