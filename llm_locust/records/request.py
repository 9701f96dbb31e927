"""The request record: one row per arrival that reached a terminal outcome, and its CSV form.

Units are in the names. ``*_ns`` are Unix nanoseconds, except ``connect_ns``, ``tls_ns``, ``max_gap_ns``,
``read_lag_ns``, ``server_queue_ns`` and ``*_duration_ns``, which are durations. ``None`` (an empty cell) means not
measured; 0 is only ever a measured 0.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

import msgspec

from llm_locust.records.outcomes import Outcome
from llm_locust.records.text import inert_cell


class RequestRecord(msgspec.Struct, kw_only=True):
    """One arrival and what became of it. The fields, in order, are the columns of ``requests/worker-<k>.csv``."""

    run_id: str
    stage: int
    round: int = 0
    phase: str
    """``warmup``, ``measure`` or ``cooldown``."""
    index: int
    """Unique in the run."""
    request_id: str
    """A function of run id and index; sent to the server as ``X-Request-Id``."""
    worker: int
    user: str
    slice: str | None = None
    cold: bool | None = None
    planned_ns: int | None = None
    dispatched_ns: int | None = None
    sent_ns: int | None = None
    """The instant before connect, or on a reused connection before the first ``send()``."""
    connect_ns: int | None = None
    tls_ns: int | None = None
    reused: bool | None = None
    retries: int | None = None
    written_ns: int | None = None
    headers_ns: int | None = None
    first_output_ns: int | None = None
    first_answer_ns: int | None = None
    last_output_ns: int | None = None
    complete_ns: int | None = None
    """The finish event, or the last output if later."""
    end_ns: int | None = None
    """The end of the body, or when the outcome was decided."""
    outcome: Outcome
    status: int | None = None
    error: str | None = None
    """One line, bounded, without secrets."""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    output_tokens_source: str | None = None
    """``usage``, ``events`` or ``tokenizer``."""
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    output_events: int | None = None
    max_gap_ns: int | None = None
    gaps_us: list[int] | None = None
    """Gaps between consecutive output events in microseconds; optional."""
    bytes_in: int | None = None
    prompt_sha256: str | None = None
    prompt_index: int | None = None
    prefix_group: str | None = None
    session: str | None = None
    turn: int | None = None
    input_tokens_asked: int | None = None
    max_tokens: int | None = None
    quality: str | None = None
    """``pass`` or ``fail``; ``error`` when the check itself failed; empty when none ran."""
    clock: str | None = None
    """Where the receive times come from: ``kernel``, ``user`` or ``mixed``."""
    read_lag_ns: int | None = None
    coalesced: int | None = None
    """Reads that held more than one event."""
    first_coalesced: bool | None = None
    """The read with the first output held more: TTFT is then an upper bound."""
    total_duration_ns: int | None = None
    load_duration_ns: int | None = None
    prompt_eval_duration_ns: int | None = None
    eval_duration_ns: int | None = None
    server_queue_ns: int | None = None


COLUMNS: tuple[str, ...] = RequestRecord.__struct_fields__
"""The header of a worker CSV, in order."""

STRING_COLUMNS = frozenset(
    {
        "run_id", "phase", "request_id", "user", "slice", "outcome", "error", "finish_reason", "output_tokens_source",
        "gaps_us", "prompt_sha256", "prefix_group", "session", "quality", "clock",
    }
)  # fmt: skip
"""Columns that hold text; every other column holds an integer (booleans as 1 and 0) or nothing."""


_FLAGS = tuple(COLUMNS.index(name) for name in ("cold", "reused", "first_coalesced"))
_GAPS = COLUMNS.index("gaps_us")
"""The only columns whose cell is not their value as it stands (csv writes ``None`` as an empty cell)."""


_OF_THE_SERVER = tuple(COLUMNS.index(name) for name in ("error", "finish_reason"))
"""Text that a server chose: a spreadsheet that opens the file must not take it for a formula."""


def _cells(record: RequestRecord) -> list[Any]:
    cells = list(msgspec.structs.astuple(record))
    for place in _FLAGS:
        if cells[place] is not None:
            cells[place] = int(cells[place])
    if cells[_GAPS] is not None:
        cells[_GAPS] = " ".join(map(str, cells[_GAPS]))
    for place in _OF_THE_SERVER:
        if cells[place] is not None:
            cells[place] = inert_cell(cells[place])
    return cells


def encode_rows(records: Iterable[RequestRecord]) -> str:
    """The CSV lines (no header) of the records, each ended by a newline."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(_cells, records))
    return text.getvalue()


def header_line() -> str:
    """The CSV header line, with its newline."""
    return ",".join(COLUMNS) + "\n"
