"""Mooncake's traces (Kimi): JSONL with milliseconds and hashed prompt blocks of 512 tokens.

Source: https://github.com/kvcache-ai/Mooncake, FAST25-release/traces. Arrivals were collected in bins of about 3 s.
"""

from __future__ import annotations

import msgspec

from llm_locust.arrivals.traces.builder import TraceBuilder
from llm_locust.arrivals.traces.cells import MS_DIGITS, time_ns
from llm_locust.arrivals.traces.formats.base import TraceFormat
from llm_locust.arrivals.traces.json_rows import Tokens, has_keys, json_rows
from llm_locust.arrivals.traces.lines import TraceFile

EXAMPLE = '{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}'


class _Row(msgspec.Struct, gc=False):
    timestamp: msgspec.Raw
    input_length: Tokens
    output_length: Tokens
    hash_ids: list[int] = []


_DECODER = msgspec.json.Decoder(_Row)


def _read(file: TraceFile, builder: TraceBuilder) -> None:
    for place, row in json_rows(file, builder, _DECODER, EXAMPLE):
        at = time_ns(file, place.line, "timestamp", bytes(row.timestamp).decode(), MS_DIGITS)
        if builder.add(place.line, at, row.input_length, row.output_length):
            builder.with_blocks(row.hash_ids, place.line)


FORMAT = TraceFormat(
    name="mooncake",
    about="Mooncake: JSONL, timestamp in ms, hash_ids",
    unit="timestamp in ms",
    unit_ns=1_000_000,
    recognises=has_keys("timestamp", "input_length", "output_length", without="chat_id"),
    read=_read,
    block_tokens=512,
)
