"""Numbers in sentences: units beside them, rounding that never flatters, ``-`` for what was not measured."""

from __future__ import annotations

import math

from llm_locust.records.summary import Figure

NOT_MEASURED = "-"


def number(value: Figure | str, digits: int = 4) -> str:
    """A number at up to ``digits`` significant digits, whole parts in full; ``inf`` and ``-`` as such."""
    if value is None:
        return NOT_MEASURED
    if isinstance(value, str):
        return value
    if value == 0:
        return "0"  # also for the -0 that a difference of sums may leave
    if abs(value) >= 10**digits:
        return f"{value:.0f}"
    text = f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float | None, *, up: bool = False) -> str:
    """A share from 0 to 1 as ``97.5 %``, cut (or, with ``up``, raised) to two decimals.

    Rounding to the nearest would print 95 % for an attainment that just fails its 95 %.
    """
    if share is None:
        return NOT_MEASURED
    hundredths = share * 10_000
    # 0.29 * 10000 is 2899.9999999999995: what is a whole number but for its last bits is that number.
    nearest = round(hundredths)
    exact = nearest if math.isclose(hundredths, nearest, rel_tol=1e-12) else None
    cut = exact if exact is not None else (math.ceil(hundredths) if up else math.floor(hundredths))
    return f"{cut / 100:g} %"


def with_round(label: str, round_: int) -> str:
    """A stage's label, with its round if it is a repetition: ``2 req/s, round 2``.

    People count rounds from 1. In files the first is 0: the fields ``round``, names of records, test ids.
    """
    return f"{label}, round {round_ + 1}" if round_ else label


def round_mark(round_: int) -> str | None:
    """The same where there is little room: ``r2``; ``None`` for the first."""
    return f"r{round_ + 1}" if round_ else None


def counts(of: dict[str, int]) -> str:
    """``20 rejected, 10 timeout``, the commonest first."""
    return ", ".join(f"{count} {name}" for name, count in sorted(of.items(), key=lambda item: (-item[1], item[0])))
