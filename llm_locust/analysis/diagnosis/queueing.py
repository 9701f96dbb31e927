"""The server's queue: latency that rises while throughput does not fall, and requests that it turns away."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from llm_locust.analysis.derived import Bools, floats, mask
from llm_locust.analysis.diagnosis.case import Case, StageCase, Symptom, found, named
from llm_locust.analysis.server_against_client import between
from llm_locust.analysis.words import number
from llm_locust.records import Outcome
from llm_locust.records.diagnosis import Confidence, Finding
from llm_locust.records.summary import StageSummary

TTFT_TIMES = 2.0
"""A TTFT percentile so many times that of the lowest load has risen."""

THROUGHPUT_KEPT = 0.95
"""A throughput of at least this part of the step before has not fallen."""

AT_A_LIMIT = 0.9
"""Rejections that all met at least this part of the most in flight that was ever accepted come from a limit on it."""


def queueing(case: Case) -> Iterator[Finding]:
    """Up the ladder, throughput stays or rises while TTFT goes up: requests wait before they are served."""
    symptoms = []
    for ladder in _ladders(case):
        symptom = _queues(ladder)
        if symptom is not None:
            symptoms.append(symptom)
    yield from found(
        "queueing",
        "Requests wait before they are served: TTFT goes up, throughput does not fall",
        "server queue",
        (
            "Offer a load between the last good stage and this one, nothing else changed: TTFT falls back if it was waiting",
            "Then give the server more places alone (max_num_seqs, --parallel), at this load",
            "Then shorten the prompts alone: if TTFT follows, prefill is what they wait for",
        ),
        symptoms,
    )


def _ladders(case: Case) -> Iterator[list[StageCase]]:
    """Stages that differ in nothing but their rate (or their concurrency), rising; of several valid rounds the first."""
    groups: dict[tuple[object, ...], dict[float, StageCase]] = {}
    for stage in case.stages:
        of = stage.summary
        load = of.rate_rps if of.mode == "open" else of.concurrency
        if load is not None and of.completed_in_window_rps is not None and of.verdict.result != "invalid":
            groups.setdefault((of.mode, of.arrivals, of.condition), {}).setdefault(load, stage)
    for group in groups.values():
        yield [stage for _, stage in sorted(group.items())]


def _queues(ladder: Sequence[StageCase]) -> Symptom | None:
    """The step at which the symptom is plainest."""
    lowest = ladder[0].summary
    seen: list[tuple[float, Symptom]] = []
    for before, stage in itertools.pairwise(ladder):
        percent = _percent(lowest, stage.summary)
        in_server = _in_server(stage)
        if percent is None or in_server is None:
            continue
        low, high = (of.percentiles[f"ttft_p{percent}_ms"].value for of in (lowest, stage.summary))
        done_before, done = before.summary.completed_in_window_rps, stage.summary.completed_in_window_rps
        if not isinstance(low, float) or not isinstance(high, float) or done_before is None or done is None:
            continue
        if high < TTFT_TIMES * low or done < THROUGHPUT_KEPT * done_before:
            continue
        confidence, server = in_server
        said = (
            f"TTFT P{percent} {number(high)} ms against {number(low)} ms at {lowest.label}, while {number(done, 3)} req/s "
            f"were completed against {number(done_before, 3)} at {before.label}{server}"
        )
        over = stage.batch & stage.ok & (stage.rows["ttft_ms"].to_numpy(dtype=np.float64) > low)
        seen.append((high, Symptom(stage, said, confidence, named(stage.rows, over, "ttft_ms"))))
    return max(seen, key=lambda one: one[0])[1] if seen else None


def _percent(low: StageSummary, high: StageSummary) -> int | None:
    """The highest percentile that both stages have enough requests for."""
    for percent in (99, 95):
        both = [of.percentiles.get(f"ttft_p{percent}_ms") for of in (low, high)]
        if all(one is not None and one.value is not None and not one.at_maximum for one in both):
            return percent
    return None


def _in_server(stage: StageCase) -> tuple[Confidence, str] | None:
    """What the server says of its queue; ``None`` when it says that nothing waited, for then it is something else."""
    server = stage.summary.server
    if server is None or server.waiting_peak is None:
        return "possible", "; the server's own queue was not read"
    if server.waiting_peak == 0:
        return None
    queue = server.percentiles.get("queue_time_p95_ms")
    wait = f", each for {between(queue)} at P95" if queue is not None else ""
    return "likely", f"; up to {server.waiting_peak} waited in the server{wait}"


def rejections(case: Case) -> Iterator[Finding]:
    """The server turned requests away (429, 503)."""
    yield from found(
        "rejections",
        "The server turned requests away",
        "server queue",
        (
            "Lower the rate alone, to below the number in flight at which they begin",
            "Then send the same mean rate more evenly (--arrivals constant): if they go, it was the bursts",
            "Then raise the server's own limit alone (queue length, rate limit of a gateway), at the old rate",
        ),
        (symptom for stage in case.stages if (symptom := _rejected(case, stage)) is not None),
    )


def _rejected(case: Case, stage: StageCase) -> Symptom | None:
    rows = stage.rows
    away = mask(rows["outcome"] == Outcome.REJECTED)
    if not away.any():
        return None
    statuses = np.unique(rows["status"][away].dropna().to_numpy(dtype=np.int64), return_counts=True)
    by_status = ", ".join(f"{count} x HTTP {code}" for code, count in zip(*statuses, strict=True))
    said = [f"{int(away.sum())} of {len(rows)} requests{f': {by_status}' if by_status else ''}"]
    said += _level_at_rejection(rows, away)
    cap = case.manifest.facts.get("server_admission_cap")
    if cap is not None:
        said.append(f"the facts give an admission cap of {cap}")
    server = stage.summary.server
    if server is not None and server.waiting_peak is not None:
        said.append(f"up to {server.waiting_peak} waited in the server")
    return Symptom(stage, "; ".join(said), "shown", named(rows, away))


def _level_at_rejection(rows: pd.DataFrame, away: Bools) -> list[str]:
    """How many requests that the server took were in flight when it turned others away."""
    origin = rows["sent_ns"].min()
    if pd.isna(origin):
        return []
    sent, ended = floats(rows["sent_ns"] - origin), floats(rows["end_ns"] - origin)
    known = ~np.isnan(sent)
    taken, turned = known & ~away, known & away
    if not taken.any() or not turned.any():
        return []
    starts, ends = np.sort(sent[taken]), np.sort(np.where(np.isnan(ended), np.inf, ended)[taken])
    level = np.searchsorted(starts, sent, side="left") - np.searchsorted(ends, sent, side="right")
    least = int(level[turned].min())
    most = int((np.arange(1, len(starts) + 1) - np.searchsorted(ends, starts, side="right")).max())
    limit = least >= 2 and least >= AT_A_LIMIT * most
    why = ": a limit on the number in flight" if limit else ""
    return [
        f"each met at least {least} others in flight, and of those taken at most {most} were in flight at once{why}"
    ]
