"""Which requests are good: every chosen limit met, judged request by request.

Two marginal percentiles are not a joint attainment: 19 of 20 may meet each of two limits and only 18 meet both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from llm_locust.analysis.derived import MISSING, NOT_APPLICABLE, VALUE, Bools, mask
from llm_locust.records import Outcome
from llm_locust.records.quality import ERROR, FAIL, QUALITY
from llm_locust.records.summary import LimitCount


class Judged(NamedTuple):
    """The requests of a table against the chosen limits."""

    good: npt.NDArray[np.int8]
    """1 good, 0 not, -1 cannot be said; one per row."""
    limits: list[LimitCount]
    unavailable: str | None
    """Why the goodput of these rows taken together cannot be given; ``None`` when it can."""

    @property
    def good_count(self) -> int | None:
        """How many are good; ``None`` when that cannot be said."""
        return None if self.unavailable else int((self.good == 1).sum())


def judge(rows: pd.DataFrame, slo: dict[str, float], part: Bools | None = None) -> Judged:
    """Judge rows that have the derived columns by limits in milliseconds; a value equal to its limit meets it.

    Only the rows of ``part`` are judged and counted, if it is given; the others are not good.

    Not ok is not good. An ok request that lacks the value of a chosen limit cannot be judged, nor one to which no chosen
    limit applies; either makes the goodput of the rows unavailable. A limit that does not apply to a request (TPOT of a
    one-token reply, quality of a reply that its check said nothing of) takes no part in judging it.
    """
    ok = mask(rows["outcome"] == Outcome.OK)
    if part is not None:
        ok = ok & part
    if not slo:
        return Judged(np.full(len(rows), -1, np.int8), [], "no limits were chosen (--slo)")
    met = ok.copy()
    unknown = np.zeros(len(rows), np.bool_)
    applied = np.zeros(len(rows), np.bool_)
    limits: list[LimitCount] = []
    reasons: list[str] = []
    total = int(ok.sum())
    for name, limit in slo.items():
        if name == QUALITY:
            has_value, not_applicable, missing = _quality_states(rows, ok)
            over = has_value & mask(rows["quality"] == FAIL)
        else:
            values = rows[f"{name}_ms"].to_numpy(dtype=np.float64)
            has_value, not_applicable, missing = _states(rows, name, values, ok)
            over = has_value & (values > limit)
        met &= ~over
        unknown |= missing
        applied |= has_value
        limits.append(
            LimitCount(
                name=name,
                limit_ms=limit,
                judged=int(has_value.sum()),
                missed=int(over.sum()),
                not_applicable=int(not_applicable.sum()),
                missing=int(missing.sum()),
            )
        )
        if missing.any():
            reasons.append(f"{name} is missing for {int(missing.sum())} of {total} ok requests")
    untouched = ok & ~applied & ~unknown
    if untouched.any():
        why = "one-token replies" + (" or replies that were not checked" if QUALITY in slo else "")
        reasons.append(f"no chosen limit applies to {int(untouched.sum())} of {total} ok requests ({why})")
    good = np.where(unknown | untouched, -1, met).astype(np.int8)
    return Judged(good, limits, "; ".join(reasons) or None)


def _quality_states(rows: pd.DataFrame, ok: Bools) -> tuple[Bools, Bools, Bools]:
    """As :func:`_states`: where nothing at all was checked, every reply lacks what it should have."""
    quality = rows["quality"]
    empty, failed = quality.isna().to_numpy(dtype=np.bool_), mask(quality == ERROR)
    nothing = np.zeros(len(rows), np.bool_)
    if empty.all():
        return nothing, nothing, ok.copy()
    return ok & ~empty & ~failed, ok & empty, ok & failed


def _states(rows: pd.DataFrame, name: str, values: npt.NDArray[np.float64], ok: Bools) -> tuple[Bools, Bools, Bools]:
    """Ok requests by what they have for one limit: a value, nothing because it does not apply, nothing though it should."""
    if f"{name}_state" in rows:
        state = rows[f"{name}_state"]
        return (ok & mask(state == VALUE), ok & mask(state == NOT_APPLICABLE), ok & mask(state == MISSING))
    known = ~np.isnan(values)
    return ok & known, np.zeros(len(rows), np.bool_), ok & ~known
