"""The KV preflight: a model's shape and what is asked of it, put together to an estimate, what fits, and what to know.

Here its figures are data; :mod:`llm_locust.report.kv_lines` has the sentences. Options are named as the command line has
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from llm_locust.records import UsageError
from llm_locust.sizing.engine_cache import EngineBeside, EngineCache, beside
from llm_locust.sizing.kv_cache import (
    DEFAULT_BLOCK_TOKENS,
    LEFT_OUT,
    KvEstimate,
    KvFit,
    KvLoad,
    KvShape,
    kv_estimate,
    kv_fit,
    to_bytes,
)
from llm_locust.sizing.kv_dtypes import ASSUMED_KV_DTYPE, KvDtype, kv_dtype
from llm_locust.sizing.model_config import ModelShape
from llm_locust.sizing.uneven_layers import Uneven

LEAST, MOST = 1e-9, 10**9
"""No size or speed of a replica lies outside: such a number is a slip, and what is made of it would not fit a record."""


class MissingNumbers(UsageError):
    """Numbers that nobody gave."""

    def __init__(self, message: str, options: Sequence[str]) -> None:
        super().__init__(message)
        self.options = tuple(options)
        """Each by its option, perhaps with the reason after a space."""


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A model as far as its KV cache goes."""

    shape: KvShape | None
    """``None`` when the formula does not hold."""
    uneven: Uneven | None
    model_type: str | None
    attention: str | None
    context_tokens: int | None
    """The longest that it was made for, where a file says so."""
    sources: dict[str, str]
    """Where each figure is from."""
    notes: list[str]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be held, as it was asked; ``None`` for what was not said."""

    tokens: int
    concurrency: int | None = None
    block_tokens: int | None = None
    tensor_parallel: int = 1
    ollama_num_parallel: int | None = None
    engine_kv_gib: float | None = None


class Preflight(msgspec.Struct, frozen=True, kw_only=True):
    """What is found, as data."""

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


def model_of(
    file: ModelShape | None,
    layers: int | None,
    kv_heads: int | None,
    head_dim: int | None,
    dtype: str | None,
    also: Mapping[str, object] | None = None,
    engine_dtype: KvDtype | None = None,
) -> Model:
    """Put file and options together.

    Args:
        file: What ``--config`` says.
        layers: ``--layers``.
        kv_heads: ``--kv-heads``.
        head_dim: ``--head-dim``.
        dtype: ``--kv-dtype``.
        also: Further options that must be given, by their names; those that are ``None`` are reported with the rest.
        engine_dtype: What a running engine says that its cache holds.

    Raises:
        UsageError: numbers are missing (every one is named with its option), or the file cannot be used.
    """
    missing = [name for name, value in (also or {}).items() if value is None]
    chosen = None if dtype is None else kv_dtype(dtype)
    if file is not None and file.uneven is not None:
        _require(missing)
        return Model(
            shape=None,
            uneven=file.uneven,
            model_type=file.model_type,
            attention=None,
            context_tokens=file.context_tokens,
            sources={},
            notes=file.notes,
        )
    sources: dict[str, str] = {}
    counts: dict[str, int] = {}
    for option, given, said in (
        ("--layers", layers, file.layers if file else None),
        ("--kv-heads", kv_heads, file.kv_heads if file else None),
        ("--head-dim", head_dim, file.head_dim if file else None),
    ):
        value = given if given is not None else said
        if value is None:
            missing.append(option)
            continue
        counts[option] = value
        sources[option] = option if given is not None else "--config"
    notes = [] if file is None else list(file.notes)
    if chosen is not None:
        sources["--kv-dtype"] = "--kv-dtype"
    elif engine_dtype is not None:
        chosen, sources["--kv-dtype"] = engine_dtype, "the engine"
    elif file is None:
        chosen, sources["--kv-dtype"] = ASSUMED_KV_DTYPE, "assumed; else give --kv-dtype"
    elif file.kv_dtype is not None:
        chosen, sources["--kv-dtype"] = file.kv_dtype, "--config"
    else:
        missing.append(f"--kv-dtype ({file.source}: {file.kv_dtype_unknown})")
    _require(missing, file)
    assert chosen is not None
    return Model(
        shape=KvShape(
            layers=counts["--layers"], kv_heads=counts["--kv-heads"], head_dim=counts["--head-dim"], dtype=chosen
        ),
        uneven=None,
        model_type=file.model_type if file else None,
        attention=file.attention if file and kv_heads is None else None,
        context_tokens=file.context_tokens if file else None,
        sources=sources,
        notes=notes,
    )


def _require(missing: list[str], file: ModelShape | None = None) -> None:
    if not missing:
        return
    of_model = {"--layers", "--kv-heads", "--head-dim"} & set(missing)
    hint = ""
    if of_model:
        hint = "; a model's config.json has its shape: --config" if file is None else f"; {file.source} does not say it"
    raise MissingNumbers(
        f"{'a number is' if len(missing) == 1 else 'numbers are'} missing: give {', '.join(missing)}{hint}", missing
    )


def preflight(model: Model, asked: Asked, engines: Sequence[EngineCache] = ()) -> Preflight:
    """What the formula gives for a model and a load.

    Args:
        model: Its shape, or why there is no formula for it.
        asked: The load.
        engines: What running engines say of their caches; of a single one, blanks are filled.

    Raises:
        UsageError: the KV heads cannot be shared by that many GPUs, or the numbers are beyond any memory.
    """
    only = engines[0] if engines else None
    notes: list[str] = []
    estimate = fits = None
    if model.shape is not None:
        block = asked.block_tokens or (only.block_tokens if only is not None else None) or DEFAULT_BLOCK_TOKENS
        load = KvLoad(
            tokens=asked.tokens,
            concurrency=asked.concurrency or 1,
            block_tokens=block,
            tensor_parallel=asked.tensor_parallel,
            ollama_num_parallel=asked.ollama_num_parallel,
        )
        estimate = kv_estimate(model.shape, load)
        fits = _fits(estimate, asked.engine_kv_gib, only, notes)
        notes += _about(estimate, fits, model, asked.concurrency)
    return Preflight(
        available=estimate is not None,
        unavailable_because=None if model.uneven is None else model.uneven.reason,
        unavailable_key=None if model.uneven is None else model.uneven.key,
        model=model,
        estimate=estimate,
        fits=fits,
        engines=[beside(engine, estimate, asked.tokens) for engine in engines],
        left_out=list(LEFT_OUT),
        notes=notes,
    )


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
