"""Deadlines met along a stream: etalon's fluidity index, as its complement, the deadline-miss share.

Source: Agrawal et al., "Etalon: Holistic Performance Evaluation Framework for LLM Inference Systems" (2024), section 4.
With a limit P on the first token and D on each token after it, token i is due at ``sent + P + i * D``: a token that comes
early leaves slack to those after it. A token that comes late resets the deadlines of the rest from its own arrival, and
counts as many misses as deadlines passed while nothing came: ``floor((gap - slack) / D)``, for a late first token
``1 + floor((ttft - P) / D)``. The index is the share of deadlines met.

One output event may carry several tokens. D is scaled by a request's mean tokens per event, so that its events are held to
the pace that its tokens are; deadlines are counted in events.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from llm_locust.analysis.derived import Bools, Floats, floats
from llm_locust.analysis.gaps import GAPS_AT, GAPS_N, ROWS_AT_ONCE, Us
from llm_locust.records.summary import DeadlineFigures

ROUNDING_MS = 1e-6
"""A nanosecond: what sums of floats may be off by is not late."""


def deadline_misses(
    rows: pd.DataFrame, chosen: Bools, us: Us, ttft_limit_ms: float, tpot_limit_ms: float
) -> DeadlineFigures | None:
    """Deadlines and misses of the chosen (ok) rows; ``None`` when none of them can be judged.

    A reply of several events whose gaps were not kept, or one without TTFT, cannot be judged and is counted apart.
    """
    n = rows[GAPS_N].to_numpy()
    ttft = rows["ttft_ms"].to_numpy()
    events = floats(rows["output_events"])
    judged = chosen & ~np.isnan(ttft) & ((n > 0) | (events <= 1))
    places = np.flatnonzero(judged)
    tokens = np.nan_to_num(floats(rows["output_tokens"])[places], nan=1.0)
    per_gap = np.maximum(1.0, (tokens - 1) / np.maximum(n[places], 1))
    at = rows[GAPS_AT].to_numpy()[places]
    total = missed = perfect = 0
    for start in range(0, len(places), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        due, late = stream_misses(
            ttft[places[part]], us, at[part], n[places[part]], ttft_limit_ms, tpot_limit_ms * per_gap[part]
        )
        total += int(due.sum())
        missed += int(late.sum())
        perfect += int((late == 0).sum())
    if total == 0:
        return None
    return DeadlineFigures(
        deadlines=total,
        missed=missed,
        share=missed / total,
        requests=len(places),
        requests_without_miss=perfect,
        missing=int(chosen.sum()) - len(places),
    )


def stream_misses(
    ttft_ms: Floats,
    us: Us,
    at: npt.NDArray[np.int64],
    n: npt.NDArray[np.int64],
    ttft_limit_ms: float,
    gap_limit_ms: Floats,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Deadlines and misses of each of some streams.

    Args:
        ttft_ms: Time to the first token of each.
        us: All gaps in microseconds.
        at: Where the gaps of each begin.
        n: How many it has.
        ttft_limit_ms: The limit on the first token.
        gap_limit_ms: The limit on each event after it, of each stream.
    """
    late_first = ttft_ms > ttft_limit_ms
    missed = np.where(late_first, 1 + np.floor((ttft_ms - ttft_limit_ms) / gap_limit_ms), 0.0)
    due = np.where(late_first, missed, 1.0)
    slack = np.where(late_first, 0.0, ttft_limit_ms - ttft_ms)
    # Longest first: the streams that still have a k-th gap are then the first ones.
    order = np.argsort(-n, kind="stable")
    missed, due, slack, limit = missed[order], due[order], slack[order], gap_limit_ms[order]
    first, lengths = at[order], -n[order]
    for k in range(int(n.max()) if len(n) else 0):
        alive = int(np.searchsorted(lengths, -k))
        gap = us[first[:alive] + k] / 1000
        left = slack[:alive] + limit[:alive] - gap
        late = left < -ROUNDING_MS
        passed = np.where(late, np.maximum(1.0, np.floor((gap - slack[:alive]) / limit[:alive])), 0.0)
        missed[:alive] += passed
        due[:alive] += np.where(late, passed, 1.0)
        slack[:alive] = np.where(late, 0.0, left)
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return due[back].astype(np.int64), missed[back].astype(np.int64)
