"""Streams that stand still while somebody else's long prompt is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from llm_locust.analysis.derived import Floats, floats
from llm_locust.analysis.diagnosis.case import Case, StageCase, Symptom, found, named
from llm_locust.analysis.gaps import GAPS_AT, GAPS_N, Us
from llm_locust.analysis.words import number, percent
from llm_locust.records.diagnosis import Finding

LONG_TIMES_MEDIAN = 4.0
"""A prompt of so many median lengths is a long one; where all are alike there is none."""

FEWEST_GAPS = 5
"""Long gaps below which coincidence is not tested."""

IN_PREFILL = 0.7
"""The share of long gaps that must fall into others' long prefills."""

SIGNIFICANCE = 0.001
"""Of the test against coincidence by chance; strict, since neighbouring gaps share a cause."""

MOST_EXAMINED = 5_000
"""Requests whose gaps are looked at: those with the longest."""


class _Gaps(NamedTuple):
    """Long gaps: when each began and ended in seconds, and the place of its row."""

    start: Floats
    end: Floats
    row: npt.NDArray[np.intp]


def decode_behind_prefill(case: Case) -> Iterator[Finding]:
    """Long gaps in streams fall into the prefill of others' long prompts, far more often than chance would have it."""
    yield from found(
        "decode_behind_prefill",
        "Streams stand still while others' long prompts are read",
        "prefill",
        (
            "Leave the long prompts out of the mix, at the same rate: the gaps go if they were the cause",
            "Then let the engine read prompts in pieces, or smaller ones, alone (chunked prefill, max_num_batched_tokens)",
            "Then send the long prompts to an instance of their own, alone",
        ),
        (symptom for stage in case.stages if (symptom := _coincides(stage, case.gaps_us)) is not None),
    )


def _coincides(stage: StageCase, gaps_us: Us) -> Symptom | None:
    stalls = stage.summary.stalls
    if stalls is None or stalls.stalled < FEWEST_GAPS:
        return None
    rows = stage.rows
    origin = rows["sent_ns"].min()
    tokens, sent = floats(rows["prompt_tokens"]), floats(rows["sent_ns"] - origin) / 1e9
    first = floats(rows["first_output_ns"] - origin) / 1e9
    known = ~np.isnan(tokens) & ~np.isnan(first)
    if not known.any():
        return None
    bound = LONG_TIMES_MEDIAN * float(np.median(tokens[known]))
    long = known & (tokens >= bound)
    if not long.any():
        return None
    gaps = _long_gaps(rows, stage, first, gaps_us, stalls.threshold_ms / 1e3)
    if len(gaps.start) < FEWEST_GAPS:
        return None
    starts, ends = _union(sent[long], first[long])
    inside = _overlaps(gaps.start, gaps.end, starts, ends)
    typical = float(np.median(gaps.end - gaps.start))
    chance = _covered(starts - typical, ends, gaps.start.min(), gaps.end.max())
    n, hits = len(inside), int(inside.sum())
    if hits < IN_PREFILL * n or chance >= 1:
        return None
    if float(stats.binomtest(hits, n, chance, alternative="greater").pvalue) > SIGNIFICANCE:
        return None
    stalled = np.zeros(len(rows), np.bool_)
    stalled[gaps.row[inside]] = True
    reading = rows[long]["index"].head(5).tolist()
    said = (
        f"{hits} of {n} gaps over {number(stalls.threshold_ms)} ms fall between sending and first token of prompts of "
        f"{number(bound)} tokens and more ({int(long.sum())} of them, for example requests {', '.join(map(str, reading))}); "
        f"by chance it would be {percent(chance)}"
    )
    return Symptom(stage, said, "likely", named(rows, stalled, "max_gap_ms"))


def _long_gaps(rows: pd.DataFrame, stage: StageCase, first: Floats, gaps_us: Us, threshold_s: float) -> _Gaps:
    """The gaps over the threshold of measured requests."""
    longest = rows["max_gap_ms"].to_numpy(dtype=np.float64, na_value=np.nan)
    n = rows[GAPS_N].to_numpy()
    at = rows[GAPS_AT].to_numpy()
    with np.errstate(invalid="ignore"):
        chosen = np.flatnonzero(stage.batch & stage.ok & (longest > threshold_s * 1e3) & (n > 0) & ~np.isnan(first))
    chosen = chosen[np.argsort(-longest[chosen], kind="stable")][:MOST_EXAMINED]
    starts, ends, places = [np.empty(0)], [np.empty(0)], [np.empty(0, np.intp)]
    for k in chosen:
        seconds = gaps_us[at[k] : at[k] + n[k]].astype(np.float64) / 1e6
        end = first[k] + np.cumsum(seconds)
        long = seconds > threshold_s
        starts.append(end[long] - seconds[long])
        ends.append(end[long])
        places.append(np.full(int(long.sum()), k, np.intp))
    return _Gaps(np.concatenate(starts), np.concatenate(ends), np.concatenate(places))


def _union(starts: Floats, ends: Floats) -> tuple[Floats, Floats]:
    """Intervals that overlap or touch put together; sorted."""
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    new = np.concatenate(([True], starts[1:] > reach[:-1]))
    last = np.concatenate((np.flatnonzero(new)[1:] - 1, [len(starts) - 1]))
    return starts[new], reach[last]


def _overlaps(start: Floats, end: Floats, starts: Floats, ends: Floats) -> npt.NDArray[np.bool_]:
    """Which of some intervals overlap any of the sorted, disjoint ones."""
    before = np.searchsorted(starts, end, side="left") - 1
    return (before >= 0) & (ends[np.maximum(before, 0)] > start)


def _covered(starts: Floats, ends: Floats, low: float, high: float) -> float:
    """The share of [low, high) that sorted intervals cover, where they may overlap."""
    if high <= low:
        return 1.0
    starts, ends = _union(np.clip(starts, low, high), np.clip(ends, low, high))
    return float((ends - starts).sum() / (high - low))
