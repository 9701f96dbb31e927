"""Requests that found the model unloaded, apart from the others."""

from __future__ import annotations

import numpy as np
import pandas as pd

from llm_locust.analysis.cold import cold_figures


def rows(cold: list[int | None], ttft_ms: list[float | None], outcome: list[str]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "cold": pd.array(cold, dtype="Int64"),
            "ttft_ms": pd.array(ttft_ms, dtype="Float64"),
            "outcome": outcome,
        }
    )


def test_cold_and_warm_are_told_apart_and_the_share_is_of_those_where_the_server_says() -> None:
    table = rows([1, 0, 0, 0, None, 1], [4000, 50, 60, 70, 55, None], ["ok"] * 5 + ["timeout"])
    found = cold_figures(table, np.ones(6, np.bool_))
    assert found is not None
    assert (found.known, found.cold, found.share) == (5, 2, 0.4)
    assert (found.cold_ttft_p50_ms.value, found.cold_ttft_p50_ms.n) == (4000, 1)
    assert (found.warm_ttft_p50_ms.value, found.warm_ttft_p95_ms.value, found.warm_ttft_p50_ms.n) == (60, 70, 3)


def test_only_measured_requests_count() -> None:
    table = rows([1, 0], [4000, 50], ["ok", "ok"])
    found = cold_figures(table, np.array([False, True]))
    assert found is not None
    assert (found.known, found.cold, found.cold_ttft_p50_ms.value) == (1, 0, None)


def test_a_server_that_never_says_leaves_nothing_to_say() -> None:
    assert cold_figures(rows([None], [50], ["ok"]), np.array([True])) is None
