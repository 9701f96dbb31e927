"""Requests that found the model unloaded, apart from those that found it warm."""

from __future__ import annotations

import numpy as np
import pandas as pd

from llm_locust.analysis.derived import Bools, mask
from llm_locust.analysis.quantiles import percentile
from llm_locust.records import Outcome
from llm_locust.records.figures import ColdFigures, Percentile


def cold_figures(rows: pd.DataFrame, in_batch: Bools) -> ColdFigures | None:
    """What the server says of loading, over the measured requests; ``None`` where it never says."""
    said = in_batch & mask(rows["cold"].notna())
    known = int(said.sum())
    if known == 0:
        return None
    cold = said & mask(rows["cold"] == 1)
    warm = said & ~cold
    ok = mask(rows["outcome"] == Outcome.OK)
    return ColdFigures(
        known=known,
        cold=int(cold.sum()),
        share=float(cold.sum() / known),
        cold_ttft_p50_ms=_ttft(rows, cold & ok, 50),
        cold_ttft_p95_ms=_ttft(rows, cold & ok, 95),
        warm_ttft_p50_ms=_ttft(rows, warm & ok, 50),
        warm_ttft_p95_ms=_ttft(rows, warm & ok, 95),
    )


def _ttft(rows: pd.DataFrame, chosen: Bools, percent: int) -> Percentile:
    values = rows["ttft_ms"].to_numpy(dtype=np.float64, na_value=np.nan)[chosen]
    return percentile(values[~np.isnan(values)], percent)
