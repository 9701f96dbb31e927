"""What the server says of itself before and after load: version, model, context, slots, template, KV cache.

The names are those of the evidence record where it has one. What no page says is left out, and a page that does not come
costs nothing but its facts. A figure of one engine stays one engine's: nothing is added up.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from llm_locust.telemetry.metrics import detect, read_page
from llm_locust.telemetry.metrics.exposition import read_exposition
from llm_locust.telemetry.ollama import PS, LoadedModel, loaded_model
from llm_locust.telemetry.probe import NoPage, Page, Probe
from llm_locust.telemetry.target import PAGE_S, read_facts

FACTS_S = 6.0
"""How long all pages together may take."""

_CACHE_CONFIG = "vllm_cache_config_info"
_UNKNOWN = frozenset({"", "none", "unknown", "auto"})
"""How engines write that they do not say: ``auto`` is a choice left open."""


class ServerFacts:
    """The facts of one moment.

    Args:
        probe: Asks the server.
        model: What the load asks for; ``None`` takes the first that the server lists.
        metrics: Whether its metrics page may be asked.
        budget_s: How long all pages together may take.
    """

    def __init__(self, probe: Probe, model: str | None, *, metrics: bool = True, budget_s: float = FACTS_S) -> None:
        self._probe = probe
        self._end = time.monotonic() + budget_s
        self.loaded: LoadedModel | None = None
        """What Ollama holds in memory."""
        models_page = self._get("/v1/models")
        base = read_facts(probe, models_page, self._left())
        self.engine = base.engine
        listed = base.models or []
        self._model = model or (listed[0] if listed else None)
        self._known: dict[str, Any] = {
            "engine": base.engine,
            "engine_version": base.version,
            "model_id": self._model,
            "model_ids": listed or None,
        }
        self._read_card(_card(models_page, self._model))
        if base.engine == "llama.cpp":
            self._read_props(_json(self._get("/props")))
        elif base.engine == "Ollama":
            self._read_ollama()
        if metrics and base.engine != "Ollama":
            self._read_metrics(self._get("/metrics"))

    def plain(self) -> dict[str, Any]:
        """What is known, by name."""
        return {name: value for name, value in self._known.items() if value is not None}

    def _left(self) -> float:
        return min(PAGE_S, max(self._end - time.monotonic(), 0.05))

    def _get(self, path: str) -> Page | None:
        try:
            return self._probe.get(path, timeout_s=self._left())
        except NoPage:
            return None

    def _read_card(self, card: Mapping[str, Any]) -> None:
        """The model's entry under ``/v1/models``: vLLM's context limit, llama.cpp's data of the file."""
        meta = _object(card.get("meta"))
        root = _text(card.get("root"))
        self._known |= {
            "model_root": root if root != self._model else None,
            "context_limit_tokens": _count(card.get("max_model_len")),
            "quantization_dtype": _said(meta.get("ftype")),
            "model_parameters": _count(meta.get("n_params")),
            "model_file_bytes": _count(meta.get("size")),
            "model_context_tokens": _count(meta.get("n_ctx_train")),
        }

    def _read_props(self, props: Mapping[str, Any]) -> None:
        """llama.cpp: the limit of a request is a slot's context. Of one cache for all slots the page says nothing."""
        per_slot = _count(_object(props.get("default_generation_settings")).get("n_ctx"))
        slots = _count(props.get("total_slots"))
        path = _text(props.get("model_path"))
        self._known |= {
            "context_limit_tokens": per_slot,
            "max_active_sequences": slots,
            "context_of_all_slots_tokens": per_slot * slots if per_slot and slots else None,
            "chat_template_sha256": _sha256(props.get("chat_template")),
            "quantization_dtype": _said(props.get("model_ftype")) or self._known["quantization_dtype"],
            "model_file": PurePosixPath(path.replace("\\", "/")).name if path else None,
        }

    def _read_ollama(self) -> None:
        if self._model is not None:
            self._read_show(_json(self._show(self._model)))
        self.loaded = loaded_model(_json(self._get(PS)), self._model)
        if self.loaded is not None:
            self._known |= {"context_limit_tokens": self.loaded.context_tokens, "model_digest": self.loaded.digest}

    def _show(self, model: str) -> Page | None:
        try:
            return self._probe.post("/api/show", {"model": model}, timeout_s=self._left())
        except NoPage:
            return None

    def _read_show(self, show: Mapping[str, Any]) -> None:
        details, info = _object(show.get("details")), _object(show.get("model_info"))
        asked = re.search(r"^num_ctx\s+(\d+)", _text(show.get("parameters")) or "", re.MULTILINE)
        self._known |= {
            "quantization_dtype": _said(details.get("quantization_level")),
            "model_family": _said(details.get("family")),
            "model_size": _said(details.get("parameter_size")),
            "model_context_tokens": next(
                (_count(value) for name, value in info.items() if name.endswith(".context_length")), None
            ),
            "model_num_ctx_tokens": int(asked[1]) if asked else None,
            "chat_template_sha256": _sha256(show.get("template")),
        }

    def _read_metrics(self, page: Page | None) -> None:
        """What the metrics page says of the KV cache: the facts that all engines share, and each engine's own settings."""
        if page is None or page.status != 200 or (mapping := detect(page.body)) is None:
            return
        facts = read_page(page.body, mapping).facts
        self._known |= {
            "kv_cache_size_tokens": _count(_number(facts.get("kv_cache_size_tokens"))),
            "kv_cache_max_concurrency": _number(facts.get("kv_cache_max_concurrency")),
            "kv_cache_dtype": _said(facts.get("kv_cache_dtype")),
            "prefix_caching": {"true": True, "false": False}.get(facts.get("prefix_caching", "").lower()),
        }
        configs = {
            series.labels.get("engine", ""): {
                name: value for name, value in series.labels.items() if name != "engine" and value != "None"
            }
            for series in read_exposition(page.body, (_CACHE_CONFIG,)).series
        }
        self._known["cache_config_info"] = configs or None


def _card(page: Page | None, model: str | None) -> Mapping[str, Any]:
    """The entry of the model under ``/v1/models``; the only one stands for a name that is not listed."""
    cards = _json(page).get("data")
    known = [card for card in cards if isinstance(card, dict)] if isinstance(cards, list) else []
    named = [card for card in known if card.get("id") == model]
    return next(iter(named or (known if len(known) == 1 else [])), {})


def _json(page: Page | None) -> dict[str, Any]:
    return page.json() if page is not None else {}


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _said(value: Any) -> str | None:
    text = _text(value)
    return None if text is None or text.lower() in _UNKNOWN else text


def _sha256(value: Any) -> str | None:
    text = _text(value)
    return None if text is None else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value < 2**63:
        return None
    return int(value) if value == int(value) else None
