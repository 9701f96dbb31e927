"""Client against truth: the rows of a run joined to the server's log by request id."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.load import CpuSample, Finished
from llm_locust.records import STRING_COLUMNS, Manifest
from llm_locust.records.summary import RunSummary

Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Comparison:
    """What a point came to. Errors are absolute differences between the client's figure and the server's."""

    events_per_s: float
    """Tokens that the server sent in the window, per second of it."""
    cpu_us_per_event: float
    cpu_percent: float
    waited_percent: float
    """Of the window, the worker was ready to run and its core ran something else: not a measurement if it is much."""
    ttft_p50_ms: float
    """As the client reports it."""
    ttft_p99_ms: float
    ttft_error_p50_ms: float
    ttft_error_p99_ms: float
    itl_error_p50_ms: float
    itl_error_p99_ms: float
    dispatch_lag_p99_ms: float | None
    planned: int
    rows: int
    ok: int
    server_late_p99_ms: float
    """How late the server itself was with its tokens: the truth is what it did, not what it had planned."""
    rss_mb: float
    coalesced_share: float | None
    valid: bool
    reasons: list[str]


def compare(finished: Finished, log: Path) -> Comparison:
    """Figures of one finished run against the server's log."""
    manifest = Manifest.load(finished.folder.manifest)
    stage = RunSummary.load(finished.folder.summary).stages[-1]
    begin, end = manifest.stages[-1].window_start_ns, manifest.stages[-1].window_end_ns
    assert end is not None
    types = dict.fromkeys(STRING_COLUMNS, "string")
    own = [path for path in finished.folder.request_files() if ".shipped" not in path.name]
    rows = pd.concat([pd.read_csv(path, dtype=types) for path in own], ignore_index=True)
    truth = pd.read_csv(log, dtype={"request_id": "string", "gaps_us": "string"})
    both = rows[(rows["phase"] == "measure") & (rows["outcome"] == "ok")].merge(
        truth, on="request_id", suffixes=("", "_truth"), validate="one_to_one"
    )
    ttft_ns = both["first_output_ns"] - both["sent_ns"]
    true_ns = both["first_ns"] - both["received_ns"]
    gap_errors = [
        np.abs(_numbers(mine) - _numbers(theirs))
        for mine, theirs in zip(both["gaps_us"], both["gaps_us_truth"], strict=True)
        if len(_numbers(mine)) == len(_numbers(theirs))
    ]
    gaps_us = np.concatenate(gap_errors) if gap_errors else np.array([np.nan])
    sent_at = np.concatenate(list(map(_token_times, truth["first_ns"], truth["gaps_us"])))
    events = int(((sent_at >= begin) & (sent_at < end)).sum())
    cpu_s = _between(finished.samples, "cpu_s", begin, end)
    return Comparison(
        events_per_s=events / ((end - begin) / 1e9),
        cpu_us_per_event=1e6 * cpu_s / max(events, 1),
        cpu_percent=100 * cpu_s / ((end - begin) / 1e9),
        waited_percent=100 * _between(finished.samples, "waited_s", begin, end) / ((end - begin) / 1e9),
        ttft_p50_ms=_percentile(ttft_ns, 50) / 1e6,
        ttft_p99_ms=_percentile(ttft_ns, 99) / 1e6,
        ttft_error_p50_ms=_percentile((ttft_ns - true_ns).abs(), 50) / 1e6,
        ttft_error_p99_ms=_percentile((ttft_ns - true_ns).abs(), 99) / 1e6,
        itl_error_p50_ms=_percentile(gaps_us, 50) / 1e3,
        itl_error_p99_ms=_percentile(gaps_us, 99) / 1e3,
        dispatch_lag_p99_ms=stage.generator.dispatch_lag_p99_ms,
        planned=stage.planned,
        rows=len(rows),
        ok=int((rows["outcome"] == "ok").sum()),
        server_late_p99_ms=_percentile(truth["late_ns"], 99) / 1e6,
        rss_mb=max((sample.rss_mb for sample in finished.samples), default=float("nan")),
        coalesced_share=stage.generator.first_coalesced_share,
        valid=stage.generator.valid,
        reasons=stage.generator.reasons,
    )


def _numbers(text: object) -> Times:
    return np.array(str(text).split(), dtype=np.int64) if isinstance(text, str) else np.array([], dtype=np.int64)


def _token_times(first_ns: int, gaps_us: object) -> Times:
    return np.concatenate([[first_ns], first_ns + np.cumsum(_numbers(gaps_us)) * 1000])


def _percentile(values: object, q: int) -> float:
    """Nearest rank."""
    found = np.sort(np.asarray(values, dtype=float))
    return float(found[max(int(np.ceil(q / 100 * len(found))) - 1, 0)]) if len(found) else float("nan")


def _between(samples: list[CpuSample], name: str, begin_ns: int, end_ns: int) -> float:
    """By how much it grew."""
    times, values = [sample.at_ns for sample in samples], [getattr(sample, name) for sample in samples]
    return float(np.interp(end_ns, times, values) - np.interp(begin_ns, times, values))
