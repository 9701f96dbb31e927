"""The KV cache: full, or shared prefixes that it does not find again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from llm_locust.analysis.derived import floats, mask
from llm_locust.analysis.diagnosis.case import Case, StageCase, Symptom, found, named
from llm_locust.analysis.words import number, percent
from llm_locust.records.diagnosis import Finding

NEARLY_FULL_PCT = 95.0

THRASH_SHARE = 0.1
"""Preemptions per finished request from which the cache is said to thrash."""

SHARED_AT_LEAST = 0.1
"""Share of the input that prompts have in common before a cache is expected to find it."""

HITS_OF_EXPECTED = 0.25
"""Less than this part of what is shared was found again: the prefixes are not recognised."""

USES_OF_A_PREFIX = 5
"""Each prefix must have been sent so often, on average, before its hits can be expected."""

USUAL_BLOCK_TOKENS = 16


def kv_cache_full(case: Case) -> Iterator[Finding]:
    """The server put requests aside for want of KV cache, or its cache was nearly full while requests waited."""
    yield from found(
        "kv_cache_full",
        "The KV cache was full",
        "KV cache",
        (
            "Lower the rate (or the concurrency) alone, until nothing is put aside and nothing waits: that much it holds",
            "Then shorten outputs or prompts alone, at the old rate",
            "Then give the cache more room alone (gpu_memory_utilization, an 8-bit KV cache, a shorter context limit)",
        ),
        (symptom for stage in case.stages if (symptom := _full(stage)) is not None),
    )


def _full(stage: StageCase) -> Symptom | None:
    server = stage.summary.server
    if server is None:
        return None
    peak, put_aside = server.kv_cache_peak_pct, server.preemptions
    nearly = peak is not None and peak >= NEARLY_FULL_PCT
    waited = bool(server.waiting_peak)
    if not put_aside and not (nearly and waited):
        return None
    said = []
    if put_aside:
        finished = server.requests or 0
        per = f", {number(put_aside / finished)} for each of {finished} finished requests" if finished else ""
        thrash = finished and put_aside >= THRASH_SHARE * finished
        said.append(f"{put_aside} preemptions{per}{': its work is thrown away and done again' if thrash else ''}")
    if peak is not None:
        said.append(f"KV cache at most {number(peak, 3)} % full")
    if waited:
        said.append(f"up to {server.waiting_peak} requests waiting")
    full = [s.at_ns for s in stage.samples if s.kv_usage_max is not None and 100 * s.kv_usage_max >= NEARLY_FULL_PCT]
    return Symptom(stage, "; ".join(said), "shown" if put_aside else "possible", samples_ns=full)


def prefix_cache_without_hits(case: Case) -> Iterator[Finding]:
    """Prompts share prefixes, and hardly any of their tokens came from the cache."""
    symptoms = [symptom for stage in case.stages if (symptom := _without_hits(case, stage)) is not None]
    off = _stated(case, "prefix_caching") is False
    first = ("Switch prefix caching on, and run the same stage again: it is said to be off",) if off else ()
    yield from found(
        "prefix_cache_without_hits",
        "Prompts share prefixes, but the prefix cache does not find them",
        "KV cache",
        (
            *first,
            "Send one prompt twice, alone: no hit then means that the cache is off, or that something stands in front of "
            "the shared part (an id, a time, a system prompt that changes)",
            f"Then lengthen the shared part to several blocks (usually {USUAL_BLOCK_TOKENS} tokens each): only full blocks "
            "of identical tokens are found again",
            "Then send everything for one model and one adapter: others do not share the cache",
        ),
        symptoms,
    )


def _without_hits(case: Case, stage: StageCase) -> Symptom | None:
    shared = case.manifest.workload.shared_prefix_share
    if shared is None or shared < SHARED_AT_LEAST:
        return None
    measured = stage.batch & stage.ok
    group = stage.rows["prefix_group"].where(measured)
    grouped, groups = int(group.notna().sum()), int(group.nunique())
    if not groups or grouped < USES_OF_A_PREFIX * groups:
        return None
    rows = stage.rows[["prompt_tokens", "cached_tokens"]][measured]
    rate, source = _hit_rate(stage, rows)
    off = _stated(case, "prefix_caching") is False
    if rate is None and not off:
        return None
    if rate is not None and rate >= HITS_OF_EXPECTED * shared:
        return None
    repeats = mask(group.notna()) & group.duplicated().to_numpy(dtype=np.bool_)
    tokens = floats(rows["prompt_tokens"])
    length = float(np.nanmedian(tokens)) if len(tokens) and not np.isnan(tokens).all() else None
    part = "" if length is None else f" (about {number(round(shared * length))} tokens of a prompt)"
    hits = "" if rate is None else f"{source} {percent(rate)} of the prompt tokens from the cache"
    said = (
        f"{percent(shared)} of the input{part} is shared by {grouped} requests in {groups} groups, but "
        f"{' and '.join(filter(None, (hits, 'prefix caching is said to be off' if off else '')))}"
    )
    return Symptom(stage, said, "shown" if off else "likely", named(stage.rows, repeats))


def _hit_rate(stage: StageCase, rows: pd.DataFrame) -> tuple[float | None, str]:
    """Tokens from the cache / prompt tokens: as the server counts, or else as it reports with each reply."""
    server = stage.summary.server
    if server is not None and server.prefix_cache_hit_rate is not None:
        return server.prefix_cache_hit_rate, "the server's counters say"
    cached, tokens = floats(rows["cached_tokens"]), floats(rows["prompt_tokens"])
    known = ~np.isnan(cached) & ~np.isnan(tokens)
    if not known.any() or tokens[known].sum() == 0:
        return None, ""
    return float(cached[known].sum() / tokens[known].sum()), "its usage reports say"


def _stated(case: Case, name: str) -> object:
    value = case.manifest.facts.get(name, case.manifest.server_facts_start.get(name))
    return {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, str) else value
