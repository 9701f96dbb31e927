"""Per-request figures: durations out of one worker's own times, before any clock is aligned.

Durations are differences of integer nanoseconds and become milliseconds by one correctly rounded division, so that a value
equal to its limit compares equal to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from llm_locust.records import Outcome

NS_PER_MS = 1_000_000

VALUE, NOT_APPLICABLE, MISSING = "value", "not_applicable", "missing"

_STATES = np.array([None, NOT_APPLICABLE, VALUE, MISSING], dtype=object)

DERIVED_COLUMNS: tuple[str, ...] = (
    "ttft_ms",
    "tpot_ms",
    "e2e_ms",
    "ntpot_ms",
    "tail_ms",
    "dispatch_lag_ms",
    "cap_wait_ms",
    "client_wait_ms",
    "arrival_ttft_ms",
    "arrival_e2e_ms",
    "max_gap_ms",
    "tpot_state",
    "max_gap_state",
    "good",
)
"""The columns that ``requests.csv`` has after those of the raw record, in order. ``*_ms`` are milliseconds."""

DERIVED_STRING_COLUMNS = frozenset({"tpot_state", "max_gap_state"})

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def floats(column: pd.Series[int]) -> Floats:
    """A nullable integer column of small numbers as floats, NaN where null. Never for Unix nanoseconds."""
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)


def mask(condition: pd.Series[bool]) -> Bools:
    """A nullable condition as plain booleans; null is False."""
    return condition.to_numpy(dtype=np.bool_, na_value=False)


def add_durations(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with every derived column but ``good``; times must still be those of each row's own worker.

    ``tpot_state`` and ``max_gap_state`` are ``value``, ``not_applicable`` (fewer than two tokens: there is no gap) or
    ``missing`` (a token count or a second receive time is not there: something buffered the reply), for ok requests only.
    """
    columns: dict[str, Any] = {}
    for name, later, earlier in (
        ("ttft_ms", "first_output_ns", "sent_ns"),
        ("e2e_ms", "complete_ns", "sent_ns"),
        ("tail_ms", "end_ns", "complete_ns"),
        ("dispatch_lag_ms", "dispatched_ns", "planned_ns"),
        ("cap_wait_ms", "sent_ns", "dispatched_ns"),
        ("client_wait_ms", "sent_ns", "planned_ns"),
        ("arrival_ttft_ms", "first_output_ns", "planned_ns"),
        ("arrival_e2e_ms", "complete_ns", "planned_ns"),
    ):
        columns[name] = floats(rows[later] - rows[earlier]) / NS_PER_MS

    ok = mask(rows["outcome"] == Outcome.OK)
    tokens = floats(rows["output_tokens"])
    one_token = ok & (tokens < 2)
    # Two receive times are needed: a proxy that buffers hands a whole reply over at one instant.
    streamed = mask(rows["last_output_ns"] > rows["first_output_ns"])
    generation_ns = floats(rows["complete_ns"] - rows["first_output_ns"])
    with np.errstate(divide="ignore", invalid="ignore"):
        columns["tpot_ms"] = np.where(ok & streamed & (tokens >= 2), generation_ns / ((tokens - 1) * NS_PER_MS), np.nan)
        columns["ntpot_ms"] = np.where(
            tokens >= 1, floats(rows["complete_ns"] - rows["sent_ns"]) / (tokens * NS_PER_MS), np.nan
        )
    gap_ms = floats(rows["max_gap_ns"]) / NS_PER_MS
    columns["max_gap_ms"] = np.where(streamed & ~one_token, gap_ms, np.nan)
    for name in ("tpot", "max_gap"):
        known = ~np.isnan(np.asarray(columns[f"{name}_ms"], dtype=np.float64))
        state = np.select([~ok, one_token, known], [0, 1, 2], default=3)
        # The same few objects over and over, not a text of its own for every row.
        columns[f"{name}_state"] = pd.Series(_STATES[state], index=rows.index, dtype="str")
    return rows.assign(**columns)


def buffered(rows: pd.DataFrame) -> Bools:
    """Ok requests whose several tokens all came at one receive time."""
    found: Bools = (
        mask(rows["outcome"] == Outcome.OK)
        & (floats(rows["output_tokens"]) >= 2)
        & mask(rows["last_output_ns"] == rows["first_output_ns"])
    )
    return found
