"""Facts that a server tells when asked: its version, its models, and whether it is a synthetic engine."""

from __future__ import annotations

from typing import Any

import msgspec
import requests


class TargetFacts(msgspec.Struct, kw_only=True):
    """What could be learned; ``None`` where the server did not say."""

    version: str | None = None
    models: list[str] | None = None
    synthetic: bool = False


def ask_target(base_url: str, headers: dict[str, str], timeout_s: float = 3.0) -> TargetFacts:
    """Ask ``/version`` (vLLM, the synthetic engine) and ``/v1/models``. What does not answer stays unknown."""
    base = base_url.rstrip("/")
    version = _get_json(f"{base.removesuffix('/v1')}/version", headers, timeout_s)
    models = _get_json(f"{base.removesuffix('/v1')}/v1/models", headers, timeout_s)
    facts = TargetFacts()
    if isinstance(version, dict):
        facts.version = str(version["version"]) if "version" in version else None
        facts.synthetic = version.get("synthetic") is True
    if isinstance(models, dict) and isinstance(models.get("data"), list):
        facts.models = [str(model.get("id")) for model in models["data"] if isinstance(model, dict)]
    return facts


def _get_json(url: str, headers: dict[str, str], timeout_s: float) -> Any:
    session = requests.Session()
    session.trust_env = False  # proxies only when asked for
    try:
        reply = session.get(url, headers=headers, timeout=timeout_s, allow_redirects=False)
        return reply.json() if reply.status_code == 200 else None
    except (requests.RequestException, ValueError):
        return None
    finally:
        session.close()
