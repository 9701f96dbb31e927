"""The plan on disk: one row per arrival that was due, written before it is sent.

``plan.csv`` (written by the master, master clock) holds open arrivals; closed loops and follow-up turns have no prior
plan, so the worker writes an ``issued`` row of the same form, with an empty ``planned_ns``, before it sends.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

import msgspec


class PlanRow(msgspec.Struct, kw_only=True):
    """One arrival that was due. The fields, in order, are the columns of ``plan.csv``."""

    run_id: str
    stage: int
    round: int = 0
    phase: str
    index: int
    request_id: str
    worker: int
    """The index of the worker it was assigned to (the ``k`` of ``worker-<k>.csv``)."""
    user: str
    slice: str | None = None
    planned_ns: int | None = None
    """Unix nanoseconds on the master's clock; empty for an issued row."""
    prompt_index: int | None = None
    input_tokens_asked: int | None = None
    max_tokens: int | None = None
    prefix_group: str | None = None
    session: str | None = None
    turn: int | None = None


PLAN_COLUMNS: tuple[str, ...] = PlanRow.__struct_fields__

PLAN_STRING_COLUMNS = frozenset({"run_id", "phase", "request_id", "user", "slice", "prefix_group", "session"})


def encode_plan_rows(rows: Iterable[PlanRow]) -> str:
    """The CSV lines (no header) of the rows, each ended by a newline."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(msgspec.structs.astuple(row) for row in rows)
    return text.getvalue()


def plan_header_line() -> str:
    """The CSV header line, with its newline."""
    return ",".join(PLAN_COLUMNS) + "\n"
