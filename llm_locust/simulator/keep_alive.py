"""How long a model stays loaded once nothing uses it, as Ollama's ``keep_alive`` says it."""

from __future__ import annotations

import re
from typing import Any

FOREVER_NS = 2**63 - 1
"""What a negative duration means; it is the longest that Go can hold."""

_UNITS_NS = {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")


def parse_keep_alive(value: Any) -> int | None:
    """Nanoseconds of ``5``, ``-1``, ``"1h30m"`` or ``"0"``; ``None`` for nothing said.

    A number counts seconds; a text is a duration of Go, whose parts all have units. Negative ones are :data:`FOREVER_NS`.

    Raises:
        ValueError: it is neither.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"keep_alive must be a number of seconds or a duration, got {value!r}")
    nanoseconds = _duration_ns(value) if isinstance(value, str) else value * 1e9
    return FOREVER_NS if nanoseconds < 0 else round(min(nanoseconds, FOREVER_NS))


def _duration_ns(text: str) -> float:
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if digits == "0":
        return 0
    if not digits or _PART.sub("", digits):
        raise ValueError(f"keep_alive {text!r} is not a duration such as 5m or 1h30m")
    return sign * sum(float(amount) * _UNITS_NS[unit] for amount, unit in _PART.findall(digits))
