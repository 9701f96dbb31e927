"""The server sample: what one engine's metrics page said at one moment, and its CSV form (``server.csv``).

One row per scrape and target. Every figure stands under one name whatever the engine calls it; which metric of which
engine it was is said by the mapping that read it. ``None`` (an empty cell) means that the page did not say; 0 is only ever
a 0 that stood there. Counters are as the page has them, since the server's start: what happened in between is for whoever
compares two rows.

A histogram is one cell: compact JSON with its cumulative buckets. So a row is whole or not there (a torn last line is one
sample lost), and no second file has to be kept in step with this one. It costs 200 to 300 bytes a histogram.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from typing import Any

import msgspec

from llm_locust.records.errors import UsageError


class CumulativeHistogram(msgspec.Struct, frozen=True, kw_only=True):
    """A histogram as metrics pages hold it: how many observations there were up to each bound."""

    le: tuple[float, ...]
    """Upper bounds in seconds, rising; each belongs to its bucket. The bound of the last bucket, infinity, is not listed."""
    n: tuple[float, ...]
    """Observations up to each bound, as many as there are bounds."""
    count: float
    """All observations, those above the last bound included."""
    sum: float | None = None
    """Their sum in seconds; ``None``: not told."""


class ServerSample(msgspec.Struct, kw_only=True):
    """One scrape of one target. The fields, in order, are the columns of ``server.csv``."""

    at_ns: int
    """When the first byte of the page came, Unix nanoseconds on the master's clock."""
    target: str
    """The address that was asked, without credentials."""
    engine: str | None = None
    """The mapping that read the page: ``vllm``; ``None`` when there was no page, or none that could be read."""
    verified: bool | None = None
    """The mapping was held against a real page of this engine; else its figures are said to be unverified."""
    error: str | None = None
    """Why there is no figure in this row; ``None``: the page was read."""
    scrape_ms: float | None = None
    """From asking to the last byte."""
    process_start_s: float | None = None
    """Unix seconds at which the server's process says it started: another value is another process."""
    running: float | None = None
    """Requests in the batch, all engines of the target together."""
    waiting: float | None = None
    """Requests in the server's queue, all engines together."""
    kv_usage: dict[str, float] | None = None
    """Share of KV-cache blocks in use, 0 to 1, by engine; a single engine that gives itself no name is ``""``."""
    kv_usage_max: float | None = None
    """... of the fullest engine."""
    kv_usage_mean: float | None = None
    """... on average over the engines."""
    preemptions: float | None = None
    """Requests put aside for want of KV cache."""
    evictions: float | None = None
    """Cache blocks."""
    prefix_cache_queries: float | None = None
    """Prompt tokens looked up in the prefix cache."""
    prefix_cache_hits: float | None = None
    """... of which found."""
    prompt_tokens: float | None = None
    """Cached ones included."""
    generation_tokens: float | None = None
    """Generated tokens."""
    rejections: float | None = None
    """Requests refused because too many waited."""
    requests: float | None = None
    """Requests finished, whatever became of them."""
    queue_time: CumulativeHistogram | None = None
    """From arrival in the server to its first admission to the batch."""
    ttft: CumulativeHistogram | None = None
    """From arrival in the server to the first token."""
    tpot: CumulativeHistogram | None = None
    """Time per output token after the first, one observation per request."""
    itl: CumulativeHistogram | None = None
    """Gaps between tokens, one observation per gap."""
    prefill_time: CumulativeHistogram | None = None
    """From admission to the batch to the first token."""
    decode_time: CumulativeHistogram | None = None
    """From the first token to the last."""
    e2e: CumulativeHistogram | None = None
    """From arrival in the server to the last token."""
    context_tokens: float | None = None
    """Context that the model was loaded with, where a model is loaded on demand (Ollama); ``None`` while it is not."""
    model_bytes: float | None = None
    """Memory that the loaded model takes, its cache included."""
    model_accelerator_bytes: float | None = None
    """... of which accelerator memory."""
    residency: float | None = None
    """model_accelerator_bytes / model_bytes. It says where the model lies, and nothing of how full its KV cache is."""


SERVER_COLUMNS: tuple[str, ...] = ServerSample.__struct_fields__
"""The header of ``server.csv``, in order."""

HISTOGRAM_COLUMNS = ("queue_time", "ttft", "tpot", "itl", "prefill_time", "decode_time", "e2e")
"""Columns that hold a histogram, of times in seconds."""

COUNTER_COLUMNS = (
    "preemptions", "evictions", "prefix_cache_queries", "prefix_cache_hits", "prompt_tokens", "generation_tokens",
    "rejections", "requests",
)  # fmt: skip
"""Columns that only rise while the server lives."""

_JSON = frozenset({"kv_usage", *HISTOGRAM_COLUMNS})
_TEXT = frozenset({"target", "engine", "error"})
_KINDS = {field.name: field.type for field in msgspec.structs.fields(ServerSample)}


def server_header_line() -> str:
    """The CSV header line, with its newline."""
    return ",".join(SERVER_COLUMNS) + "\n"


def encode_server_rows(samples: Iterable[ServerSample]) -> str:
    """The CSV lines (no header) of the samples, each ended by a newline."""
    text = io.StringIO()
    rows = ([_cell(name, value) for name, value in _fields(sample)] for sample in samples)
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def decode_server_rows(text: str, source: str) -> list[ServerSample]:
    """The samples of a ``server.csv``; an unterminated last line is a sample that was never finished, and is left out.

    Args:
        text: The file, header line included.
        source: Its name, for messages.

    Raises:
        UsageError: the header is another one, or a row cannot be read; file and line are named.
    """
    whole = text[: text.rfind("\n") + 1]
    rows = csv.reader(io.StringIO(whole, newline=""))
    header = next(rows, None)
    if header is None:
        return []
    if missing := {"at_ns", "target"} - set(header):
        raise UsageError(f"{source}: not a file of server samples: no column {', '.join(sorted(missing))}")
    samples = []
    for row in rows:
        try:
            if len(row) != len(header):
                raise ValueError(f"{len(row)} cells, but the header names {len(header)} columns")
            cells = {
                name: _value(name, cell) for name, cell in zip(header, row, strict=True) if cell and name in _KINDS
            }
            samples.append(msgspec.convert(cells, ServerSample))
        except (ValueError, msgspec.MsgspecError) as error:
            raise UsageError(f"{source}, line {rows.line_num}: not a server sample: {error}") from None
    return samples


def _fields(sample: ServerSample) -> Iterable[tuple[str, Any]]:
    return zip(SERVER_COLUMNS, msgspec.structs.astuple(sample), strict=True)


def _cell(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in _JSON:
        return msgspec.json.encode(_plain(msgspec.to_builtins(value))).decode()
    return int(value) if isinstance(value, bool) else _plain(value)


def _plain(value: Any) -> Any:
    """Whole numbers without ``.0``: most of what a page counts is whole."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


def _value(name: str, cell: str) -> Any:
    if name in _TEXT:
        return cell
    if name in _JSON:
        return msgspec.json.decode(cell, type=_KINDS[name])
    if name == "at_ns":
        return int(cell)
    if name == "verified":
        return cell == "1"
    number = float(cell)
    if not math.isfinite(number):
        raise ValueError(f"{name} is {cell}")
    return number
