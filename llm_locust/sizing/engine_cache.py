"""A running engine's own figures of its KV cache, beside the estimate: what it has, and how far the formula is from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from llm_locust.sizing.kv_cache import KvEstimate


class EngineCache(msgspec.Struct, frozen=True, kw_only=True):
    """What one engine says of its cache; ``None`` where it does not say it. Several replicas are never added up."""

    engine: str | None
    version: str | None = None
    replica: str | None = None
    """The engine's own label, where one server has several."""
    dtype: str | None = None
    block_tokens: int | None = None
    cache_tokens: int | None = None
    cache_bytes: int | None = None
    """On each GPU."""
    context_limit_tokens: int | None = None
    """The longest request that it takes."""
    max_concurrency: float | None = None
    """Requests of that length that fit, as it says."""
    slots: int | None = None
    """Requests at once, at most."""
    context_of_all_slots_tokens: int | None = None


class EngineBeside(msgspec.Struct, frozen=True, kw_only=True):
    """An engine's figures with what follows from them for the requests that were asked about."""

    figures: EngineCache
    bytes_per_token: float | None = None
    """Its bytes / its tokens, on each GPU."""
    difference_share: float | None = None
    """(its bytes per token - the estimate's) / the estimate's."""
    estimated_bytes: int | None = None
    """What its tokens would take on each GPU by the formula."""
    requests: int | None = None
    """Requests of the asked length that its tokens (or slots) have room for."""
    notes: list[str] = []


def engine_caches(facts: Mapping[str, Any]) -> list[EngineCache]:
    """The caches in what a server says of itself, by the names of the evidence record; one for each engine behind it."""
    common = {
        "engine": facts.get("engine"),
        "version": facts.get("engine_version"),
        "context_limit_tokens": facts.get("context_limit_tokens"),
        "slots": facts.get("max_active_sequences"),
        "context_of_all_slots_tokens": facts.get("context_of_all_slots_tokens"),
    }
    configs: Mapping[str, Mapping[str, str]] = facts.get("cache_config_info") or {}
    if not configs:
        said = {
            "dtype": facts.get("kv_cache_dtype"),
            "cache_tokens": facts.get("kv_cache_size_tokens"),
            "max_concurrency": facts.get("kv_cache_max_concurrency"),
        }
        told = (*said.values(), common["context_limit_tokens"], common["slots"])
        return [EngineCache(**common, **said)] if any(value is not None for value in told) else []
    found = []
    for replica, config in configs.items():
        blocks, size = _count(config, "num_gpu_blocks"), _count(config, "block_size")
        tokens = _count(config, "kv_cache_size_tokens") or (blocks * size if blocks and size else None)
        dtype = config.get("cache_dtype")
        found.append(
            EngineCache(
                **common,
                replica=replica if len(configs) > 1 else None,
                dtype=None if dtype in (None, "", "auto") else dtype,
                block_tokens=size,
                cache_tokens=tokens,
                cache_bytes=_count(config, "kv_cache_memory_bytes"),
                max_concurrency=_number(config, "kv_cache_max_concurrency"),
            )
        )
    return found


def beside(engine: EngineCache, estimate: KvEstimate | None, tokens: int | None) -> EngineBeside:
    """An engine's figures beside an estimate.

    Args:
        engine: What it says.
        estimate: ``None`` when there is none for this model: its figures then stand alone.
        tokens: Of one request, prompt and output together; ``None`` when not asked.
    """
    notes: list[str] = []
    requests = None
    if tokens is not None:
        requests = _requests(engine, estimate, tokens, notes)
    per_token = engine.cache_bytes / engine.cache_tokens if engine.cache_bytes and engine.cache_tokens else None
    if estimate is None:
        return EngineBeside(figures=engine, bytes_per_token=per_token, requests=requests, notes=notes)
    if engine.dtype is not None and not _same_type(engine.dtype, estimate.shape.dtype.name):
        notes.append(f"its cache holds {engine.dtype}, the estimate is for {estimate.shape.dtype.name}")
    if engine.block_tokens is not None and engine.block_tokens != estimate.load.block_tokens:
        notes.append(
            f"its blocks hold {engine.block_tokens} tokens, those of the estimate {estimate.load.block_tokens}"
        )
    stored = engine.cache_tokens or engine.context_of_all_slots_tokens
    by_formula = estimate.gpu_bytes_per_token
    return EngineBeside(
        figures=engine,
        bytes_per_token=per_token,
        difference_share=None if per_token is None else per_token / by_formula - 1,
        estimated_bytes=None if stored is None else stored * by_formula,
        requests=requests,
        notes=notes,
    )


def _requests(engine: EngineCache, estimate: KvEstimate | None, tokens: int, notes: list[str]) -> int | None:
    if engine.context_limit_tokens is not None and tokens > engine.context_limit_tokens:
        notes.append(f"a request of {tokens:,} tokens is longer than the {engine.context_limit_tokens:,} it takes")
        return 0
    if engine.cache_tokens is None:
        return engine.slots
    if estimate is None:
        return None  # of layers of several kinds a request does not take its tokens' share of the cache
    block = engine.block_tokens or estimate.load.block_tokens
    room = engine.cache_tokens // block // -(-tokens // block)
    return room if engine.slots is None else min(room, engine.slots)


def _same_type(said: str, name: str) -> bool:
    return said == name or {said, name} <= {"fp8", "fp8_e4m3"}  # to vLLM the first is the second


def _count(config: Mapping[str, str], name: str) -> int | None:
    text = config.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and int(text) > 0 else None


def _number(config: Mapping[str, str], name: str) -> float | None:
    try:
        value = float(config.get(name, ""))
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None
