"""A model that was not loaded, and a server that was slow at first."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from llm_locust.analysis.derived import mask
from llm_locust.analysis.diagnosis.case import Case, StageCase, Symptom, found, named
from llm_locust.analysis.words import number
from llm_locust.records.diagnosis import Finding

COLD_TIMES_WARM = 2.0
"""A TTFT of requests that found the model unloaded so many times that of the others is worth a finding."""

FEWEST = 20
"""Requests below which the first ones cannot be told from the rest."""

SLOW_TIMES_MEDIAN = 3.0
SLOW_TIMES_P95 = 1.5
"""The first requests are slow when they are over so many medians, and so many P95, of the stage's second half."""

MOST_SHARE = 0.2
"""More slow ones at the beginning than this are a trend, not a start."""


def model_loads(case: Case) -> Iterator[Finding]:
    """The server says that requests waited for the model to be loaded."""
    yield from found(
        "model_loads",
        "Requests found the model unloaded and waited for it",
        "memory",
        (
            "Keep the model loaded between requests (Ollama: keep_alive) and run the same stage again",
            "Then load it by a warm-up (--warmup) and compare the warm requests alone",
        ),
        (symptom for stage in case.stages if (symptom := _loads(stage)) is not None),
    )


def _loads(stage: StageCase) -> Symptom | None:
    cold = stage.summary.cold
    if cold is None or not cold.cold:
        return None
    slow, warm = cold.cold_ttft_p50_ms.value, cold.warm_ttft_p50_ms.value
    if not isinstance(slow, float) or (isinstance(warm, float) and slow < COLD_TIMES_WARM * warm):
        return None
    waited = named(stage.rows, stage.batch & mask(stage.rows["cold"] == 1), "ttft_ms")
    beside = f", of the others {number(warm)} ms" if isinstance(warm, float) else ""
    said = f"{cold.cold} of {cold.known} requests waited for the model, TTFT P50 {number(slow)} ms{beside}"
    return Symptom(stage, said, "shown", waited)


def slow_start(case: Case) -> Iterator[Finding]:
    """The first measured requests of a stage were much slower than what came after them."""
    yield from found(
        "slow_start",
        "The first requests of the stage were slow, and were measured",
        "prefill",
        (
            "Lengthen the warm-up (--warmup) until they fall into it, and run the same stage again",
            "Then restart the server before the stage: slow again, it is its start (compilation, graphs, caches)",
        ),
        (symptom for stage in case.stages if (symptom := _slow_start(stage)) is not None),
    )


def _slow_start(stage: StageCase) -> Symptom | None:
    ttft = stage.rows["ttft_ms"].to_numpy(dtype=np.float64, na_value=np.nan)
    known = stage.ok & ~np.isnan(ttft) & ~mask(stage.rows["cold"] == 1)
    if int(known.sum()) < FEWEST:
        return None
    places = np.flatnonzero(known)
    places = places[np.argsort(stage.rows["sent_ns"].to_numpy(dtype=np.int64, na_value=0)[places], kind="stable")]
    values = ttft[places]
    later = np.sort(values[len(values) // 2 :])
    median, p95 = float(np.median(later)), float(later[-(-95 * len(later) // 100) - 1])
    slow = values > max(SLOW_TIMES_MEDIAN * median, SLOW_TIMES_P95 * p95)
    first = len(slow) if slow.all() else int(np.argmin(slow))
    of = stage.summary
    together = of.mode == "closed" and (of.concurrency or 1) > 1 and first <= (of.concurrency or 1)
    # A closed loop begins with all its requests at once, whose prefills wait for one another.
    if first == 0 or first > MOST_SHARE * len(slow) or together:
        return None
    head = np.zeros(len(stage.rows), np.bool_)
    head[places[:first]] = True
    measured = int((head & stage.batch).sum())
    if measured == 0:
        return None
    range_ = number(values[0]) if first == 1 else f"{number(values[:first].min())} to {number(values[:first].max())}"
    what = "the first request had" if first == 1 else f"the first {first} requests had"
    said = (
        f"{what} a TTFT of {range_} ms, the second half of the stage a median of {number(median)} and a P95 of "
        f"{number(p95)} ms; {measured} of {first} were measured"
    )
    return Symptom(stage, said, "likely", named(stage.rows, head, "ttft_ms"))
