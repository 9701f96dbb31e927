"""Drift: how a figure moves over the spans of a window."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from llm_locust.analysis.drift import drift
from llm_locust.analysis.window import Window
from llm_locust.records.figures import Drift

S = 1_000_000_000


def rows(ttft_ms: list[float | None], outcome: list[str] | None = None) -> pd.DataFrame:
    """One request a second, from the window's start on; all last half a second."""
    n = len(ttft_ms)
    return pd.DataFrame(
        {
            "sent_ns": pd.array([k * S for k in range(n)], dtype="Int64"),
            "end_ns": pd.array([k * S + S // 2 for k in range(n)], dtype="Int64"),
            "outcome": outcome or ["ok"] * n,
            "ttft_ms": pd.array(ttft_ms, dtype="Float64"),
        }
    )


def of(name: str, table: pd.DataFrame) -> Drift:
    n = len(table)
    found = drift(table, np.ones(n, np.bool_), Window(0, n * S, "window"), spans=10)
    return next(one for one in found if one.name == name)


def test_a_figure_that_rises_from_span_to_span_drifts_and_says_by_how_much() -> None:
    found = of("ttft_p95_ms", rows([100.0 + 10 * k for k in range(10)]))
    assert (found.first, found.last, found.direction) == (100.0, 190.0, "rising")
    assert found.change_share == pytest.approx(0.9)
    assert found.spans == [100.0 + 10 * k for k in range(10)]
    assert found.p_value == pytest.approx(2 / 3628800)  # of 10! orders, only the two strict ones are as extreme


def test_falling_is_told_from_rising() -> None:
    assert of("ttft_p50_ms", rows([200.0 - k for k in range(10)])).direction == "falling"


def test_up_and_down_is_no_drift() -> None:
    found = of("ttft_p95_ms", rows([100.0, 120.0] * 5))
    assert (found.direction, found.last) == ("none", 120.0)


def test_a_figure_that_stands_still_does_not_drift() -> None:
    assert of("sent_rps", rows([1.0] * 10)).direction == "none"
    assert of("in_flight_mean", rows([1.0] * 10)).spans == [0.5] * 10


def test_errors_count_among_those_sent_in_the_span_and_have_no_latency() -> None:
    table = rows([100.0] * 9 + [None], ["ok"] * 9 + ["http_error"])
    found = of("error_rate", table)
    assert (found.first, found.last, found.change_share) == (0.0, 1.0, None)
    ttft = of("ttft_p95_ms", table)
    assert (ttft.last, ttft.spans[-1]) == (100.0, None)


def test_too_few_spans_with_a_value_say_nothing() -> None:
    found = of("ttft_p95_ms", rows([1.0, 2.0, 3.0, 4.0, 5.0] + [None] * 5, ["ok"] * 5 + ["timeout"] * 5))
    assert (found.direction, found.p_value, found.last) == (None, None, 5.0)
