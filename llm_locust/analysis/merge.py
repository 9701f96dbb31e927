"""Every arrival that was due with its one terminal row: plan and records joined, the missing lost, the sums checked."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from llm_locust.analysis.alignment import align
from llm_locust.analysis.derived import add_durations
from llm_locust.analysis.raw_files import FILE, RawRows
from llm_locust.records import COLUMNS, PLAN_COLUMNS, STRING_COLUMNS, UNATTEMPTED, Manifest, Outcome, UsageError


class Merged(NamedTuple):
    """The table of a run: one row per arrival that was due, sorted by index."""

    rows: pd.DataFrame
    """The columns of the record, times on the master's clock, and the derived columns but ``good``."""
    planned_by_row: int
    """Cool-down arrivals known only by their rows, because the run died before their plan was written."""


def merge(manifest: Manifest, due: RawRows, requests: RawRows) -> Merged:
    """Join the rows of arrivals that were due (plan and issued) with their terminal rows.

    An arrival without a terminal row becomes ``lost``. Durations are taken from each worker's own clock, then the times are
    put on the master's.

    Raises:
        UsageError: a row has no plan line or contradicts it, belongs to a stage the manifest does not know, or the sums do
            not add up.
    """
    _check_stages(manifest, due)
    _check_stages(manifest, requests)
    rows = requests.frame
    planned = due.frame.set_index("index", drop=False)
    has_plan = rows["index"].isin(planned.index)
    _check_without_plan(manifest, requests, has_plan)
    _check_against_plan(planned, requests, has_plan)
    lost = _lost(due.frame[~due.frame["index"].isin(rows["index"])])
    frame = rows[list(COLUMNS)]
    if len(lost):
        frame = pd.concat([frame, lost]) if len(frame) else lost
    frame = frame.sort_values("index", ignore_index=True)
    planned_by_row = int((~has_plan).sum())
    _check_sums(manifest, due.frame, frame, planned_by_row)
    frame = add_durations(frame)
    on_plan = planned["planned_ns"].reindex(frame["index"]).reset_index(drop=True).astype("Int64")
    return Merged(align(frame, manifest, on_plan), planned_by_row)


def _check_stages(manifest: Manifest, raw: RawRows) -> None:
    known = {(stage.spec.stage, stage.spec.round) for stage in manifest.stages}
    for (stage, round_), rows in raw.frame.groupby(["stage", "round"]):
        if (stage, round_) not in known:
            path = raw.files[int(rows[FILE].iloc[0])]
            raise UsageError(
                f"{path}: rows of stage {stage}, round {round_}, which the manifest does not list; is the manifest of "
                "another time than the records?"
            )


def _check_without_plan(manifest: Manifest, requests: RawRows, has_plan: pd.Series[bool]) -> None:
    """A cool-down is planned when it begins; a run that died before it wrote that plan still has its rows."""
    died = [(stage.spec.stage, stage.spec.round) for stage in manifest.stages if stage.end_ns is None]
    rows = requests.frame
    crashed = pd.MultiIndex.from_frame(rows[["stage", "round"]]).isin(died) if died else pd.Series(False, rows.index)
    stray = rows[~has_plan & ~((rows["phase"] == "cooldown") & crashed)]
    if len(stray):
        first = stray.iloc[0]
        raise UsageError(
            f"{requests.files[int(first[FILE])]}: index {first['index']} (stage {first['stage']}, {first['phase']}) is in "
            f"neither plan.csv nor an issued file, with {len(stray) - 1} more; is a worker-*.issued.csv missing? "
            "Name its folder with --from"
        )


def _check_against_plan(planned: pd.DataFrame, requests: RawRows, has_plan: pd.Series[bool]) -> None:
    rows = requests.frame[has_plan]
    plan = planned.loc[rows["index"]]
    for name in ("stage", "round", "phase", "request_id"):
        differs = rows[name].to_numpy() != plan[name].to_numpy()
        if differs.any():
            row, line = rows[differs].iloc[0], plan[differs].iloc[0]
            raise UsageError(
                f"{requests.files[int(row[FILE])]}: index {row['index']} has {name} {row[name]}, but the plan says "
                f"{line[name]}; the file is not of this run as it was planned"
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
    return rows.assign(**missing)[list(COLUMNS)]


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
