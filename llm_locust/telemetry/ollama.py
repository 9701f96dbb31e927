"""Ollama, which has no metrics page: what its ``/api/ps`` says of the loaded model, and settings that only its owner knows.

``size_vram / size`` is where the model lies (its residency), decided when it was loaded. It is no usage of the KV cache,
which Ollama does not tell. The page speaks of models that are loaded: before the first request there is none.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from llm_locust.records.server_sample import ServerSample

PS = "/api/ps"

VARIABLES = ("OLLAMA_NUM_PARALLEL", "OLLAMA_CONTEXT_LENGTH", "OLLAMA_MAX_QUEUE")
"""Settings of the server that none of its pages tells. Set where the load is made, they are recorded as given."""


class LoadedModel(msgspec.Struct, frozen=True, kw_only=True):
    """One model in Ollama's memory; ``None`` where the page does not say."""

    name: str | None
    digest: str | None
    size_bytes: int | None
    """Its cache included."""
    size_vram_bytes: int | None
    context_tokens: int | None
    """The context that it was loaded with, of one request."""

    @property
    def residency(self) -> float | None:
        """The share of it that is in accelerator memory."""
        if not self.size_bytes or self.size_vram_bytes is None:
            return None
        return self.size_vram_bytes / self.size_bytes

    def plain(self) -> dict[str, Any]:
        """For the manifest, under Ollama's own names and ``residency``."""
        return {
            "name": self.name,
            "digest": self.digest,
            "size": self.size_bytes,
            "size_vram": self.size_vram_bytes,
            "context_length": self.context_tokens,
            "residency": self.residency,
        }


def as_given(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The settings in this process's environment. Nobody checks that the server runs with them."""
    return {name: environment[name] for name in VARIABLES if environment.get(name)}


def loaded_model(page: Mapping[str, Any], model: str | None) -> LoadedModel | None:
    """The model on a page of ``/api/ps``; ``None`` when it is not loaded.

    Args:
        page: The JSON of the answer.
        model: What was asked for, with or without ``:latest``; ``None`` takes the only one that is loaded.
    """
    cards = page.get("models")
    known = [card for card in cards if isinstance(card, dict)] if isinstance(cards, list) else []
    if model is not None:
        known = [card for card in known if _plain_name(model) in (_plain_name(card.get(k)) for k in ("name", "model"))]
    if len(known) != 1:
        return None
    (card,) = known
    return LoadedModel(
        name=_text(card.get("name")),
        digest=_text(card.get("digest")),
        size_bytes=_count(card.get("size")),
        size_vram_bytes=_count(card.get("size_vram")),
        context_tokens=_count(card.get("context_length")) or None,
    )


def ollama_sample(
    page: Mapping[str, Any], model: str | None, *, at_ns: int, target: str, scrape_ms: float | None = None
) -> ServerSample:
    """The row of ``server.csv`` for an answer of ``/api/ps``; without figures while the model is not loaded."""
    if not isinstance(page.get("models"), list):
        return ServerSample(at_ns=at_ns, target=target, scrape_ms=scrape_ms, error="not an answer of Ollama's /api/ps")
    found = loaded_model(page, model)
    return ServerSample(
        at_ns=at_ns,
        target=target,
        engine="ollama",
        verified=False,
        scrape_ms=scrape_ms,
        context_tokens=found.context_tokens if found else None,
        model_bytes=found.size_bytes if found else None,
        model_accelerator_bytes=found.size_vram_bytes if found else None,
        residency=found.residency if found else None,
    )


def _plain_name(name: object) -> str | None:
    return name.removesuffix(":latest") if isinstance(name, str) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None
