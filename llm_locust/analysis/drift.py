"""Drift: how each figure of a stage moves from the first span of its window to the last.

What an hour shows that a minute hides: memory that fragments, caches that fill, a clock that throttles. A figure is said to
drift when there is an order in its spans (Kendall's rank test against time, two-sided, at 0.1 %); with ten spans that takes
more than chance, and says nothing of how much: the first and the last value do.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy import stats

from llm_locust.analysis.derived import Bools, Floats, mask
from llm_locust.analysis.quantiles import percentile
from llm_locust.analysis.spans import in_flight_means
from llm_locust.analysis.trend import SPANS
from llm_locust.analysis.window import Window, seconds_after
from llm_locust.records import Outcome
from llm_locust.records.figures import Drift, figure

SIGNIFICANCE = 0.001
"""Of each: ten figures are looked at, and one of them should not drift by chance more than once in a hundred stages."""
LEAST_SPANS = 6
"""Fewer known values cannot be told from chance at this level."""

_PERCENTILES = (
    ("ttft_p50_ms", "ttft_ms", 50),
    ("ttft_p95_ms", "ttft_ms", 95),
    ("tpot_p50_ms", "tpot_ms", 50),
    ("tpot_p95_ms", "tpot_ms", 95),
    ("e2e_p50_ms", "e2e_ms", 50),
    ("e2e_p95_ms", "e2e_ms", 95),
    ("dispatch_lag_p99_ms", "dispatch_lag_ms", 99),
)


def drift(rows: pd.DataFrame, in_batch: Bools, window: Window, spans: int = SPANS) -> list[Drift]:
    """Every figure over the spans of the window; requests count where they were sent.

    Args:
        rows: All rows of the stage, with their derived columns.
        in_batch: Which of them are measured.
        window: The window.
        spans: How many spans.
    """
    sent = seconds_after(rows["sent_ns"], window.start_ns)
    ended = seconds_after(rows["end_ns"], window.start_ns)
    ok = mask(rows["outcome"] == Outcome.OK)
    edges = np.linspace(0.0, window.seconds, spans + 1)
    parts: list[Bools] = [in_batch & (sent >= edges[k]) & (sent < edges[k + 1]) for k in range(spans)]
    found = [
        _drift(name, _of_each(parts, lambda part, c=column, p=percent: _percentile(rows, part & ok, c, p)))  # type: ignore[misc]
        for name, column, percent in _PERCENTILES
        if column in rows
    ]
    seconds = window.seconds / spans
    found.append(_drift("sent_rps", _of_each(parts, lambda part: float(part.sum()) / seconds)))
    found.append(_drift("error_rate", _of_each(parts, lambda part: _share(part & ~ok, part))))
    found.append(_drift("in_flight_mean", np.round(in_flight_means(sent, ended, window, spans), 9)))
    return found


def _of_each(parts: list[Bools], measure: Callable[[Bools], float]) -> Floats:
    return np.array([measure(part) for part in parts], dtype=np.float64)


def _percentile(rows: pd.DataFrame, chosen: Bools, column: str, percent: int) -> float:
    values = rows[column].to_numpy(dtype=np.float64, na_value=np.nan)[chosen]
    value = percentile(values[~np.isnan(values)], percent, bounds=False).value
    return float(value) if isinstance(value, float | int) else float("nan")


def _share(part: Bools, of: Bools) -> float:
    return float(part.sum() / of.sum()) if of.any() else float("nan")


def _drift(name: str, values: Floats) -> Drift:
    known = ~np.isnan(values)
    first = float(values[known][0]) if known.any() else float("nan")
    last = float(values[known][-1]) if known.any() else float("nan")
    direction = None
    p_value = float("nan")
    if known.sum() >= LEAST_SPANS:
        tested = stats.kendalltau(np.flatnonzero(known), values[known])
        p_value = 1.0 if np.isnan(tested.pvalue) else float(tested.pvalue)
        direction = "none" if p_value > SIGNIFICANCE else "rising" if tested.statistic > 0 else "falling"
    return Drift(
        name=name,
        first=figure(first),
        last=figure(last),
        change_share=(last - first) / first if known.any() and first else None,
        direction=direction,  # type: ignore[arg-type]
        p_value=None if np.isnan(p_value) else p_value,
        spans=[figure(float(value)) for value in values],
    )
