"""Have the model unloaded, so that the next request finds it cold. Only Ollama does that when it is asked to."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import gevent

from llm_locust.records import UsageError
from llm_locust.streaming import Proxy
from llm_locust.telemetry.probe import NoPage, Page, Probe
from llm_locust.telemetry.target import PAGE_S, ask_target

UNLOAD_S = 60.0
"""Freeing memory takes a second or two; before that, requests in flight end."""
POLL_S = 0.1

_REGISTRY, _LIBRARY, _LATEST = "registry.ollama.ai/", "library/", ":latest"


def unload_model(
    base_url: str,
    model: str,
    headers: Mapping[str, str],
    *,
    timeout_s: float = UNLOAD_S,
    ca_file: str | None = None,
    insecure: bool = False,
    proxy: Proxy | None = None,
    sleep: Callable[[float], object] = gevent.sleep,
    now: Callable[[], float] = time.monotonic,
) -> None:
    """Ask Ollama to unload the model, and wait until it is no longer among the loaded ones. Not loaded is unloaded.

    Args:
        base_url: as given for the load.
        model: its name; ``name`` and ``name:latest`` are the same.
        headers: sent along, as the key is.
        timeout_s: how long it may take, the end of requests in flight included.
        ca_file: PEM certificates to trust instead of the system's.
        insecure: do not verify the server's certificate.
        proxy: what the load goes through.
        sleep: waits that many seconds.
        now: monotonic seconds.

    Raises:
        UsageError: the server is of another engine, does not answer, has no such model, or still holds it when the time
            is over.
    """
    probe = Probe(base_url, headers, ca_file=ca_file, insecure=insecure, proxy=proxy)
    end = now() + timeout_s
    try:
        page = probe.get("/api/ps", timeout_s=PAGE_S)
        if page.status not in (200, 404, 405, 501):
            said = probe.safe(f"HTTP {page.status}: {page.message()}")
            raise UsageError(f"{base_url} could not be asked to unload {model!r}: {said}")
        if _loaded_models(page) is None:
            raise UsageError(_other_engine(base_url, headers, ca_file=ca_file, insecure=insecure, proxy=proxy))
        # While it loads the model, Ollama answers only once that is done.
        asked = probe.post("/api/generate", {"model": model, "keep_alive": 0}, timeout_s=max(timeout_s, PAGE_S))
    except NoPage as none:
        raise UsageError(f"{base_url} could not be asked to unload {model!r}: {none.failure.error}") from None
    if asked.status != 200:
        said = probe.safe(f"HTTP {asked.status}: {asked.message()}")
        raise UsageError(f"{base_url} did not unload {model!r} ({said}). ollama list shows the models that it has.")
    while _holds(probe, model):
        left = end - now()
        if left <= 0:
            raise UsageError(
                f"{base_url} still holds the model {model!r} {timeout_s:g} s after it was asked to unload it: requests are "
                "in flight, or somebody else is using it: wait, and run it again"
            )
        sleep(min(POLL_S, left))


def _holds(probe: Probe, model: str) -> bool:
    """The model is loaded; a page that does not come, as while memory is being freed, does not say that it is gone."""
    try:
        loaded = _loaded_models(probe.get("/api/ps", timeout_s=PAGE_S))
    except NoPage:
        return True
    return loaded is None or _full_name(model) in map(_full_name, loaded)


def _loaded_models(page: Page) -> list[str] | None:
    """The names under ``/api/ps``; ``None`` when the page is not Ollama's."""
    cards = page.json().get("models")
    if not isinstance(cards, list):
        return None
    return [name for card in cards if isinstance(card, dict) and isinstance(name := card.get("name"), str)]


def _full_name(name: str) -> str:
    """``Llama3.2``, ``library/llama3.2`` and ``llama3.2:latest`` are one model."""
    short = name.lower().removeprefix(_REGISTRY).removeprefix(_LIBRARY)
    return short if ":" in short.rpartition("/")[2] else short + _LATEST


def _other_engine(
    base_url: str, headers: Mapping[str, str], *, ca_file: str | None, insecure: bool, proxy: Proxy | None
) -> str:
    engine = ask_target(base_url, headers, ca_file=ca_file, insecure=insecure, proxy=proxy).engine
    which = base_url if engine in (None, "Ollama") else f"{base_url} ({engine})"
    return (
        f"{which} cannot be asked to unload its model: it has no /api/ps, and of the engines known here only Ollama unloads "
        "when asked. Restart the server before the test, or, if it unloads an idle model by itself, leave it idle that long."
    )
