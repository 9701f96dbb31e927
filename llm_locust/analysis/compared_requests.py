"""The requests of one point of a run (or of a slice of it), all its valid rounds together, as a comparison needs them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from llm_locust.analysis import window as windows
from llm_locust.analysis.derived import MISSING, Bools, Floats, floats, mask
from llm_locust.analysis.gaps import Us
from llm_locust.analysis.goodput import judge
from llm_locust.analysis.judgement import rows_of
from llm_locust.records import Manifest, Outcome, StageManifest
from llm_locust.records.quality import FAIL, PASS
from llm_locust.records.summary import RunSummary, StageSummary

LATENCIES = ("ttft", "tpot", "e2e")

PARTS = 10
"""Equal parts of each window, for the intervals of rates."""


class RunData(NamedTuple):
    """One merged run."""

    folder: str
    manifest: Manifest
    summary: RunSummary
    rows: pd.DataFrame
    """With derived columns, times on the master's clock."""
    gaps_us: Us


class Sample(NamedTuple):
    """The requests of one point of one run, or of a slice of it, as the figures need them."""

    ok: dict[str, Floats]
    """Values in milliseconds of the ok requests, by latency."""
    missing: dict[str, int]
    measured: int
    failed: int
    good: int | None
    checked: int
    passed: int
    goods_rps: list[float] | None
    """Good requests per second of each part of the windows."""
    completed_rps: list[float]
    tokens_tps: list[float] | None
    cached: tuple[Floats, Floats]
    """Prompt tokens from the cache, and all, of the ok requests of which both are known."""
    hit_rates: list[float] | None
    """The server's own, a round each; ``None`` for a slice, or where it was not read."""


def sample_of(run: RunData, stages: Sequence[StageSummary], slice_: str | None) -> Sample:
    """The measured requests of these stages; of one slice, if it is named."""
    parts = [_of_stage(run, stage, slice_) for stage in stages]

    def total(name: str) -> int:
        return sum(getattr(part, name) for part in parts)

    def joined(name: str) -> list[float] | None:
        of = [getattr(part, name) for part in parts]
        return None if any(values is None for values in of) else [value for values in of for value in values]

    good = None if any(part.good is None for part in parts) else sum(part.good or 0 for part in parts)
    return Sample(
        ok={name: np.concatenate([part.ok[name] for part in parts]) for name in parts[0].ok},
        missing={name: sum(part.missing[name] for part in parts) for name in parts[0].missing},
        measured=total("measured"),
        failed=total("failed"),
        good=good,
        checked=total("checked"),
        passed=total("passed"),
        goods_rps=joined("goods_rps"),
        completed_rps=joined("completed_rps") or [],
        tokens_tps=joined("tokens_tps"),
        cached=(
            np.concatenate([part.cached[0] for part in parts]),
            np.concatenate([part.cached[1] for part in parts]),
        ),
        hit_rates=joined("hit_rates"),
    )


def _of_stage(run: RunData, summary: StageSummary, slice_: str | None) -> Sample:
    stage = next(of for of in run.manifest.stages if (of.spec.stage, of.spec.round) == (summary.stage, summary.round))
    rows = rows_of(run.rows, summary.stage, summary.round)
    window = windows.measured_window(stage, rows)
    assert window is not None  # or nothing would have been measured
    chosen = np.ones(len(rows), np.bool_) if slice_ is None else mask(rows["slice"] == slice_)
    part = windows.batch(rows, stage, window) & chosen
    ok = part & mask(rows["outcome"] == Outcome.OK)
    judged = judge(rows, run.manifest.slo, part)
    quality = rows["quality"]
    cached, asked = floats(rows["cached_tokens"]), floats(rows["prompt_tokens"])
    told = ok & ~np.isnan(cached) & ~np.isnan(asked)
    values, missing = {}, {}
    for name in LATENCIES:
        of_ok = rows[f"{name}_ms"].to_numpy(dtype=np.float64)[ok]
        values[name] = of_ok[~np.isnan(of_ok)]
        state = f"{name}_state"
        missing[name] = int(mask(rows[state] == MISSING)[ok].sum()) if state in rows else len(of_ok) - len(values[name])
    rate = summary.server.prefix_cache_hit_rate if summary.server is not None and slice_ is None else None
    return Sample(
        ok=values,
        missing=missing,
        measured=int(part.sum()),
        failed=int((part & ~ok).sum()),
        good=judged.good_count,
        checked=int((part & mask(quality.isin([PASS, FAIL]))).sum()),
        passed=int((part & mask(quality == PASS)).sum()),
        goods_rps=None if judged.good_count is None else _begun_rps(stage, rows, window, judged.good == 1),
        completed_rps=[windows.completed_in_window(rows[chosen], piece) / piece.seconds for piece in _pieces(window)],
        tokens_tps=_tokens_tps(rows, run.gaps_us, window, chosen),
        cached=(cached[told], asked[told]),
        hit_rates=None if rate is None else [rate],
    )


def _pieces(window: windows.Window) -> list[windows.Window]:
    edges = [window.start_ns + (window.end_ns - window.start_ns) * k // PARTS for k in range(PARTS + 1)]
    return [windows.Window(start, end, window.method) for start, end in itertools.pairwise(edges)]


def _begun_rps(stage: StageManifest, rows: pd.DataFrame, window: windows.Window, chosen: Bools) -> list[float]:
    """The chosen requests of each part of the window, by when they were planned (in a closed loop: sent), per second."""
    times = rows["sent_ns"] if stage.spec.mode == "closed" else rows["planned_ns"].fillna(rows["sent_ns"])
    at = windows.seconds_after(times, window.start_ns)[chosen]
    # Of N requests the last one is planned at the very end of the window, and belongs to its last part.
    places = np.clip((at / window.seconds * PARTS).astype(np.int64), 0, PARTS - 1)
    counts: npt.NDArray[np.int64] = np.bincount(places, minlength=PARTS)
    return [int(count) / (window.seconds / PARTS) for count in counts]


def _tokens_tps(rows: pd.DataFrame, gaps_us: Us, window: windows.Window, chosen: Bools) -> list[float] | None:
    found = []
    for piece in _pieces(window):
        tokens = windows.output_tokens_in_window(rows, gaps_us, piece, chosen)
        if tokens is None:
            return None
        found.append(tokens / piece.seconds)
    return found
