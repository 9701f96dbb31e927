"""Bailian's traces (Qwen): JSONL with seconds, conversations as chats with parents, prompt blocks of 16 tokens.

Source: https://github.com/alibaba-edu/qwen-bailian-usagetraces-anon. A session is everything that descends from one root
chat; a chat whose parent is not in the file belongs to a conversation that began before the trace.
"""

from __future__ import annotations

from array import array

import msgspec
import numpy as np

from llm_locust.arrivals.traces.builder import TraceBuilder
from llm_locust.arrivals.traces.cells import time_ns
from llm_locust.arrivals.traces.exact import Ints
from llm_locust.arrivals.traces.formats.base import TraceFormat
from llm_locust.arrivals.traces.json_rows import Tokens, has_keys, json_rows
from llm_locust.arrivals.traces.lines import TraceFile
from llm_locust.arrivals.traces.trace import UNKNOWN
from llm_locust.records import NS_PER_S

EXAMPLE = (
    '{"chat_id": 159, "parent_chat_id": 55, "timestamp": 61.1, "input_length": 521, "output_length": 132, '
    '"type": "text", "turn": 2, "hash_ids": [1089, 1090]}'
)

ROOT = -1
"""The parent of a chat that has none."""


class _Row(msgspec.Struct, gc=False):
    chat_id: int
    parent_chat_id: int
    timestamp: msgspec.Raw
    input_length: Tokens
    output_length: Tokens
    turn: Tokens
    hash_ids: list[int] = []


_DECODER = msgspec.json.Decoder(_Row)


def _read(file: TraceFile, builder: TraceBuilder) -> None:
    # Also of rows that are dropped: a chain goes on through a chat without output.
    chats, parents, lines, rows = array("q"), array("q"), array("i"), array("i")
    for place, row in json_rows(file, builder, _DECODER, EXAMPLE):
        at = time_ns(file, place.line, "timestamp", bytes(row.timestamp).decode())
        kept = builder.add(place.line, at, row.input_length, row.output_length)
        rows.append(len(builder.line) - 1 if kept else UNKNOWN)
        if kept:
            builder.turn.append(row.turn)
            builder.with_blocks(row.hash_ids, place.line)
        try:
            chats.append(row.chat_id)
            parents.append(row.parent_chat_id)
        except OverflowError:
            raise file.bad(place.line, "chat_id or parent_chat_id is above 2^63") from None
        lines.append(place.line)
    if not rows:
        return
    chat, parent, used = (np.array(column, np.int64) for column in (chats, parents, rows))
    above = _rows_above(chat, parent)
    root = _roots(file, above, np.array(lines, np.int64))
    # The root may itself have a parent, one that is not in the file: its other children are of the same conversation.
    name = np.where(parent[root] == ROOT, chat[root], parent[root])
    is_used = used != UNKNOWN
    names, codes = np.unique(name[is_used], return_inverse=True)
    builder.session_names = [str(number) for number in names.tolist()]
    builder.session.frombytes(codes.astype(np.int32).tobytes())
    while len(through := np.flatnonzero((above != UNKNOWN) & ~is_used[above])):
        above[through] = above[above[through]]  # a chat that was dropped hands its children to its own parent
    builder.parent.frombytes(np.where(above == UNKNOWN, UNKNOWN, used[above])[is_used].astype(np.int32).tobytes())
    if before := int(np.count_nonzero((parent[root] != ROOT) & is_used)):
        builder.notes.append(f"Rows of conversations that began before the trace: {before:,}.")
    if doubles := len(chat) - len(np.unique(chat)):
        builder.notes.append(
            f"Rows with the chat_id of an earlier one, whose follow-ups are taken for the earlier one's: {doubles:,}."
        )


def _rows_above(chat: Ints, parent: Ints) -> Ints:
    """The row of each row's parent; -1 where it has none, or none in the file."""
    order = np.argsort(chat, kind="stable")
    place = np.minimum(np.searchsorted(chat, parent, sorter=order), len(chat) - 1)
    found = order[place]
    return np.where((parent != ROOT) & (chat[found] == parent), found, UNKNOWN)


def _roots(file: TraceFile, above: Ints, line: Ints) -> Ints:
    """The row at the top of each row's chain.

    Raises:
        UsageError: a chain has no top.
    """
    up = np.where(above == UNKNOWN, np.arange(len(above)), above)
    # Each round doubles the distance, so a chain that is no circle has ended after as many rounds as its length has bits.
    for _ in range(len(up).bit_length()):
        up = up[up]
    if len(circling := np.flatnonzero(above[up] != UNKNOWN)):
        raise file.bad(int(line[circling[0]]), "the chain of parent_chat_id leads back to itself")
    return up


FORMAT = TraceFormat(
    name="bailian",
    about="Qwen-Bailian: JSONL, timestamp in s, chat_id, parent_chat_id, hash_ids",
    unit="timestamp in s",
    unit_ns=NS_PER_S,
    recognises=has_keys("chat_id", "parent_chat_id", "timestamp", "input_length", "output_length"),
    read=_read,
    block_tokens=16,
)
