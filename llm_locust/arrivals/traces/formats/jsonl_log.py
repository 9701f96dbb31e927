"""One's own log of requests as JSONL.

A line has a ``timestamp`` (seconds as a number, or an ISO 8601 date and time as text) and the request: ``messages`` or
``prompt``. What else is known may stand beside it: ``max_tokens``, ``input_tokens``, ``output_tokens``, ``session``,
``slice``, ``prefix_group``, ``id``. Other keys are left alone. The requests stay in the file.
"""

from __future__ import annotations

from llm_locust.arrivals.traces.builder import TraceBuilder
from llm_locust.arrivals.traces.cells import MOST_TOKENS, time_ns
from llm_locust.arrivals.traces.exact import date_ns
from llm_locust.arrivals.traces.formats.base import TraceFormat
from llm_locust.arrivals.traces.json_rows import Place, has_keys, json_rows
from llm_locust.arrivals.traces.lines import TraceFile, shown
from llm_locust.arrivals.traces.log_lines import DECODER, LoggedRequest
from llm_locust.arrivals.traces.trace import UNKNOWN
from llm_locust.records import NS_PER_S

EXAMPLE = '{"timestamp": 12.5, "prompt": "...", "max_tokens": 64}'


def _read(file: TraceFile, builder: TraceBuilder) -> None:
    dated: bool | None = None
    limits = 0
    for place, row in json_rows(file, builder, DECODER, EXAMPLE):
        _check(file, place, row)
        stamp = bytes(row.timestamp).decode()
        if dated is None:
            dated = stamp.startswith('"')
        elif dated != stamp.startswith('"'):
            other = "a date" if dated else "a number"
            raise file.bad(place.line, f"timestamp is {shown(stamp)}, but on the lines before it is {other}")
        at = _date(file, place, stamp) if dated else time_ns(file, place.line, "timestamp", stamp)
        output = row.output_tokens if row.output_tokens is not None else row.max_tokens
        if builder.add(
            place.line,
            at,
            UNKNOWN if row.input_tokens is None else row.input_tokens,
            UNKNOWN if output is None else output,
        ):
            limits += row.output_tokens is None and row.max_tokens is not None
            builder.in_sessions(["" if row.session is None else str(row.session)])
            builder.offset.append(place.offset)
            builder.length.append(place.length)
    if limits:
        builder.notes.append(f"Rows whose output length is a limit (max_tokens) and not what came: {limits:,}.")


def _check(file: TraceFile, place: Place, row: LoggedRequest) -> None:
    if (row.prompt is None) == (row.messages is None):
        raise file.bad(place.line, 'give either "prompt" or "messages"')
    if row.prompt == "" or row.messages == []:
        raise file.bad(place.line, "the prompt is empty")
    for name in ("input_tokens", "output_tokens", "max_tokens"):
        value = getattr(row, name)
        if value is not None and not 0 <= value <= MOST_TOKENS:
            what = "a length cannot be negative" if value < 0 else "more tokens than any request has"
            raise file.bad(place.line, f"{name} is {value}: {what}")
    for name in ("slice", "prefix_group"):
        value = getattr(row, name)
        if value is not None and not value.isprintable():
            raise file.bad(place.line, f"{name} is {shown(value)}: a name has no control characters")


def _date(file: TraceFile, place: Place, stamp: str) -> int:
    found = date_ns(stamp[1:-1])
    if found is None:
        raise file.bad(place.line, f"timestamp is {shown(stamp[1:-1])}, neither seconds nor an ISO 8601 date and time")
    return found


def _recognises(line: bytes) -> bool:
    return has_keys("timestamp", "messages")(line) or has_keys("timestamp", "prompt")(line)


FORMAT = TraceFormat(
    name="jsonl",
    about="your own: timestamp, messages or prompt; max_tokens, session, slice if known",
    unit="timestamp in s, or as date and time",
    unit_ns=NS_PER_S,
    recognises=_recognises,
    read=_read,
)
