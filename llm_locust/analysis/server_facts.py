"""What the server says of itself before and after load: facts of the record, whether it stayed the same, residency."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from llm_locust.analysis.words import number, percent
from llm_locust.records import Manifest
from llm_locust.records.evidence import FIELD_TYPES
from llm_locust.records.facts import FACT_NAMES, FactValue
from llm_locust.records.server_sample import ServerSample

IDENTITY: Mapping[str, str] = MappingProxyType(
    {
        "engine": "engine",
        "engine_version": "engine version",
        "model_id": "model",
        "model_root": "model behind the name",
        "model_digest": "model digest",
        "model_file": "model file",
        "model_revision": "model revision",
        "weights_sha256": "weights",
        "quantization_dtype": "data type of the weights",
        "kv_cache_dtype": "data type of the KV cache",
        "context_limit_tokens": "context limit",
        "max_active_sequences": "slots",
        "chat_template_sha256": "chat template",
        "kv_cache_size_tokens": "KV-cache size in tokens",
        "prefix_caching": "prefix caching",
    }
)
"""Facts that make a server the one that was measured, with the words for them: one that changes makes it another."""

_UNRESOLVED = "auto"
"""What an engine writes for a setting that it chose itself: it says nothing of what was chosen."""


def server_facts(manifest: Manifest) -> dict[str, FactValue | None]:
    """What the server said of itself before load, by field of the record; what is no fact, or cannot be one, is left out."""
    told: dict[str, FactValue | None] = {
        "engine": manifest.versions.get("engine"),
        "engine_version": manifest.versions.get("engine_version"),
        "model_id": manifest.model,
    }
    for name, value in manifest.server_facts_start.items():
        if name in FACT_NAMES and (fact := _fact(name, value)) is not None:
            told[name] = fact
    return told


def _fact(name: str, value: Any) -> FactValue | None:
    """A fact as its field takes it (a metrics page writes numbers as text); ``None`` when it cannot be one."""
    if value is None or value == _UNRESOLVED:
        return None
    try:
        found: FactValue | None = msgspec.convert(value, FIELD_TYPES[name], strict=False)
    except msgspec.ValidationError:
        return None
    return found


def server_changes(manifest: Manifest) -> list[str]:
    """Facts that are others at the end of the run than they were at its start, as ``engine version from X to Y``.

    What was told only once is no change: a server that is gone at the end says nothing.
    """
    before, after = manifest.server_facts_start, manifest.server_facts_end
    return [
        f"{words} from {_shown(before[name])} to {_shown(after[name])}"
        for name, words in IDENTITY.items()
        if before.get(name) is not None and after.get(name) is not None and not _same(before[name], after[name])
    ]


def _same(one: Any, other: Any) -> bool:
    try:
        return math.isclose(float(one), float(other))
    except (TypeError, ValueError):
        return bool(one == other)


def _shown(value: Any) -> str:
    if isinstance(value, bool | int):
        return str(value)
    if isinstance(value, float):
        return number(value)
    text = str(value)
    return text[:12] + "..." if len(text) == 64 and text.isalnum() else repr(text)  # of a digest the beginning will do


def residency(manifest: Manifest, samples: Sequence[ServerSample] = ()) -> list[str]:
    """How much of the model Ollama held in accelerator memory, as sentences; how full its KV cache was, nobody tells.

    Args:
        manifest: Says what it was before and after load.
        samples: Say what it was meanwhile.
    """
    found = []
    for when, words in (("start", "before load"), ("end", "after load")):
        entry = manifest.ollama.get(when)
        held = _held(entry)
        if isinstance(entry, Mapping) and held is not None:
            context = entry.get("context_length")
            loaded = f", loaded with a context of {context} tokens" if isinstance(context, int) else ""
            found.append(f"Ollama {words}: {_in_words(held)} in accelerator memory{loaded}")
    seen = {held: held[0] / held[1] for s in samples if (held := _bytes(s.model_accelerator_bytes, s.model_bytes))}
    if seen:
        least, most = min(seen, key=lambda held: seen[held]), max(seen, key=lambda held: seen[held])
        both = _in_words(least) if least == most else f"between {_in_words(least)} and {_in_words(most)}"
        found.append(f"Ollama meanwhile: {both} in accelerator memory")
    return found


def residency_facts(manifest: Manifest) -> dict[str, str]:
    """Residency and offload as a record takes them; free texts, so that what a person wrote of them stands."""
    held = [found for when in ("start", "end") if (found := _held(manifest.ollama.get(when))) is not None]
    if not held:
        return {}
    # Of two readings the one with less on the accelerator: a part that was moved out was offloaded while it was measured.
    least = min(held, key=lambda found: found[0] / found[1])
    out = least[1] - least[0]
    return {
        "gpu_residency": _in_words(least),
        "offload": "none" if out == 0 else f"{_gb(out)} of {_gb(least[1])} GB of the model in main memory",
    }


def _held(entry: Any) -> tuple[float, float] | None:
    """Bytes in accelerator memory and in all; ``None`` where that was not told."""
    return _bytes(entry.get("size_vram"), entry.get("size")) if isinstance(entry, Mapping) else None


def _bytes(in_accelerator: Any, in_all: Any) -> tuple[float, float] | None:
    if not isinstance(in_accelerator, int | float) or not isinstance(in_all, int | float):
        return None
    return (in_accelerator, in_all) if in_all > 0 and 0 <= in_accelerator <= in_all else None


def _in_words(held: tuple[float, float]) -> str:
    return f"{percent(held[0] / held[1])} of the model (size_vram {_gb(held[0])} of {_gb(held[1])} GB)"


def _gb(size: float) -> str:
    return number(size / 1e9)
