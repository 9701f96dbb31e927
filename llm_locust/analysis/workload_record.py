"""What the evidence record says of the workload: sampling, cache state, shared prefixes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from llm_locust.records import WorkloadFacts


def workload_fields(facts: WorkloadFacts) -> dict[str, Any]:
    """The record's fields ``sampling``, ``cache_state`` and ``shared_prefix_share``, as far as they are known."""
    found = {
        "sampling": sampling_text(facts.sampling),
        "cache_state": facts.cache_state,
        "shared_prefix_share": facts.shared_prefix_share,
    }
    return {name: value for name, value in found.items() if value is not None}


def sampling_text(sampling: Mapping[str, Any]) -> str | None:
    """``temperature 0, top_p 0.9, seed 1``; ``None`` when nobody looked at a request."""
    if not sampling:
        return None
    return ", ".join(_said(name, value) for name, value in sampling.items())


def _said(name: str, value: Any) -> str:
    if value is None:
        return f"{name} of the server's default"
    if isinstance(value, dict) and "any of" in value:
        each = " or ".join("the server's default" if one is None else _plain(one) for one in value["any of"])
        return f"{name} {each} (by request)"
    return f"{name} {_plain(value)}"


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else msgspec.json.encode(value).decode()


def prompts_note(facts: WorkloadFacts, distinct: int, requests: int) -> str | None:
    """A sentence when requests shared prompts although nobody asked for it.

    Args:
        facts: of the workload.
        distinct: different ``prompt_index`` (and ``turn``) among the run's rows.
        requests: rows of the run.
    """
    if facts.prompts is None or distinct >= requests:
        return None
    return (
        f"{requests:,} requests were made of {distinct:,} prompts ({facts.source} has {facts.prompts:,}): one that came "
        "again may have been answered from the server's prefix cache."
    )
