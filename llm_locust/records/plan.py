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
    """The run's name."""
    stage: int
    """Number of the stage in its run, from 0."""
    round: int = 0
    """Which repetition of its point, from 0."""
    phase: str
    """``warmup``, ``measure`` or ``cooldown``."""
    index: int
    """Unique in the run."""
    request_id: str
    """A function of run id and index; sent to the server as ``X-Request-Id``."""
    worker: int
    """The index of the worker it was assigned to (the ``k`` of ``worker-<k>.csv``)."""
    user: str
    """The user class that is to send it."""
    slice: str | None = None
    """The named part of the workload; empty where it has none."""
    planned_ns: int | None = None
    """Unix nanoseconds on the master's clock; empty for an issued row."""
    prompt_index: int | None = None
    """Which prompt of the workload, from 0."""
    input_tokens_asked: int | None = None
    """Tokens that the prompt was made for; empty where nobody asked for a length."""
    max_tokens: int | None = None
    """Output limit that the request asks for."""
    prefix_group: str | None = None
    """Prompts of one group begin alike; empty where nothing is shared."""
    session: str | None = None
    """The conversation that it is a turn of; empty outside of one."""
    turn: int | None = None
    """Which turn of its conversation, from 1; empty outside of one."""


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
