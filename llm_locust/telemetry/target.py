"""Facts that a server tells when asked: which engine it is, its version, its models, and whether it is synthetic."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from llm_locust.streaming import Proxy
from llm_locust.telemetry.probe import NoPage, Page, Probe

PAGE_S = 3.0
"""How long one page may take."""

_OWNERS = {"vllm": "vLLM", "sglang": "SGLang", "llamacpp": "llama.cpp"}
"""What engines write as ``owned_by`` of their models."""


class TargetFacts(msgspec.Struct, kw_only=True):
    """What could be learned; ``None`` where the server did not say."""

    engine: str | None = None
    """``vLLM``, ``SGLang``, ``llama.cpp``, ``Ollama``, or the name that a synthetic engine gives itself."""
    version: str | None = None
    """The version as the engine writes it."""
    models: list[str] | None = None
    """The names under ``/v1/models``, in the server's order; ``None`` when it has no such page, or keeps it closed."""
    synthetic: bool = False


def ask_target(
    base_url: str,
    headers: Mapping[str, str],
    timeout_s: float = PAGE_S,
    *,
    ca_file: str | None = None,
    insecure: bool = False,
    proxy: Proxy | None = None,
) -> TargetFacts:
    """Ask once, without waiting for anything; what does not answer stays unknown.

    Raises:
        UsageError: a base URL that is none, a header with a line break, or a CA file that cannot be read.
    """
    probe = Probe(base_url, headers, ca_file=ca_file, insecure=insecure, proxy=proxy)
    return read_facts(probe, _page(probe, "/v1/models", timeout_s), timeout_s)


def read_facts(probe: Probe, models_page: Page | None, timeout_s: float = PAGE_S) -> TargetFacts:
    """The facts in an answer to ``/v1/models``, and what the engine behind it tells on pages of its own.

    vLLM (and the synthetic engine) have ``/version``, llama.cpp ``/props``, Ollama ``/api/version``.
    """
    facts = TargetFacts()
    if models_page is not None:
        cards = models_page.json().get("data")
        if isinstance(cards, list):
            named = [card for card in cards if isinstance(card, dict) and isinstance(card.get("id"), str)]
            facts.models = [card["id"] for card in named]
            owners = (str(card.get("owned_by")) for card in named)
            facts.engine = next((_OWNERS[owner] for owner in owners if owner in _OWNERS), None)
        if models_page.server == "llama.cpp":
            facts.engine = "llama.cpp"
    if facts.engine == "llama.cpp":
        facts.version = _string(_page(probe, "/props", timeout_s), "build_info")
        return facts
    page = _page(probe, "/version", timeout_s)
    facts.version = _string(page, "version")
    if facts.version is not None:
        facts.synthetic = page is not None and page.json().get("synthetic") is True
        facts.engine = _string(page, "engine") if facts.synthetic else facts.engine
    elif facts.engine is None:
        facts.version = _string(_page(probe, "/api/version", timeout_s), "version")
        facts.engine = "Ollama" if facts.version is not None else None
    return facts


def _page(probe: Probe, path: str, timeout_s: float) -> Page | None:
    try:
        return probe.get(path, timeout_s=timeout_s)
    except NoPage:
        return None


def _string(page: Page | None, key: str) -> str | None:
    value = page.json().get(key) if page is not None else None
    return value if isinstance(value, str) and value else None
