"""Cold requests: those that had to wait until the server had loaded the model."""

from __future__ import annotations

COLD_LOAD_NS = 250_000_000
"""Ollama's ``load_duration`` runs from the request's arrival until a loaded model is at hand. A model that is loaded already
takes a few milliseconds, on a busy machine some tens; reading weights takes seconds."""


def was_cold(load_duration_ns: int | None) -> bool | None:
    """Whether the load that the server reports is a real one, at least :data:`COLD_LOAD_NS`.

    A request that came while the model was being loaded for another one waited for it too, and is cold by as much as it
    waited. ``None`` where the server does not say: every API but Ollama's own, and a reply that was not finished.
    """
    return None if load_duration_ns is None else load_duration_ns >= COLD_LOAD_NS
