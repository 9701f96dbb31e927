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
    """The ``k`` of ``worker-<k>.csv``."""
    user: str
    """The user class that sent it."""
    slice: str | None = None
    """The named part of the workload; empty where it has none."""
    cold: bool | None = None
    """1: the request found the model unloaded; 0: loaded; empty: the server does not say."""
    planned_ns: int | None = None
    """When it was due; empty in a closed loop and for follow-up turns, which have no plan."""
    dispatched_ns: int | None = None
    """When the load generator took it up; empty when it never did."""
    sent_ns: int | None = None
    """The instant before connect, or on a reused connection before the first ``send()``."""
    connect_ns: int | None = None
    """Duration of the connect; empty where no new connection was needed."""
    tls_ns: int | None = None
    """Duration of the TLS handshake; empty without one."""
    reused: bool | None = None
    """1: the connection was there already; 0: it was made for this request."""
    retries: int | None = None
    """1: a kept-alive connection had been closed by the server, and the request was sent on another."""
    written_ns: int | None = None
    """When its bytes were with the kernel."""
    headers_ns: int | None = None
    """When the head of the response came."""
    first_output_ns: int | None = None
    """When the first generated token came, of any kind; empty when none did."""
    first_answer_ns: int | None = None
    """When the first one came that is not reasoning."""
    last_output_ns: int | None = None
    """When the last one came."""
    complete_ns: int | None = None
    """The finish event, or the last output if later."""
    end_ns: int | None = None
    """The end of the body, or when the outcome was decided."""
    outcome: Outcome
    """What became of it, one word of :class:`Outcome`."""
    status: int | None = None
    """HTTP status; empty when no head of a response came."""
    error: str | None = None
    """One line, bounded, without secrets."""
    finish_reason: str | None = None
    """As the server gave it; empty when it gave none."""
    prompt_tokens: int | None = None
    """As the server counted them; empty when it did not say."""
    output_tokens: int | None = None
    """Generated tokens, reasoning included; empty when nobody counted them."""
    output_tokens_source: str | None = None
    """``usage``, ``events`` or ``tokenizer``."""
    reasoning_tokens: int | None = None
    """... of which reasoning; empty where the server does not say."""
    cached_tokens: int | None = None
    """Prompt tokens that the server had in its prefix cache; empty where it does not say."""
    output_events: int | None = None
    """Events that carried output; one may carry several tokens."""
    max_gap_ns: int | None = None
    """Duration of the longest gap between two output events; empty below two of them."""
    gaps_us: list[int] | None = None
    """Gaps between consecutive output events in microseconds; optional."""
    bytes_in: int | None = None
    """Bytes of the response, its head included."""
    prompt_sha256: str | None = None
    """Digest of what was asked."""
    prompt_index: int | None = None
    """Which prompt of the workload, from 0."""
    prefix_group: str | None = None
    """Prompts of one group begin alike; empty where nothing is shared."""
    session: str | None = None
    """The conversation that it is a turn of; empty outside of one."""
    turn: int | None = None
    """Which turn of its conversation, from 1; empty outside of one."""
    input_tokens_asked: int | None = None
    """Tokens that the prompt was made for; empty where nobody asked for a length."""
    max_tokens: int | None = None
    """Output limit that the request asked for."""
    quality: str | None = None
    """``pass`` or ``fail``; ``error`` when the check itself failed; empty when none ran."""
    clock: str | None = None
    """Where the receive times come from: ``kernel``, ``user`` or ``mixed``."""
    read_lag_ns: int | None = None
    """The largest user time minus kernel time of its reads, a duration; empty without kernel times."""
    coalesced: int | None = None
    """Reads that held more than one event."""
    first_coalesced: bool | None = None
    """The read with the first output held more: TTFT is then an upper bound."""
    total_duration_ns: int | None = None
    """Duration of the whole, as Ollama reports it; empty for other servers."""
    load_duration_ns: int | None = None
    """Duration of loading the model, as Ollama reports it; empty for other servers."""
    prompt_eval_duration_ns: int | None = None
    """Duration of the prefill, as Ollama reports it; empty for other servers."""
    eval_duration_ns: int | None = None
    """Duration of the generation, as Ollama reports it; empty for other servers."""
    server_queue_ns: int | None = None
    """Duration of its wait in the server's queue; empty where the server does not say."""


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
