"""The shortcut for reads that are alike: equal to the long way whatever comes, and taken where it should be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_locust.streaming import DIALECTS, Reply, ReplyDecoder, get_dialect

from .responses import CHAT, COMPLETIONS, DONE, GENERATE, OLLAMA_CHAT, ROLE, STOP, TOOL, USAGE, delta, head, sse, text

WORDS = ["one", "two", "three", "four", "five", "six"]


def long_way(dialect: str, reads: list[bytes], **options: Any) -> tuple[Reply, bool, bool]:
    decoder = ReplyDecoder(get_dialect(dialect), keep_text=True, **options)
    for t_ns, read in enumerate(reads):
        decoder.feed(read, t_ns * 1000)
    return decoder.finish(10**9), decoder.done, decoder.reusable


def kept(dialect: str, reads: list[bytes], *sizes: int, **options: Any) -> tuple[Reply, bool, bool]:
    """Fed in portions of these sizes, the last of them again and again."""
    decoder = ReplyDecoder(get_dialect(dialect), keep_text=True, **options)
    start, portions = 0, list(sizes)
    while start < len(reads):
        size = portions.pop(0) if len(portions) > 1 else portions[0]
        part = range(start, min(start + size, len(reads)))
        decoder.feed_all([reads[place] for place in part], [place * 1000 for place in part])
        start += size
    return decoder.finish(10**9), decoder.done, decoder.reusable


def taken(dialect: str, reads: list[bytes]) -> int:
    """Reads that took the shortcut last learnt."""
    decoder = ReplyDecoder(get_dialect(dialect))
    decoder.feed_all(reads, [place * 1000 for place in range(len(reads))])
    assert decoder._alike is not None
    return decoder._alike.taken


def chunk(event: str | bytes, form: str = "%x") -> bytes:
    body = event.encode() if isinstance(event, str) else event
    return (form % len(body)).encode() + b"\r\n" + body + b"\r\n"


def words(event: Any, count: int = 6, **how: Any) -> list[bytes]:
    return [head(), *(chunk(event(WORDS[place % 6]), **how) for place in range(count))]


def padded(event: Any, word: str) -> Any:
    """The event with dots after its word until its size ends in a hexadecimal letter."""
    while len(event(word).encode()) % 16 < 10:
        word += "."
    return event(word)


@pytest.mark.parametrize(
    ("dialect", "event"),
    [
        (CHAT, lambda word: sse(delta(content=word))),
        (CHAT, lambda word: sse(delta(reasoning_content=word))),
        (CHAT, lambda word: sse(delta(content=word)).replace("\n", "\r\n")),
        (CHAT, lambda word: sse(delta(content=word)).replace("data: ", "data:")),
        (COMPLETIONS, lambda word: sse(text(word))),
        (GENERATE, lambda word: json.dumps({"response": word, "done": False}) + "\n"),
        (OLLAMA_CHAT, lambda word: json.dumps({"message": {"content": word}, "done": False}) + "\n"),
    ],
)
@pytest.mark.parametrize("form", ["%x", "%X"])
def test_from_the_third_event_on_reads_that_are_alike_are_recognised(dialect: str, event: Any, form: str) -> None:
    reads = words(lambda word: padded(event, word), form=form)
    assert taken(dialect, reads) == 4
    assert kept(dialect, reads, 7) == long_way(dialect, reads)


def test_several_events_in_one_read_are_alike_too_and_coalesced() -> None:
    reads = words(lambda word: sse(delta(content=word)))
    reads = [*reads[:3], reads[3] + reads[4] + reads[5], reads[6], reads[1] + reads[2]]
    assert taken(CHAT, reads) == 3
    reply, _, _ = kept(CHAT, reads, 9)
    assert (reply.text, reply.output_events) == ("onetwothreefourfivesixonetwo", 8)
    assert (reply.coalesced, reply.first_coalesced) == (2, False)
    assert reply.gaps_us == [1, 1, 0, 0, 1, 1, 0]
    assert kept(CHAT, reads, 9) == long_way(CHAT, reads)


@pytest.mark.parametrize(
    "word", ['a "quoted" word', "back\\slash", "line\nbreak", "nul\0", "é你🙂", "\u2028", "\x85", " ", "x" * 3000]
)
def test_any_text_that_json_can_hold_is_alike(word: str) -> None:
    reads = [*words(lambda word: sse(delta(content=word)), 2), *[chunk(sse(delta(content=word)))] * 3]
    assert taken(CHAT, reads) == 3
    reply, _, _ = kept(CHAT, reads, 9)
    assert reply.text == "onetwo" + 3 * word


@pytest.mark.parametrize(
    "other",
    [
        chunk(sse(delta(content=""))),
        chunk(sse(delta(content="a", tool_calls=[TOOL]))),
        chunk(STOP),
        chunk("data\n\n"),
        chunk(": ping\n\n"),
        chunk(sse(delta(content="a")) + sse(delta(content="b"))),
        chunk(sse(delta(content="a")) + ": the beginning of"),
        chunk(sse(delta(content="a")))[:-1],
        chunk(sse(delta(content="a"))).replace(b"\r\n", b";x=1\r\n", 1),
        chunk(sse(delta(content="a"))) + chunk(STOP),
        chunk(sse(delta(content="a"))) + chunk(sse(delta(content="b")))[:-1],
        chunk(sse(delta(content="a"))) * 2 + b"-5\r\n",
        chunk(sse(delta(content="a"))) * 2 + b"5",
        b"0" + chunk(sse(delta(content="a"))),
        chunk(sse(delta(content="a")).replace('"a"', '"a\nb"')),
        chunk(sse(delta(content="a")).replace('"a"', '"a"\n\n')),
        chunk(sse(delta(content="a")).replace('"a"', '"\\ud83d"')),
        chunk(sse(delta(content="a")).replace('"a"', "7")),
        chunk(sse(delta(content="a")).encode().replace(b'"a"', b'"\xff"')),
    ],
)
def test_what_is_not_alike_goes_the_long_way(other: bytes) -> None:
    before = words(lambda word: sse(delta(content=word)))
    assert taken(CHAT, [*before, other]) == 4
    reads = [*before, other, *before[1:], chunk(STOP), b"0\r\n\r\n"]
    assert kept(CHAT, reads, 20) == long_way(CHAT, reads)


def test_the_text_may_stand_elsewhere_in_the_event_too() -> None:
    reads = [
        head(),
        *(chunk(sse({"model": "two", "choices": [{"delta": {"content": word}, "note": "two"}]})) for word in WORDS),
    ]
    assert taken(CHAT, reads) == 3  # which "two" is the text cannot be told from the second event
    assert kept(CHAT, reads, 7) == long_way(CHAT, reads)
    other = [head(), *(chunk(sse({"choices": [{"delta": {"content": "two"}, "note": word}]})) for word in WORDS)]
    assert kept(CHAT, other, 7) == long_way(CHAT, other)
    assert kept(CHAT, other, 7)[0].text == "two" * 6


def test_of_a_name_given_twice_the_last_counts() -> None:
    reads = [head(), *(chunk(sse(delta(content=word)).replace('"f', '"content":"b","f')) for word in WORDS)]
    twice = [
        head(),
        *(chunk(sse(delta(content=word)).replace('{"content', '{"content":"b","content')) for word in WORDS),
    ]
    assert taken(CHAT, twice) == 4
    for one in (reads, twice):
        assert kept(CHAT, one, 7) == long_way(CHAT, one)


def test_a_server_that_writes_the_time_into_every_event_is_not_asked_again_and_again() -> None:
    read: list[bytes] = []
    dialect = get_dialect(GENERATE)
    real = dialect.read_event

    class Counting:
        events = dialect.events

        def read_event(self, event: Any) -> Any:
            read.append(event.data)
            return real(event)

    decoder = ReplyDecoder(Counting())  # type: ignore[arg-type]
    reads = [chunk(json.dumps({"created_at": place, "response": "a", "done": False}) + "\n") for place in range(100)]
    decoder.feed_all([head(), *reads], list(range(101)))
    assert len(read) == 100 + 3  # each of three lessons reads an event once more


def test_a_read_after_half_a_chunk_is_not_alike_though_it_looks_so() -> None:
    before = words(lambda word: sse(delta(content=word)))
    event = sse(delta(content="x"))
    inside = chunk(event)  # these bytes, as the content of a larger chunk
    outer = b"%x\r\n" % (10 + len(inside)) + b":" + b"c" * 8 + b"\n"
    for first in (outer, b"%x\r\n%b" % (len(event) + 2 + len(inside), event.replace("\n\n", "\r\n\r\n").encode())):
        reads = [*before, first, inside, b"\r\n", chunk(STOP), b"0\r\n\r\n"]
        reply, done, _ = long_way(CHAT, reads)
        assert done
        assert reply.error is None
        assert kept(CHAT, reads, 20) == long_way(CHAT, reads)


def test_nothing_is_read_after_the_end() -> None:
    reads = words(lambda word: sse(delta(content=word)))
    decoder = ReplyDecoder(get_dialect(CHAT))
    decoder.feed_all(reads, range(7))
    decoder.lost(7, "reset")
    decoder.feed_all(reads[1:], range(8, 14))
    assert decoder.finish().output_events == 6


@pytest.mark.parametrize("limit", range(400, 1000, 37))
def test_the_bound_on_the_size_holds_at_the_same_read(limit: int) -> None:
    reads = words(lambda word: sse(delta(content=word)), 12)
    assert kept(CHAT, reads, 20, max_bytes=limit) == long_way(CHAT, reads, max_bytes=limit)


# Whatever comes

json_text = st.text(alphabet=st.sampled_from('ab "\\\n\r\t{}é你🙂\u2028\x7f\x85'), max_size=5)


def events_of(dialect: str) -> st.SearchStrategy[bytes]:
    ascii_only = st.booleans()

    def sse_of(value: Any, ensure_ascii: bool) -> bytes:
        return f"data: {json.dumps(value, ensure_ascii=ensure_ascii)}\n\n".encode()

    def line_of(value: Any, ensure_ascii: bool) -> bytes:
        return json.dumps(value, ensure_ascii=ensure_ascii).encode() + b"\n"

    if dialect == CHAT:
        common = st.builds(lambda t, a: sse_of(delta(content=t), a), json_text, ascii_only)
        thought = st.builds(lambda t, a: sse_of(delta(reasoning=t), a), json_text, ascii_only)
        rare = st.sampled_from([ROLE, STOP, USAGE, DONE, ": c\n\n", "data: [", sse({"error": "x"}), "event: a\n"])
        return st.one_of(common, common, thought, rare.map(str.encode))
    if dialect == COMPLETIONS:
        common = st.builds(lambda t, a: sse_of(text(t), a), json_text, ascii_only)
        return st.one_of(common, common, st.sampled_from([sse(text("", "stop")), DONE, ":\n\n"]).map(str.encode))
    key = "response" if dialect == GENERATE else "content"

    def line(t: str, a: bool, done: bool) -> bytes:
        part: dict[str, Any] = {key: t} if dialect == GENERATE else {"message": {key: t}}
        return line_of({**part, "done": done}, a)

    return st.builds(line, json_text, ascii_only, st.sampled_from([False] * 9 + [True]))


@st.composite
def streams(draw: st.DrawFn) -> tuple[str, list[bytes]]:
    """Reads of a reply: one chunk with one event each, mostly; some cut, joined, or with a byte changed."""
    dialect = draw(st.sampled_from(sorted(DIALECTS)))
    form = draw(st.sampled_from(["%x", "%X", "%04x"]))
    reads = [chunk(event, form) for event in draw(st.lists(events_of(dialect), max_size=14))]
    if draw(st.booleans()):
        reads.append(b"0\r\n\r\n" + draw(st.sampled_from([b"", b"", b"x", b"HTTP/1.1 200 OK\r\n"])))
    for _ in range(draw(st.integers(0, 4))):
        if not reads:
            break
        place = draw(st.integers(0, len(reads) - 1))
        read = reads[place]
        change = draw(st.sampled_from(["cut", "join", "join", "byte"]))
        at = draw(st.integers(0, max(len(read) - 1, 0)))
        if change == "cut":
            reads[place : place + 1] = [part for part in (read[:at], read[at:]) if part]
        elif change == "join":
            reads[place : place + 2] = [b"".join(reads[place : place + 2])]
        elif read:
            byte = draw(st.sampled_from(b'\r\n"\\:x\x00\xff0'))
            reads[place] = read[:at] + bytes([byte]) + read[at + 1 :]
    return dialect, [head(kind=draw(st.sampled_from(["text/event-stream", "application/x-ndjson"]))), *reads]


@given(streams(), st.lists(st.integers(1, 8), min_size=1, max_size=5), st.sampled_from([2**20, 2**20, 600, 900]))
@settings(max_examples=400, deadline=None)
def test_kept_reads_are_read_as_they_would_have_been_one_by_one(
    stream: tuple[str, list[bytes]], sizes: list[int], limit: int
) -> None:
    dialect, reads = stream
    assert kept(dialect, reads, *sizes, max_bytes=limit) == long_way(dialect, reads, max_bytes=limit)
