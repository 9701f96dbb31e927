"""Worker times onto the master's clock.

Each worker's clock was measured against the master's at the start and at the end of a stage; between the two samples the
offset is interpolated linearly (50 ppm of drift is 180 ms an hour), outside them it is held. One offset serves all times
of a request, so that the differences between its columns stay the durations its own worker measured.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt
import pandas as pd

from llm_locust.records import NS_PER_S, ClockSample, Manifest, StageWorker

TIME_COLUMNS: tuple[str, ...] = (
    "planned_ns",
    "dispatched_ns",
    "sent_ns",
    "written_ns",
    "headers_ns",
    "first_output_ns",
    "first_answer_ns",
    "last_output_ns",
    "complete_ns",
    "end_ns",
)
"""The columns that are points in time. ``planned_ns`` is not shifted but taken from the plan, on the master's clock."""


def offsets_ns(
    times_ns: npt.NDArray[np.int64], start: ClockSample | None, end: ClockSample | None
) -> npt.NDArray[np.int64]:
    """Worker clock minus master clock at times of the worker's clock, in integer nanoseconds.

    With one sample the offset is that one throughout; with none it is 0, which :mod:`llm_locust.analysis.generator` does
    not let pass for a measurement.
    """
    first = start or end
    if first is None:
        return np.zeros(len(times_ns), np.int64)
    if start is None or end is None or end.at_ns <= start.at_ns:
        return np.full(len(times_ns), first.offset_ns, np.int64)
    # Only the small differences become floats: a float64 cannot hold Unix nanoseconds.
    elapsed = (times_ns - (start.at_ns + start.offset_ns)).astype(np.float64)
    span = (end.at_ns + end.offset_ns) - (start.at_ns + start.offset_ns)
    part = np.clip(elapsed / span, 0.0, 1.0)
    drift: npt.NDArray[np.int64] = np.rint(part * (end.offset_ns - start.offset_ns)).astype(np.int64)
    return start.offset_ns + drift


def align(rows: pd.DataFrame, manifest: Manifest, planned_ns: pd.Series[int]) -> pd.DataFrame:
    """The rows with every time on the master's clock.

    Args:
        rows: Records with worker times; ``stage``, ``round`` and ``worker`` say whose.
        manifest: Holds the clock samples of each stage's workers.
        planned_ns: What the plan says, row by row, on the master's clock.
    """
    workers: dict[Hashable, StageWorker] = {
        (stage.spec.stage, stage.spec.round, worker.worker): worker
        for stage in manifest.stages
        for worker in stage.workers
    }
    # The time by which a row's offset is chosen; a row with no time at all (lost) has nothing to shift either.
    reference = rows["sent_ns"].fillna(rows["dispatched_ns"]).fillna(rows["end_ns"]).fillna(0)
    at = reference.to_numpy(dtype=np.int64)
    offset = np.zeros(len(rows), np.int64)
    for key, positions in rows.groupby(["stage", "round", "worker"]).indices.items():
        worker = workers.get(key)
        if worker is not None:
            offset[positions] = offsets_ns(at[positions], worker.clock_start, worker.clock_end)
    shift = pd.Series(offset, index=rows.index, dtype="Int64")
    aligned = {name: rows[name] - shift for name in TIME_COLUMNS}
    aligned["planned_ns"] = planned_ns
    return rows.assign(**aligned)


def uncertainty_ms(worker: StageWorker) -> float | None:
    """How far off a worker's aligned times may be, in milliseconds; ``None`` when its clock was never measured."""
    known = [s.uncertainty_ns for s in (worker.clock_start, worker.clock_end) if s is not None]
    return max(known) / (NS_PER_S / 1000) if known else None
