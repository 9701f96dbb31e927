"""Lengths of time as a person writes them: ``90``, ``90s``, ``5m``, ``1.5h``; the same words wherever one is asked for."""

from __future__ import annotations

import math
import re

from llm_locust.records.errors import UsageError

_SECONDS = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(s|m|h)?")
_UNIT_S = {None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_seconds(text: str, name: str, *, allow_zero: bool = False) -> float:
    """Seconds; or minutes or hours with ``m`` or ``h``.

    Args:
        text: What was written.
        name: What it was written for, as its writer knows it: ``--trace-from``.
        allow_zero: 0 is a value too.

    Raises:
        UsageError: another form, or 0 where that is none.
    """
    match = _SECONDS.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{name} {text!r}: write seconds, or a number with s, m or h (90, 90s, 5m)")
    value = float(match[1]) * _UNIT_S[match[2]]
    if math.isinf(value):
        raise UsageError(f"{name}: too many digits")
    if value == 0 and not allow_zero:
        raise UsageError(f"{name} {text}: must be greater than 0")
    return value
