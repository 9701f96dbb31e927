"""How a stage went along its window: ten equal spans, and whether the whole was a steady state."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from llm_locust.analysis.derived import Bools, Floats, mask
from llm_locust.analysis.quantiles import percentile
from llm_locust.analysis.trend import SPANS, span_means
from llm_locust.analysis.window import Window, evenly, seconds_after, token_times
from llm_locust.analysis.words import number
from llm_locust.records import Outcome
from llm_locust.records.summary import LittlesLaw, Span

OFF_BY = 0.1
"""A ratio this far from 1 is said aloud: queues that grow and windows of a few requests both show it."""


def span_series(rows: pd.DataFrame, good: npt.NDArray[np.int8], window: Window, spans: int = SPANS) -> list[Span]:
    """The window in equal spans.

    Args:
        rows: All rows of the stage, so that what began before the window is seen in it.
        good: 1 good, 0 not, -1 cannot be said; one per row.
        window: The window.
        spans: How many.
    """
    sent = seconds_after(rows["sent_ns"], window.start_ns)
    ended = seconds_after(rows["end_ns"], window.start_ns)
    ok = mask(rows["outcome"] == Outcome.OK)
    ttft = rows["ttft_ms"].to_numpy()
    tokens, first, last = token_times(rows, window.start_ns)
    edges = np.linspace(0.0, window.seconds, spans + 1)
    means = in_flight_means(sent, ended, window, spans)
    found = []
    for k in range(spans):
        start, end = float(edges[k]), float(edges[k + 1])
        began = (sent >= start) & (sent < end)
        done = (ended >= start) & (ended < end) & ~np.isnan(sent)
        touches = (first < end) & (last >= start)
        out: Floats = evenly(tokens[touches], first[touches], last[touches], start, end)
        unknown = bool((good[done & ok] < 0).any()) or bool((good < 0).all())
        first_tokens = ttft[began & ok]
        found.append(
            Span(
                start_s=start,
                seconds=end - start,
                sent=int(began.sum()),
                completed=int(done.sum()),
                ok=int((done & ok).sum()),
                good=None if unknown else int((done & (good == 1)).sum()),
                output_tokens=None if np.isnan(out).any() else round(float(out.sum()), 6),
                ttft_p95_ms=percentile(first_tokens[~np.isnan(first_tokens)], 95, bounds=False).value,
                in_flight_mean=round(float(means[k]), 6),
            )
        )
    return found


def in_flight_means(sent: Floats, ended: Floats, window: Window, spans: int) -> Floats:
    """Time-weighted means of sent and not ended; a request with no end never left."""
    known = ~np.isnan(sent)
    return span_means(sent[known], np.where(np.isnan(ended), np.inf, ended)[known], (0.0, window.seconds), spans)


def littles_law(rows: pd.DataFrame, window: Window) -> LittlesLaw | None:
    """Whether mean in flight, rate and time in system fit together; ``None`` when nothing was sent in the window.

    L = lambda W holds for any system in a steady state, whatever its arrival process or service (J. D. C. Little, "A Proof
    for the Queuing Formula: L = lambda W", 1961). Where the ratio is off, the window is no picture of a steady state: a
    queue was building up or emptying, or requests last so long against the window that its edges weigh in.
    """
    sent = seconds_after(rows["sent_ns"], window.start_ns)
    ended = seconds_after(rows["end_ns"], window.start_ns)
    inside: Bools = (sent >= 0) & (sent < window.seconds) & ~np.isnan(ended)
    if not inside.any():
        return None
    mean = float(in_flight_means(sent, ended, window, 1)[0])
    rate = float(((sent >= 0) & (sent < window.seconds)).sum()) / window.seconds
    time_in_system = float((ended - sent)[inside].mean())
    expected = rate * time_in_system
    ratio = mean / expected if expected else None
    note = None
    if ratio is not None and abs(ratio - 1) > OFF_BY:
        note = (
            f"{number(mean)} in flight on average against {number(expected)} by rate x time in system: "
            "not a steady state, or requests too long for the window"
        )
    return LittlesLaw(
        in_flight_mean=mean, arrival_rate_rps=rate, time_in_system_s=time_in_system, ratio=ratio, note=note
    )
