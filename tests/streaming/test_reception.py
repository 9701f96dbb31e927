"""Reads that are kept until it is worth decoding them: nothing changes but when, and an end never waits."""

from __future__ import annotations

from itertools import pairwise

import pytest

from llm_locust.streaming import ReplyDecoder, get_dialect
from llm_locust.streaming.reception import OutOfTime, Reception

from .cases import CASES, Case, decoded_fields
from .responses import CHAT, HELLO, PLAIN, chunk, head, response

LATER = 10**12


def reception(dialect: str = CHAT, deadline_ns: int = LATER, *, streamed: bool = True) -> Reception:
    return Reception(ReplyDecoder(get_dialect(dialect), streamed=streamed, keep_text=True), deadline_ns)


def take(one: Reception, data: bytes, t_ns: int = 0) -> bool:
    """One read as a reader takes it; whether the reply needs nothing more."""
    one.reads.append(data)
    one.times.append(t_ns)
    return one.due(data) and one.settle()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_end_of_a_reply_is_seen_in_the_read_that_holds_it(case: Case) -> None:
    whole = ReplyDecoder(get_dialect(case.dialect), streamed=case.streamed, keep_text=True)
    whole.feed(case.raw, 0)
    # A reply that breaks, or goes on after its end, is noticed when its stream has been quiet for a while.
    may_wait = not whole.done or whole._framing.surplus or whole._framing.error is not None
    due = decoded_fields(whole.finish()) | {"bytes_in": None}  # nothing is read after the end
    step = max(1, len(case.raw) // 300)
    for cut in range(0, len(case.raw) + 1, step):
        one = reception(case.dialect, streamed=case.streamed)
        done = False
        for start, end in pairwise([0, cut, len(case.raw)]):
            done = done or (start < end and take(one, case.raw[start:end]))
        assert done or may_wait, f"cut at {cut}"
        one.settle()
        assert decoded_fields(one.decoder.finish()) | {"bytes_in": None} == due, f"cut at {cut}"


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_events_in_the_middle_of_a_stream_are_kept(line_end: str) -> None:
    one = reception()
    assert not take(one, head())
    for t_ns, piece in enumerate(HELLO * 10):
        take(one, chunk(piece.replace("\n", line_end)), t_ns)
    assert len(one.reads) == 30
    assert not one.settle()
    assert one.reads == one.times == []
    assert one.decoder.finish().output_events == 30


def test_not_more_than_64_reads_nor_a_long_one_are_kept() -> None:
    one = reception()
    take(one, head())
    longest = 0
    for piece in HELLO * 100:
        take(one, chunk(piece))
        longest = max(longest, len(one.reads))
    assert longest == 63
    take(one, chunk(": " + "x" * 2000 + "\n\n"))
    assert one.reads == []


def test_nothing_is_kept_before_the_head_nor_of_a_body_with_a_length() -> None:
    one = reception()
    take(one, head()[:20])
    assert one.reads == []
    take(one, head(framing="Content-Length: 5000")[20:])
    take(one, b"x" * 100)
    assert one.reads == []


def test_what_came_before_the_deadline_counts_and_what_came_after_does_not() -> None:
    one = reception(deadline_ns=20)
    take(one, head(), 1)
    for t_ns, piece in zip((10, 20, 21), HELLO, strict=True):
        take(one, chunk(piece), t_ns)
    with pytest.raises(OutOfTime):
        one.settle()
    assert one.decoder.finish().output_events == 2


def test_a_reply_that_ended_before_the_deadline_is_whole() -> None:
    one = reception(deadline_ns=20)
    assert take(one, response(*PLAIN), 20)
    one.reads.append(b"surplus")
    one.times.append(21)
    assert one.settle()


def test_where_the_times_came_from() -> None:
    one = reception()
    assert one.clock is None
    take(one, head())
    assert one.clock == "kernel"
    one.user_reads = 1
    assert one.clock == "user"
    take(one, chunk(": " + "x" * 2000 + "\n\n"))
    assert one.clock == "mixed"
