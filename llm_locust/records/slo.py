"""Per-request limits, judged jointly: ``ttft=500,tpot=100,e2e=3000`` in milliseconds, and ``quality`` without a number."""

from __future__ import annotations

import math

from llm_locust.records.errors import UsageError
from llm_locust.records.quality import QUALITY, QUALITY_LIMIT

LATENCY_LIMITS: tuple[str, ...] = ("ttft", "tpot", "e2e", "max_gap", "arrival_ttft", "arrival_e2e")
"""The latency limits. The ``arrival_*`` ones are measured from the planned time instead of the sent time."""

SLO_NAMES: tuple[str, ...] = (*LATENCY_LIMITS, QUALITY)
"""All limits that can be chosen."""


def parse_slo(text: str | None) -> dict[str, float]:
    """``"ttft=500,quality"`` to ``{"ttft": 500.0, "quality": 1.0}`` (milliseconds, but for quality); empty for no limits.

    Raises:
        UsageError: an unknown name, a name given twice, or a value that is not a positive number of milliseconds.
    """
    limits: dict[str, float] = {}
    for item in filter(None, (part.strip() for part in (text or "").split(","))):
        name, equals, value = (part.strip() for part in item.partition("="))
        if item == QUALITY:
            value = f"{QUALITY_LIMIT}"
        elif not equals or name not in LATENCY_LIMITS:
            raise UsageError(
                f"--slo {item!r}: write NAME=MILLISECONDS with a name of {', '.join(LATENCY_LIMITS)}, or the bare word "
                f"{QUALITY}, for example --slo ttft=500,tpot=100,e2e=3000"
            )
        if name in limits:
            raise UsageError(f"--slo names {name} twice: {limits[name]:g} and {value}; keep one")
        try:
            limit = float(value)
        except ValueError:
            raise UsageError(
                f"--slo {item!r}: the limit is a bare number of milliseconds, without a unit (500 for half a second)"
            ) from None
        if not math.isfinite(limit) or limit <= 0:
            raise UsageError(f"--slo {item!r}: the limit must be a positive, finite number of milliseconds")
        limits[name] = limit
    return limits


def format_slo(limits: dict[str, float]) -> str:
    """The limits as :func:`parse_slo` reads them."""
    return ",".join(name if name == QUALITY else f"{name}={limit:g}" for name, limit in limits.items())


def latency_limits(limits: dict[str, float]) -> dict[str, float]:
    """Those of the limits that are milliseconds."""
    return {name: limit for name, limit in limits.items() if name in LATENCY_LIMITS}
