"""What the report is drawn from: a judged run, its merged rows stage by stage, its samples and its generator's health."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from llm_locust.analysis import window as windows
from llm_locust.analysis.derived import Bools, mask
from llm_locust.analysis.gaps import Us
from llm_locust.analysis.judgement import rows_of
from llm_locust.analysis.words import number, with_round
from llm_locust.records import NS_PER_S, Manifest, Outcome, StageManifest
from llm_locust.records.device_sample import DeviceSample
from llm_locust.records.server_sample import ServerSample
from llm_locust.records.summary import RunSummary, StageSummary

Floats = npt.NDArray[np.float64]

HEALTH_COLUMNS = ("worker", "at_ns", "in_flight", "cpu_percent", "loop_lag_ms")


class StageData(NamedTuple):
    """One stage with its merged rows."""

    spec: StageManifest
    summary: StageSummary
    rows: pd.DataFrame
    measured: Bools
    """The rows of the batch."""
    ok: Bools
    """... of which ok."""
    origin_ns: int
    """Time 0 of its charts: the start of the window."""
    start_s: float
    """When the stage began, from there: negative by the warm-up."""
    end_s: float
    """When its last request had ended."""
    window_s: float | None

    @property
    def key(self) -> str:
        """``stage-0-round-0``."""
        return f"stage-{self.summary.stage}-round-{self.summary.round}"

    @property
    def title(self) -> str:
        """``open 2/s poisson``, with its round when it is a repetition."""
        return with_round(self.summary.label, self.summary.round)

    def seconds(self, column: str) -> Floats:
        """A column of times in seconds from the origin, NaN where null."""
        return windows.seconds_after(self.rows[column], self.origin_ns)


class PointData(NamedTuple):
    """All rounds of one rate or one concurrency."""

    name: str
    stages: list[StageData]

    @property
    def result(self) -> str:
        """Of the rounds, the worst first."""
        found = [stage.summary.verdict.result for stage in self.stages]
        return next(r for r in ("invalid", "fail", "undetermined", "not_run", "pass") if r in found)


class RunData(NamedTuple):
    """A judged run with everything that is drawn of it."""

    manifest: Manifest
    summary: RunSummary
    gaps_us: Us
    stages: list[StageData]
    server: Sequence[ServerSample]
    devices: Sequence[DeviceSample]
    health: pd.DataFrame
    """:data:`HEALTH_COLUMNS` of ``generator.csv``, times on the master's clock; empty when there is none."""

    @property
    def points(self) -> list[PointData]:
        """The stages grouped into points, open ones by rising rate, then closed ones by rising concurrency."""
        found: dict[tuple[object, ...], list[StageData]] = {}
        for stage in self.stages:
            of = stage.summary
            found.setdefault((of.mode, of.rate_rps, of.concurrency, of.arrivals, of.condition), []).append(stage)
        groups = [PointData(point_name(stages[0].summary), stages) for stages in found.values()]
        return sorted(groups, key=lambda point: _order(point.stages[0].summary))


def _order(stage: StageSummary) -> tuple[bool, float]:
    return stage.mode == "closed", stage.rate_rps or stage.concurrency or 0


def point_name(stage: StageSummary) -> str:
    """Its arrival mode is part of the name: ``open 2 req/s``, ``open 2 req/s gamma(cv=3)``, ``closed C=8``."""
    if stage.mode == "closed":
        parts = [f"closed C={stage.concurrency}"]
    else:
        parts = [
            f"open {number(stage.rate_rps)} req/s",
            *([stage.arrivals] if stage.arrivals not in (None, "poisson") else []),
        ]
    return " ".join([*map(str, parts), *([stage.condition] if stage.condition else [])])


def run_data(
    manifest: Manifest,
    summary: RunSummary,
    rows: pd.DataFrame,
    gaps_us: Us,
    server: Sequence[ServerSample] = (),
    devices: Sequence[DeviceSample] = (),
    generator: Path | None = None,
) -> RunData:
    """Put it together.

    Args:
        manifest: The run's manifest.
        summary: What was judged; its stages are those of the manifest, in order.
        rows: The merged table.
        gaps_us: The gaps that its rows point into.
        server: Samples of the server, on the master's clock.
        devices: Samples of its devices, likewise.
        generator: ``generator.csv``, which need not be there.
    """
    stages = [
        _stage(spec, of, rows_of(rows, of.stage, of.round))
        for spec, of in zip(manifest.stages, summary.stages, strict=True)
    ]
    health = read_health(generator, manifest) if generator is not None else _no_health()
    return RunData(manifest, summary, gaps_us, stages, server, devices, health)


def _stage(spec: StageManifest, summary: StageSummary, rows: pd.DataFrame) -> StageData:
    window = windows.measured_window(spec, rows)
    measured = windows.batch(rows, spec, window)
    origin = window.start_ns if window is not None else spec.window_start_ns
    last = rows["end_ns"].max()
    known = [at for at in (spec.end_ns, None if pd.isna(last) else int(last)) if at is not None]
    # The stage's own end comes after the last request's by what the messages took; more is no part of what is drawn.
    ends = [origin, window.end_ns if window is not None else origin, min(known) if known else origin]
    return StageData(
        spec,
        summary,
        rows,
        measured,
        measured & mask(rows["outcome"] == Outcome.OK),
        origin,
        min(0.0, (spec.start_ns - origin) / NS_PER_S),
        (max(ends) - origin) / NS_PER_S,
        window.seconds if window is not None else None,
    )


def _no_health() -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(dtype="float64") for name in HEALTH_COLUMNS})


def read_health(path: Path, manifest: Manifest) -> pd.DataFrame:
    """``generator.csv``, as much of it as can be read; each worker's times are put on the master's clock.

    A run that died leaves a torn last line. The load generator's health is drawn, never judged from here, so a line that
    cannot be read is left out.
    """
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            found = pd.read_csv(file, usecols=list(HEALTH_COLUMNS), on_bad_lines="skip", dtype=str)
    except (OSError, ValueError):
        return _no_health()
    at = pd.to_numeric(found["at_ns"], errors="coerce").astype("Int64")
    table = found.drop(columns="at_ns").apply(pd.to_numeric, errors="coerce").assign(at_ns=at)
    table = table.dropna(subset=["at_ns", "worker"])
    offsets = {
        worker.worker: worker.clock_start.offset_ns
        for stage in manifest.stages
        for worker in stage.workers
        if worker.clock_start is not None
    }
    behind = table["worker"].map(offsets).fillna(0).astype("Int64")
    aligned: pd.DataFrame = table.assign(at_ns=table["at_ns"] - behind)[list(HEALTH_COLUMNS)].reset_index(drop=True)
    return aligned
