"""What must hold for any bytes: the decoder never raises, and neither cuts nor keeping reads change what it reads."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec

from llm_locust.records import Outcome
from llm_locust.streaming import DIALECTS, Reply, ReplyDecoder
from tests.streaming.cases import CASES

NAMES = sorted(DIALECTS)
NOT_OF_THE_CUT = frozenset(
    {"headers_ns", "first_output_ns", "first_answer_ns", "last_output_ns", "complete_ns", "end_ns", "gaps_us",
     "max_gap_ns", "coalesced", "first_coalesced"}
)  # fmt: skip
MAX_BYTES = 20_000


def check(data: bytes) -> None:
    """The first byte chooses the dialect and whether a stream is expected, the second the cuts; the rest is the response."""
    if len(data) < 2:
        return
    dialect, streamed = NAMES[data[0] % len(NAMES)], not data[0] & 0x80
    raw, cuts = data[2:], random.Random(data[1])
    whole = _decoded(dialect, streamed, [raw] if raw else [])
    reads = list(_cut(raw, cuts, largest=data[1] // 4 + 1))
    one_by_one = _decoded(dialect, streamed, reads)
    kept = _decoded(dialect, streamed, reads, portion=data[1] % 7 + 2)
    assert kept == one_by_one
    if whole.bytes_in is not None and whole.bytes_in <= MAX_BYTES:  # past that, how much is read depends on the cuts
        assert _apart_from_times(one_by_one) == _apart_from_times(whole)
    for reply in (whole, one_by_one):
        assert (reply.error is None) == (reply.outcome is Outcome.OK)
        assert reply.error is None or (len(reply.error) <= 300 and reply.error.isprintable())
        if reply.outcome is Outcome.OK and streamed:
            assert reply.output_events
            assert reply.first_output_ns is not None
            assert reply.complete_ns is not None
        msgspec.json.encode(reply)


def seeds() -> Iterator[bytes]:
    """An input for each case of the decoder's specification."""
    for number, case in enumerate(CASES):
        if len(case.raw) <= 2 * MAX_BYTES:
            choice = NAMES.index(case.dialect) | (0 if case.streamed else 0x80)
            yield bytes([choice, number * 37 % 256]) + case.raw


def _decoded(dialect: str, streamed: bool, reads: list[bytes], portion: int = 0) -> Reply:
    decoder = ReplyDecoder(DIALECTS[dialect], streamed=streamed, keep_text=True, max_bytes=MAX_BYTES)
    if portion:
        for start in range(0, len(reads), portion):
            part = reads[start : start + portion]
            decoder.feed_all(part, range(start, start + len(part)))
    else:
        for t_ns, read in enumerate(reads):
            decoder.feed(read, t_ns)
    decoder.close(len(reads))
    return decoder.finish(len(reads))


def _cut(raw: bytes, cuts: random.Random, *, largest: int) -> Iterator[bytes]:
    """Lines, now and then cut: three of them make a chunk with a line of JSON, four one with an event."""
    lines = raw.splitlines(keepends=True)
    while lines:
        read = b"".join(lines[: (count := cuts.choice((1, 3, 3, 4, 4, 4, 5)))])
        del lines[:count]
        while cuts.random() < 0.2 and len(read) > 1:
            at = cuts.randint(1, min(len(read) - 1, largest))
            yield read[:at]
            read = read[at:]
        yield read


def _apart_from_times(reply: Reply) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(reply).items() if name not in NOT_OF_THE_CUT}
