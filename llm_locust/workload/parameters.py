"""Options written as ``NAME:key=number,...`` or ``key=number,...``: lengths, shared prefixes, sessions."""

from __future__ import annotations

import math
from collections.abc import Mapping

from llm_locust.records import UsageError


def read_parameters(text: str, known: Mapping[str, float | None], form: str) -> dict[str, float]:
    """``"low=100,high=900"`` as numbers, in the order of ``known``.

    Args:
        text: as a person wrote it.
        known: the parameters by name, with their defaults; ``None`` for one that must be given, NaN for one that may be
            left out.
        form: an example of how it is written.

    Raises:
        UsageError: an unknown parameter, one given twice or missing, or no number.
    """
    found: dict[str, float] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, written = (part.strip() for part in item.partition("="))
        if not equals or name not in known:
            raise UsageError(f"{item!r} is none of {', '.join(known) or 'its parameters'}: write it like {form}")
        if name in found:
            raise UsageError(f"{name} is given twice; give it once")
        try:
            value = float(written)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise UsageError(f"{name}={written}: not a number")
        found[name] = value
    missing = [name for name, default in known.items() if default is None and name not in found]
    if missing:
        raise UsageError(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing: write it like {form}"
        )
    filled = {name: found.get(name, default) for name, default in known.items()}
    return {name: value for name, value in filled.items() if value is not None and not math.isnan(value)}
