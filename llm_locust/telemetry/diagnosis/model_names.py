"""Names of models: which are the same, which are close, and how a list of them is shown."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

MAX_NAMED = 5


def is_listed(model: str, models: Sequence[str]) -> bool:
    """``model`` is among ``models``; Ollama lists ``name:latest`` for what may be asked for as ``name``."""
    return model in models or f"{model}:latest" in models


def close_models(model: str, models: Sequence[str]) -> list[str]:
    """Up to three of ``models`` that may have been meant, closest first.

    Case does not count, and the part before a slash (``Qwen/Qwen2.5-7B``) may be missing on either side.
    """
    owners: dict[str, str] = {}
    for name in models:
        owners.setdefault(name.lower(), name)
        owners.setdefault(_last(name.lower()), name)
    asked = model.lower()
    near = [
        *difflib.get_close_matches(asked, owners, n=3),
        *difflib.get_close_matches(_last(asked), owners, n=3),
    ]
    return list(dict.fromkeys(owners[form] for form in near))[:3]


def models_named(models: Sequence[str]) -> str:
    """The first few names in quotes, and how many there are beside them."""
    names = ", ".join(map(repr, models[:MAX_NAMED]))
    more = len(models) - MAX_NAMED
    return f"{names} and {more} more" if more > 0 else names


def _last(name: str) -> str:
    return name.rpartition("/")[2]
