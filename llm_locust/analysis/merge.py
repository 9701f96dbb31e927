"""Every arrival that was due with its one terminal row: plan and records joined, the missing lost, the sums checked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from llm_locust.analysis.alignment import align
from llm_locust.analysis.derived import Bools, add_durations
from llm_locust.analysis.gaps import GAPS_AT, GAPS_N, Us
from llm_locust.analysis.raw_files import FILE, RawRows
from llm_locust.records import COLUMNS, PLAN_COLUMNS, STRING_COLUMNS, UNATTEMPTED, Manifest, Outcome, UsageError

ROW_COLUMNS: tuple[str, ...] = (*(name for name in COLUMNS if name != "gaps_us"), GAPS_AT, GAPS_N)
"""The columns of a merged row before the derived ones: those of the record, with the place of its gaps for the gaps."""


class Merged(NamedTuple):
    """The table of a run: one row per arrival that was due, sorted by index."""

    rows: pd.DataFrame
    """The columns of the record, times on the master's clock, and the derived columns but ``good``."""
    gaps_us: Us
    """The gaps of all rows; ``gaps_at`` and ``gaps_n`` say whose."""
    planned_by_row: int
    """Cool-down arrivals known only by their rows, because the run died before their plan was written."""
    without_file: list[int]
    """Workers that were due to send something, and of whose rows there is no file at all."""


def merge(manifest: Manifest, due: RawRows, requests: RawRows) -> Merged:
    """Join the rows of arrivals that were due (plan and issued) with their terminal rows.

    An arrival without a terminal row becomes ``lost``. Durations are taken from each worker's own clock, then the times are
    put on the master's. The frames of ``due`` and ``requests`` are used up.

    Raises:
        UsageError: a row has no plan line or contradicts it, belongs to a stage the manifest does not know, or the sums do
            not add up.
    """
    _check_stages(manifest, due)
    _check_stages(manifest, requests)
    due_index, index = _index(due.frame), _index(requests.frame)
    has_plan, place = _found_in(index, due_index)
    _check_without_plan(manifest, due, requests, has_plan)
    _check_against_plan(due.frame, requests, has_plan, place)
    is_lost = ~_found_in(due_index, index)[0]
    without_file = sorted(
        {int(worker) for worker in due.frame["worker"][is_lost].unique()}
        - {int(worker) for worker in requests.frame["worker"].unique()}
    )
    lost = _lost(due.frame[is_lost])
    due.frame = due.frame[
        ["index", "stage", "round", "planned_ns"]
    ].copy()  # what is still asked of it: the rest is freed
    frame = requests.frame[list(ROW_COLUMNS)]
    requests.frame = pd.DataFrame()  # not a view, which would hold on to every column that is replaced below
    if len(lost):
        together = pd.concat([frame, lost]) if len(frame) else lost
        frame = together.sort_values("index", ignore_index=True)
    planned_by_row = int((~has_plan).sum())
    _check_sums(manifest, due.frame, frame, planned_by_row)
    on_plan, plan_place = _found_in(_index(frame), due_index)
    planned_ns = (
        due.frame["planned_ns"].take(plan_place).reset_index(drop=True) if len(due_index) else frame["planned_ns"]
    )
    planned_ns = planned_ns.astype("Int64").where(pd.Series(on_plan))
    frame = add_durations(frame)
    return Merged(align(frame, manifest, planned_ns), requests.gaps_us, planned_by_row, without_file)


def _index(frame: pd.DataFrame) -> npt.NDArray[np.int64]:
    return frame["index"].to_numpy(dtype=np.int64)


def _found_in(
    wanted: npt.NDArray[np.int64], known: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.intp]]:
    """Which of the sorted ``wanted`` are among the sorted ``known``, and the place of each there (any place if not)."""
    if not len(known):
        return np.zeros(len(wanted), np.bool_), np.zeros(len(wanted), np.intp)
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return known[place] == wanted, place


def _check_stages(manifest: Manifest, raw: RawRows) -> None:
    known = {(stage.spec.stage, stage.spec.round) for stage in manifest.stages}
    for (stage, round_), rows in raw.frame.groupby(["stage", "round"]):
        if (stage, round_) not in known:
            path = raw.files[int(rows[FILE].iloc[0])]
            raise UsageError(
                f"{path}: rows of stage {stage}, round {round_}, which the manifest does not list; is the manifest of "
                "another time than the records?"
            )


def _check_without_plan(manifest: Manifest, due: RawRows, requests: RawRows, has_plan: Bools) -> None:
    """A cool-down is planned when it begins; a run that died before it wrote that plan still has its rows."""
    died = [(stage.spec.stage, stage.spec.round) for stage in manifest.stages if stage.end_ns is None]
    rows = requests.frame[~has_plan]
    crashed = np.array([key in died for key in zip(rows["stage"], rows["round"], strict=True)], np.bool_)
    stray = rows[~((rows["phase"] == "cooldown").to_numpy(dtype=np.bool_) & crashed)]
    if len(stray):
        if not len(due.frame) and any(stage.planned and stage.spec.mode == "open" for stage in manifest.stages):
            raise UsageError(
                "plan.csv is empty or not there, but the manifest says that arrivals were planned; put back the plan.csv of "
                "the run"
            )
        first = stray.iloc[0]
        raise UsageError(
            f"{requests.files[int(first[FILE])]}: index {first['index']} (stage {first['stage']}, {first['phase']}) is in "
            f"neither plan.csv nor an issued file, with {len(stray) - 1} more; is a worker-*.issued.csv missing? "
            "Name its folder with --from"
        )


def _check_against_plan(planned: pd.DataFrame, requests: RawRows, has_plan: Bools, place: npt.NDArray[np.intp]) -> None:
    rows = requests.frame
    for name in ("stage", "round", "phase", "request_id"):
        said, plan = rows[name].to_numpy(dtype=object), planned[name].to_numpy(dtype=object)
        differs = has_plan & (said != plan[place]) if len(plan) else has_plan
        if differs.any():
            at = int(differs.argmax())
            raise UsageError(
                f"{requests.files[int(rows[FILE].iloc[at])]}: index {rows['index'].iloc[at]} has {name} {said[at]}, but the "
                f"plan says {plan[place[at]]}; the file is not of this run as it was planned"
            )


def _lost(due: pd.DataFrame) -> pd.DataFrame:
    """Terminal rows for arrivals whose worker never told what became of them."""
    shared = [name for name in PLAN_COLUMNS if name in COLUMNS]
    rows = due[shared].assign(outcome=str(Outcome.LOST))
    # planned_ns is a time of the worker's clock in a record; a lost arrival has none, the plan's is put in afterwards.
    rows["planned_ns"] = pd.array([pd.NA] * len(rows), dtype="Int64")
    missing = {
        name: pd.Series(None, index=rows.index, dtype="str" if name in STRING_COLUMNS else "Int64")
        for name in COLUMNS
        if name not in rows
    }
    return rows.assign(**missing, gaps_at=0, gaps_n=0)[list(ROW_COLUMNS)]


def _check_sums(manifest: Manifest, due: pd.DataFrame, frame: pd.DataFrame, planned_by_row: int) -> None:
    """``planned = attempted + not_sent + lost``, and the plan on disk is the plan the manifest speaks of."""
    not_sent = int((frame["outcome"] == Outcome.NOT_SENT).sum())
    lost = int((frame["outcome"] == Outcome.LOST).sum())
    attempted = int((~frame["outcome"].isin([str(outcome) for outcome in UNATTEMPTED])).sum())
    planned = len(due) + planned_by_row
    if planned != attempted + not_sent + lost:
        raise UsageError(
            f"the numbers disagree: planned {planned}, but attempted {attempted} + not_sent {not_sent} + lost {lost} = "
            f"{attempted + not_sent + lost}"
        )
    for stage in manifest.stages:
        if stage.spec.mode == "open" and stage.planned and stage.end_ns is not None:
            of_stage = due[(due["stage"] == stage.spec.stage) & (due["round"] == stage.spec.round)]
            on_disk = int(of_stage["planned_ns"].notna().sum())
            if on_disk != stage.planned:
                raise UsageError(
                    f"the numbers disagree: plan.csv lists {on_disk} arrivals of stage {stage.spec.stage}, round "
                    f"{stage.spec.round}, but the manifest says that {stage.planned} were due"
                )
