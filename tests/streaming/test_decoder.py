"""From bytes to outcome: every case whole, byte by byte, and cut anywhere."""

from __future__ import annotations

import json
import weakref
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_locust.records import Outcome
from llm_locust.streaming import Failure, Reply, ReplyDecoder, get_dialect

from .cases import CASES, Case, decoded_fields
from .responses import (
    CHAT,
    COMPLETIONS,
    DONE,
    GENERATE,
    HELLO,
    PLAIN,
    ROLE,
    STOP,
    USAGE,
    chunk,
    delta,
    head,
    lines,
    response,
    sse,
    usage,
    whole,
)

CAPTURES = Path(__file__).parent / "captures"


def read(case: Case, *cuts: int) -> Reply:
    decoder = ReplyDecoder(get_dialect(case.dialect), streamed=case.streamed, keep_text=True)
    for t_ns, (start, end) in enumerate(pairwise([0, *cuts, len(case.raw)])):
        decoder.feed(case.raw[start:end], t_ns)
    decoder.close(len(cuts) + 1)
    return decoder.finish()


def replay(dialect: str, *reads: tuple[int, str | bytes]) -> ReplyDecoder:
    decoder = ReplyDecoder(get_dialect(dialect), keep_text=True)
    for t_ns, data in reads:
        decoder.feed(data if isinstance(data, bytes) else data.encode(), t_ns)
    return decoder


each_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


@each_case
def test_case_whole(case: Case) -> None:
    reply = read(case)
    assert {name: getattr(reply, name) for name in case.due} == case.due
    assert (reply.error is None) == (reply.outcome is Outcome.OK)


@each_case
def test_case_one_byte_at_a_time(case: Case) -> None:
    assert decoded_fields(read(case, *range(1, len(case.raw)))) == decoded_fields(read(case))


@each_case
def test_case_cut_at_every_position(case: Case) -> None:
    due = decoded_fields(read(case))
    step = max(1, len(case.raw) // 1500)  # every position of all but the one absurdly long case
    for cut in range(0, len(case.raw) + 1, step):
        assert decoded_fields(read(case, cut)) == due, f"cut at {cut}"


@given(st.sampled_from(CASES), st.data())
@settings(max_examples=200, deadline=None)
def test_case_cut_anywhere(case: Case, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(case.raw)), max_size=40)))
    assert decoded_fields(read(case, *cuts)) == decoded_fields(read(case))


@given(st.binary(max_size=300), st.integers(1, 50))
@settings(max_examples=200, deadline=None)
def test_bytes_of_any_kind_get_an_outcome_that_is_not_ok(noise: bytes, size: int) -> None:
    for prefix in (b"", head(), head(framing="Connection: close")):
        raw = prefix + noise
        reply = read(Case("noise", CHAT, raw, {}), *range(size, len(raw), size))
        assert reply.outcome is not Outcome.OK


def test_every_time_is_that_of_the_read_that_completed_it() -> None:
    decoder = replay(
        CHAT,
        (100, head()),
        (200, chunk(ROLE)),
        (300, chunk(sse(delta(reasoning_content="hm")))[:-10]),
        (400, chunk(sse(delta(reasoning_content="hm")))[-10:]),
        (3_400, chunk(HELLO[0])),
        (9_400, chunk(HELLO[1])),
        (10_000, chunk(STOP)),
        (11_000, chunk(USAGE)),
        (12_000, chunk(DONE) + b"0\r\n\r\n"),
    )
    reply = decoder.finish()
    assert reply.outcome is Outcome.OK
    assert reply.headers_ns == 100
    assert reply.first_output_ns == 400
    assert reply.first_answer_ns == 3_400
    assert reply.last_output_ns == 9_400
    assert reply.complete_ns == 10_000
    assert reply.end_ns == 12_000
    assert reply.gaps_us == [3, 6]
    assert reply.max_gap_ns == 6_000
    assert (reply.coalesced, reply.first_coalesced) == (0, False)


def test_complete_is_the_last_output_when_that_comes_after_the_finish() -> None:
    reply = replay(CHAT, (10, head() + chunk(STOP)), (20, chunk(HELLO[0])), (30, b"0\r\n\r\n")).finish()
    assert (reply.complete_ns, reply.last_output_ns, reply.end_ns) == (20, 20, 30)


def test_a_reply_without_a_finish_is_never_complete() -> None:
    reply = replay(CHAT, (10, head() + chunk(HELLO[0])), (20, b"0\r\n\r\n")).finish()
    assert reply.outcome is Outcome.TRUNCATED
    assert reply.complete_ns is None


def test_one_output_event_has_no_gap() -> None:
    reply = replay(CHAT, (10, response(HELLO[0], STOP))).finish()
    assert (reply.max_gap_ns, reply.gaps_us) == (None, None)


def test_head_and_first_output_in_one_read_share_its_time() -> None:
    reply = replay(CHAT, (10, head() + chunk(HELLO[0])), (20, chunk(STOP) + b"0\r\n\r\n")).finish()
    assert (reply.headers_ns, reply.first_output_ns) == (10, 10)


def test_a_role_event_in_the_read_of_the_first_output_does_not_bend_it() -> None:
    reply = replay(CHAT, (10, head() + chunk(ROLE) + chunk(HELLO[0])), (20, chunk(STOP) + b"0\r\n\r\n")).finish()
    assert (reply.coalesced, reply.first_coalesced) == (0, False)


def test_a_finish_in_the_read_of_the_only_output_does_not_bend_it() -> None:
    reply = replay(CHAT, (10, response(HELLO[0], STOP, USAGE, DONE))).finish()
    assert (reply.coalesced, reply.first_coalesced) == (0, False)


def test_a_second_output_in_the_read_of_the_first_may_bend_it() -> None:
    reply = replay(CHAT, (10, head() + chunk(HELLO[0]) + chunk(HELLO[1])), (20, chunk(STOP) + b"0\r\n\r\n")).finish()
    assert (reply.coalesced, reply.first_coalesced) == (1, True)
    assert reply.gaps_us == [0]


def test_later_reads_of_several_outputs_are_counted_apart_from_the_first() -> None:
    reply = replay(
        CHAT,
        (10, head() + chunk(HELLO[0])),
        (20, chunk("".join(HELLO))),
        (30, chunk("".join(HELLO))),
        (40, chunk(STOP)),
    ).finish()
    assert (reply.coalesced, reply.first_coalesced) == (2, False)


def test_no_output_has_no_first_read_to_be_coalesced() -> None:
    assert replay(CHAT, (10, response(ROLE, DONE))).finish().first_coalesced is None


def test_a_reply_in_one_piece_has_an_end_but_no_first_output() -> None:
    decoder = ReplyDecoder(get_dialect(CHAT), streamed=False)
    decoder.feed(whole('{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}'), 50)
    reply = decoder.finish()
    assert (reply.headers_ns, reply.first_output_ns, reply.first_answer_ns, reply.complete_ns) == (50, None, None, 50)
    assert (reply.coalesced, reply.first_coalesced, reply.output_events) == (None, None, None)


def test_a_reply_that_was_not_streamed_has_no_time_of_output() -> None:
    reply = replay(GENERATE, (10, whole(lines({"response": "hi", "done": True})))).finish()
    assert reply.outcome is Outcome.NOT_STREAMED
    assert (reply.first_output_ns, reply.last_output_ns, reply.complete_ns) == (None, None, None)


def test_ollama_durations_are_nanoseconds_as_sent() -> None:
    last = {
        "response": "",
        "done": True,
        "total_duration": 5,
        "load_duration": 4,
        "prompt_eval_duration": 3,
        "eval_duration": 2,
    }
    reply = replay(GENERATE, (10, response(lines({"response": "a"}, last), kind="application/x-ndjson"))).finish()
    assert (reply.total_duration_ns, reply.load_duration_ns) == (5, 4)
    assert (reply.prompt_eval_duration_ns, reply.eval_duration_ns) == (3, 2)


def test_text_is_kept_only_when_asked_for() -> None:
    decoder = ReplyDecoder(get_dialect(CHAT))
    decoder.feed(response(*PLAIN), 1)
    reply = decoder.finish()
    assert reply.outcome is Outcome.OK
    assert (reply.text, reply.reasoning) == (None, None)


@pytest.mark.parametrize("count", [True, -1, 1.5, "3", 2**60, None, [3], float("inf")])
def test_a_count_that_is_no_count_is_not_measured(count: object) -> None:
    odd = {**usage(7, 3), "usage": {"prompt_tokens": count, "completion_tokens": count}}
    reply = replay(CHAT, (1, response(*HELLO, STOP, sse(odd)))).finish()
    assert (reply.prompt_tokens, reply.output_tokens, reply.output_tokens_source) == (None, 3, "events")


def test_a_count_written_as_a_float_is_that_count() -> None:
    reply = replay(CHAT, (1, response(*HELLO, STOP, sse({"usage": {"completion_tokens": 4.0}})))).finish()
    assert (reply.output_tokens, reply.output_tokens_source) == (4, "usage")


# How an exchange ends


@pytest.mark.parametrize(
    "outcome", [Outcome.CANCELLED, Outcome.TIMEOUT, Outcome.CONNECT_ERROR, Outcome.GENERATOR_ERROR]
)
def test_what_the_client_decided_comes_first_and_keeps_what_was_seen(outcome: Outcome) -> None:
    decoder = replay(CHAT, (10, head()), (20, chunk(HELLO[0])), (30, chunk("data: {")), (40, chunk(HELLO[1])))
    reply = decoder.finish(99, failure=Failure(outcome, "why"))
    assert (reply.outcome, reply.error, reply.end_ns, reply.status) == (outcome, "why", 99, 200)
    assert (reply.first_output_ns, reply.output_events, reply.headers_ns) == (20, 1, 10)
    assert (reply.output_tokens, reply.output_tokens_source) == (1, "events")


def test_a_reset_anywhere_is_a_lost_connection() -> None:
    decoder = replay(CHAT, (10, head("500 Oops", "application/json")))
    decoder.lost(20, "Connection reset by peer")
    reply = decoder.finish()
    assert (reply.outcome, reply.error, reply.end_ns) == (Outcome.CONNECTION_LOST, "Connection reset by peer", 20)
    assert decoder.done
    assert not decoder.reusable


def test_what_comes_after_the_end_changes_nothing() -> None:
    decoder = replay(CHAT, (10, response(*PLAIN)))
    decoder.close(20)
    decoder.lost(30, "reset")
    assert decoder.finish().outcome is Outcome.OK
    assert decoder.finish().end_ns == 10


def test_a_reply_longer_than_the_bound_is_given_up() -> None:
    decoder = ReplyDecoder(get_dialect(CHAT), max_bytes=5_000)
    for t_ns in range(100):
        if decoder.done:
            break
        decoder.feed((head() if t_ns == 0 else b"") + chunk(sse(delta(content="x" * 900))), t_ns)
    reply = decoder.finish()
    assert reply.outcome is Outcome.PROTOCOL_ERROR
    assert reply.error == "the reply is longer than 5000 bytes and was given up"
    assert (reply.output_events, reply.end_ns) == (5, 4)
    assert not decoder.reusable


def test_an_endless_head_is_given_up() -> None:
    decoder = replay(CHAT, (1, b"HTTP/1.1 200 OK\r\n"))
    for t_ns in range(1000):
        if decoder.done:
            break
        decoder.feed(b"X-Filler: " + b"x" * 1000 + b"\r\n", t_ns)
    reply = decoder.finish()
    assert reply.outcome is Outcome.PROTOCOL_ERROR
    assert reply.error == "the response head is longer than 262144 bytes"


def test_an_endless_error_body_is_read_only_for_its_text() -> None:
    decoder = replay(CHAT, (1, head("500 Oops", "text/plain", "Connection: close") + b"it broke "))
    for t_ns in range(1000):
        if decoder.done:
            break
        decoder.feed(b"x" * 1000, t_ns)
    reply = decoder.finish()
    assert reply.outcome is Outcome.HTTP_ERROR
    assert reply.error is not None
    assert reply.error.startswith("HTTP 500: it broke xxx")
    assert len(reply.error) == 300
    assert reply.bytes_in is not None
    assert reply.bytes_in < 70_000


def test_one_event_of_two_megabytes() -> None:
    raw = response(sse(delta(content="x" * 2_000_000)), STOP, sse(usage(7, 500_000)))
    reply = read(Case("huge", CHAT, raw, {}), *range(4096, len(raw), 4096))
    assert reply.outcome is Outcome.OK
    assert (reply.output_events, reply.output_tokens, len(reply.text or "")) == (1, 500_000, 2_000_000)


# Connections


@pytest.mark.parametrize(
    "raw",
    [response(*PLAIN), whole("{}"), whole("{}", "404 Not Found"), b"HTTP/1.1 204 No Content\r\n\r\n"],
    ids=["chunked", "length", "error", "no body"],
)
def test_a_connection_is_reusable_after_the_exact_end(raw: bytes) -> None:
    decoder = replay(CHAT, (1, raw[:-1]))
    if not raw.startswith(b"HTTP/1.1 204"):
        assert not decoder.done
    decoder.feed(raw[-1:], 2)
    assert (decoder.done, decoder.reusable) == (True, True)


@pytest.mark.parametrize(
    "raw",
    [
        response(*PLAIN).replace(b"\r\n", b"\r\nConnection: close\r\n", 1),
        whole("{}").replace(b"HTTP/1.1", b"HTTP/1.0"),
        response(*PLAIN) + b"HTTP/1.1 200 OK\r\n",
        response(*PLAIN) + b"x",
        response(*PLAIN)[:-1],
        head() + b"zz\r\n",
    ],
    ids=["close", "HTTP/1.0", "another response", "a stray byte", "not yet whole", "broken framing"],
)  # fmt: skip
def test_a_connection_is_not_reusable(raw: bytes) -> None:
    assert not replay(CHAT, (1, raw)).reusable


def test_surplus_bytes_do_not_spoil_the_reply_before_them() -> None:
    assert replay(CHAT, (1, response(*PLAIN) + b"garbage")).finish().outcome is Outcome.OK
    twice = replay(CHAT, (1, response(*PLAIN) * 2))
    assert twice.finish().text == "Hello!"
    assert not twice.reusable
    late = replay(CHAT, (1, response(*PLAIN)), (2, b"garbage"))
    assert late.finish().outcome is Outcome.OK
    assert not late.reusable


@pytest.mark.parametrize("raw", [response(*PLAIN), response(*PLAIN)[:-9], b"SSH-2.0"], ids=["whole", "cut", "not HTTP"])
def test_a_reply_that_was_read_leaves_nothing_to_the_garbage_collector(raw: bytes) -> None:
    decoder = replay(CHAT, (1, raw))
    decoder.close(2)
    decoder.finish()
    framing = weakref.ref(decoder._framing)
    del decoder
    assert framing() is None


# Real engines


def replayed_capture(name: str, dialect: str) -> Reply:
    decoder = ReplyDecoder(get_dialect(dialect), keep_text=True)
    for line in (CAPTURES / name).read_text().splitlines():
        read_at = json.loads(line)
        t_ns = round(read_at["ms"] * 1e6)
        if read_at["bytes"]:
            decoder.feed(read_at["bytes"].encode(), t_ns)
        else:
            decoder.close(t_ns)
    return decoder.finish()


def test_llama_server_completions() -> None:
    reply = replayed_capture("llama-completions.jsonl", COMPLETIONS)
    assert (reply.outcome, reply.text, reply.finish_reason) == ("ok", " Paris.\n\nThe United States has", "length")
    assert (reply.output_events, reply.output_tokens, reply.prompt_tokens, reply.cached_tokens) == (8, 8, 5, 0)
    assert (reply.headers_ns, reply.first_output_ns) == (29_250_000, 52_260_000)
    # The last token, the finish with its usage and the end marker came in one read.
    assert reply.last_output_ns == reply.complete_ns == reply.end_ns == 122_140_000
    assert (reply.coalesced, reply.first_coalesced) == (0, False)


def test_vllm_tokens_that_are_half_a_character() -> None:
    reply = replayed_capture("vllm-chat-half-characters.jsonl", CHAT)
    assert reply.outcome is Outcome.OK
    # Half a character comes as an event without content: fewer output events than tokens.
    assert (reply.output_events, reply.output_tokens, reply.output_tokens_source) == (4, 8, "usage")
    # The role event and the first token share a read.
    assert (reply.first_output_ns, reply.first_coalesced) == (15_480_000, False)


def test_llama_server_in_one_piece() -> None:
    raw = (CAPTURES / "llama-chat-whole.http").read_bytes()
    reply = read(Case("", CHAT, raw, {}, streamed=False))
    assert (reply.outcome, reply.text, reply.output_tokens) == ("ok", "Hi, welcome to my chat!", 8)
    assert (reply.prompt_tokens, reply.cached_tokens) == (36, 35)


def test_engines_that_turn_requests_away() -> None:
    busy = read(Case("", CHAT, (CAPTURES / "vllm-overload.http").read_bytes(), {}))
    loading = read(Case("", CHAT, (CAPTURES / "llama-loading.http").read_bytes(), {}))
    assert (busy.outcome, busy.status) == (Outcome.REJECTED, 503)
    assert (loading.outcome, loading.error) == (Outcome.REJECTED, "HTTP 503: Loading model")


def test_stamps_that_step_back_by_a_moment_make_no_negative_gap() -> None:
    """Stamps of two wakes are put on our clock by two distances, which differ by microseconds."""
    reply = replay(
        CHAT,
        (10_000, head() + chunk(HELLO[0])),
        (20_000, chunk(HELLO[1])),
        (19_600, chunk(HELLO[2])),
        (30_000, chunk(STOP) + b"0\r\n\r\n"),
    ).finish()
    assert reply.gaps_us == [10, 0]
    assert (reply.max_gap_ns, reply.last_output_ns, reply.complete_ns) == (10_000, 20_000, 30_000)
