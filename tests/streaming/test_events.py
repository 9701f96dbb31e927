"""Event boundaries under any line ends and cuts, and fields as sseclient reads them."""

from __future__ import annotations

from itertools import pairwise

import pytest
import sseclient
from hypothesis import given
from hypothesis import strategies as st

from llm_locust.streaming.events import BOM, Event, JsonLines, SseEvents, parse_event, parse_fields

LINE_ENDS = (b"\n", b"\r\n", b"\r")


def sse_events(*reads: bytes) -> list[Event]:
    decoder = SseEvents()
    return [event for data in reads for event in decoder.feed(data)]


def message(data: bytes) -> Event:
    return Event("message", data)


@pytest.mark.parametrize("first", LINE_ENDS)
@pytest.mark.parametrize("blank", LINE_ENDS)
def test_any_line_end_ends_a_line_and_a_blank_line_ends_the_event(first: bytes, blank: bytes) -> None:
    if first + blank == b"\r\n":
        assert sse_events(b"data: a\r\n") == []  # one CRLF, not a CR and an LF
    else:
        assert sse_events(b"data: a" + first + blank) == [message(b"a")]


def test_an_event_is_whole_at_the_cr_of_its_blank_line() -> None:
    assert sse_events(b"data: a\r\n\r") == [message(b"a")]


def test_the_lf_of_a_cut_crlf_is_not_another_blank_line() -> None:
    decoder = SseEvents()
    assert decoder.feed(b"data: a\r") == []
    assert decoder.feed(b"\ndata: b\r\n\r") == [message(b"a\nb")]
    assert decoder.feed(b"\n") == []
    assert decoder.feed(b"data: c\n\n") == [message(b"c")]


def test_a_byte_order_mark_is_dropped_at_the_start_only() -> None:
    assert sse_events(BOM + b"data: a\n\n" + BOM + b"data: b\n\n") == [message(b"a")]
    assert sse_events(*(bytes([byte]) for byte in BOM + b"data: a\n\n")) == [message(b"a")]


def test_half_a_byte_order_mark_is_content() -> None:
    decoder = SseEvents()
    decoder.feed(BOM[:2])
    assert decoder.tail == BOM[:2]


def test_an_unfinished_event_stays_in_the_tail() -> None:
    decoder = SseEvents()
    assert decoder.feed(b"data: a\n\ndata: b\n") == [message(b"a")]
    assert decoder.tail == b"data: b\n"


@pytest.mark.parametrize("block", [b": ping", b":", b"id: 7", b"retry: 10", b"event: x", b"nonsense", b"\n\n", b""])
def test_a_block_without_data_is_no_event(block: bytes) -> None:
    assert sse_events(block + b"\n\n") == []


@pytest.mark.parametrize(
    ("block", "event"),
    [
        (b"data: a", message(b"a")),
        (b"data:a", message(b"a")),
        (b"data:  a", message(b" a")),
        (b"data", message(b"")),
        (b"data:", message(b"")),
        (b"data: a\ndata:\ndata: b", message(b"a\n\nb")),
        (b"event: error\ndata: a", Event("error", b"a")),
        (b"event:\ndata: a", message(b"a")),
        (b": note\nid: 1\ndata: a: b", message(b"a: b")),
        (b"data: a\xffb", message("a\ufffdb".encode())),
        ("data: 你".encode(), message("你".encode())),
    ],
)
def test_fields(block: bytes, event: Event) -> None:
    assert parse_event(block) == event


def test_several_events_in_one_read_come_in_order() -> None:
    assert sse_events(b"data: a\n\n\n\n: x\n\ndata: b\n\n") == [message(b"a"), message(b"b")]


field_text = st.text(alphabet=st.sampled_from('a: \t{}"é你🙂\ufeff\x00\x0b\u2028'), max_size=12)
field_name = st.sampled_from(["data", "event", "id", "retry", "", "other", "dat", "data "])
block_lines = st.lists(
    st.tuples(field_name, st.sampled_from(["", ":", ": "]), field_text).map("".join), min_size=1, max_size=5
)


@given(field_text, st.sampled_from(["data:", "data: ", "data"]))
def test_the_shortcut_equals_sseclient(value: str, start: str) -> None:
    block = (start + value).encode()
    assert parse_event(block) == parse_fields(block)


@given(block_lines)
def test_whole_events_are_read_as_sseclient_reads_them(lines: list[str]) -> None:
    block = "\n".join(lines).encode() + b"\n\n"
    found = [Event(event.event, event.data.encode()) for event in sseclient.SSEClient(iter([block])).events()]
    assert sse_events(block) == found


@given(
    st.lists(st.tuples(block_lines, st.lists(st.sampled_from(LINE_ENDS), min_size=12, max_size=12)), max_size=4),
    st.data(),
)
def test_line_ends_and_cuts_change_nothing(blocks: list[tuple[list[str], list[bytes]]], data: st.DataObject) -> None:
    plain = b"".join(b"\n".join(line.encode() for line in lines) + b"\n\n" for lines, _ in blocks)
    mixed = b""
    for lines, ends in blocks:
        for line, end in zip([*lines, ""], ends, strict=False):
            # A lone CR before a line that begins with LF would be one CRLF; give the blank line an end of its own.
            mixed += line.encode() + (b"\r\n" if not line else end)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(mixed)), max_size=20)))
    reads = [mixed[start:end] for start, end in pairwise([0, *cuts, len(mixed)])]
    assert sse_events(*reads) == sse_events(plain)


@given(st.lists(st.sampled_from([b'{"a":1}', b"x", b"", b"  ", "é你".encode()]), max_size=6), st.booleans(), st.data())
def test_lines_of_json_cut_anywhere(lines: list[bytes], marked: bool, data: st.DataObject) -> None:
    raw = (BOM if marked else b"") + b"".join(line + b"\r\n" for line in lines)
    decoder = JsonLines()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(raw)), max_size=20)))
    found = [event for start, end in pairwise([0, *cuts, len(raw)]) for event in decoder.feed(raw[start:end])]
    assert found == [message(line) for line in lines if line.strip()]


def test_a_line_without_its_newline_stays_in_the_tail() -> None:
    decoder = JsonLines()
    assert decoder.feed(BOM + b'{"a"') == []
    assert decoder.tail == b'{"a"'
    assert decoder.feed(b":1}\n{") == [message(b'{"a":1}')]
    assert decoder.tail == b"{"
