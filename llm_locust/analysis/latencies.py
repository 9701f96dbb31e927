"""The percentiles of a batch, by name, in milliseconds, tokens or tokens per second."""

from __future__ import annotations

import numpy as np
import pandas as pd

from llm_locust.analysis.derived import MISSING, NOT_APPLICABLE, Bools, Floats, floats, mask
from llm_locust.analysis.gaps import GAPS_N, GapCounts, gap_percentiles
from llm_locust.analysis.quantiles import percentiles
from llm_locust.records import Outcome
from llm_locust.records.gates import PERCENTS
from llm_locust.records.summary import Percentile


def batch_percentiles(rows: pd.DataFrame, part: Bools, ok: Bools, gaps: GapCounts) -> dict[str, Percentile]:
    """Every percentile of a batch by name.

    Latencies are over ok requests, and those of ttft, tpot and e2e again with failures as infinity (``*_all``). Waits before
    sending are over every request that waited, whatever became of it; one given up while it was held back waited for ever.
    An ok request that lacks a value it should have is counted as missing beside the percentile.

    Args:
        rows: The rows of the stage.
        part: Which of them are the batch.
        ok: Which of the batch are ok.
        gaps: The gaps of the ok ones.
    """
    failed = int(part.sum()) - int(ok.sum())
    found: dict[str, Percentile] = {}

    def add(name: str, values: Floats, infinite: int = 0, missing: int = 0, tail: str = "", unit: str = "_ms") -> None:
        of = percentiles(values, PERCENTS, infinite=infinite, missing=missing)
        found.update({f"{name}_p{at}{unit}{tail}": value for at, value in of.items()})

    for name in ("ttft", "tpot", "e2e", "ntpot", "max_gap", "arrival_ttft", "arrival_e2e", "tail"):
        of_ok = rows[f"{name}_ms"].to_numpy()[ok]
        values = of_ok[~np.isnan(of_ok)]
        state = f"{name}_state"
        missing = int(mask(rows[state] == MISSING)[ok].sum()) if state in rows else len(of_ok) - len(values)
        add(name, values, missing=missing)
        if name in ("ttft", "tpot", "e2e"):
            add(name, values, infinite=failed, missing=missing, tail="_all")

    applies = ok & ~mask(rows["max_gap_state"] == NOT_APPLICABLE)
    without = int((applies & (rows[GAPS_N].to_numpy() == 0)).sum())
    found |= {f"itl_p{at}_ms": value for at, value in gap_percentiles(gaps, PERCENTS, missing=without).items()}

    given_up = part & mask(
        rows["dispatched_ns"].notna() & rows["sent_ns"].isna() & (rows["outcome"] == Outcome.NOT_SENT)
    )
    add("dispatch_lag", _known(rows["dispatch_lag_ms"].to_numpy()[part]))
    add("cap_wait", _known(rows["cap_wait_ms"].to_numpy()[part]), infinite=int(given_up.sum()))
    planned = int((given_up & mask(rows["planned_ns"].notna())).sum())
    add("client_wait", _known(rows["client_wait_ms"].to_numpy()[part]), infinite=planned)
    add("connect", _known(floats(rows["connect_ns"])[part]) / 1e6)

    for name, column in (("input_tokens", "prompt_tokens"), ("output_tokens", "output_tokens")):
        tokens = _known(floats(rows[column])[ok])
        add(name, tokens, unit="")
        found[f"{name}_max"] = percentiles(tokens, (100,), bounds=False)[100]
    with np.errstate(divide="ignore", invalid="ignore"):
        speed = _known(1000 / rows["ntpot_ms"].to_numpy()[ok])
    found |= {f"request_tps_p{at}": value for at, value in percentiles(speed, (5, 50, 95)).items()}
    return found


def _known(values: Floats) -> Floats:
    return values[~np.isnan(values)]
