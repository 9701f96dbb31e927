"""A thousand streams at once: what befalls some of them touches no other."""

from __future__ import annotations

import contextlib
import resource
from collections import Counter
from collections.abc import Iterator

import gevent
import pytest
from gevent.event import Event

from llm_locust.records import Clock, Outcome
from llm_locust.streaming import Reply, StreamClient, StreamRequest

from .responses import CHAT, DONE, STOP, chunk, delta, head, sse, usage
from .server import Peer, serving

pytestmark = pytest.mark.usefixtures("reading")

STREAMS = 1000
WORDS = 12
WORD = chunk(sse(delta(content="word ")))
END = chunk(STOP) + chunk(sse(usage(1, WORDS))) + chunk(DONE) + b"0\r\n\r\n"


def asking(number: int) -> StreamRequest:
    headers = [("X-Number", str(number))]
    return StreamRequest(path="/v1/chat/completions", body=b"{}", headers=headers, dialect=CHAT)


def number_of(request: bytes) -> int:
    line = next(line for line in request.split(b"\r\n") if line.startswith(b"X-Number"))
    return int(line.partition(b":")[2])


@contextlib.contextmanager
def descriptors(wanted: int) -> Iterator[None]:
    """Both ends of each connection are in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            pytest.skip(f"needs {wanted} descriptors, and {hard} is the limit here")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("broken", [1, 50])
def test_resets_in_mid_stream_touch_only_their_own(broken: int) -> None:
    victims = set(range(7, STREAMS, STREAMS // broken)) if broken > 1 else {STREAMS // 2}
    assert len(victims) == broken
    half_way, go_on = 0, Event()

    def script(peer: Peer) -> None:
        nonlocal half_way
        number = number_of(peer.request())
        peer.send(head())
        for word in range(WORDS):
            if word == WORDS // 2:
                half_way += 1
                go_on.wait()
                if number in victims:
                    peer.reset()
                    return
            peer.send(WORD)
            gevent.sleep(0.001)
        peer.send(END)
        peer.wait_closed()

    with descriptors(2 * STREAMS + 200), serving(script) as server:
        one = StreamClient(server.url(), Clock(), keep_text=True)
        jobs = [gevent.spawn(one.stream, asking(number), deadline_s=18) for number in range(STREAMS)]
        while half_way < STREAMS:
            gevent.sleep(0.01)
        go_on.set()
        replies: list[Reply] = [job.get() for job in jobs]
        one.close()
    lost = {number for number, reply in enumerate(replies) if reply.outcome is Outcome.CONNECTION_LOST}
    assert lost == victims
    healthy = [reply for number, reply in enumerate(replies) if number not in victims]
    assert Counter((reply.outcome, reply.text, reply.output_tokens, reply.output_events) for reply in healthy) == {
        (Outcome.OK, "word " * WORDS, WORDS, WORDS): STREAMS - broken
    }
    for number in victims:
        assert replies[number].error == "the connection broke: Connection reset by peer"
        assert (replies[number].text or "").count("word ") <= WORDS // 2


def by_bytes(peer: Peer, data: bytes) -> None:
    """One byte every 50 ms."""
    for byte in data:
        peer.send(bytes([byte]))
        gevent.sleep(0.05)


def drips_its_head(peer: Peer) -> None:
    by_bytes(peer, head() + b" " * 1000)


def drips_in_the_middle_of_an_event(peer: Peer) -> None:
    peer.send(head() + WORD)
    by_bytes(peer, chunk(sse(delta(content="x" * 1000))))


def never_ends(peer: Peer) -> None:
    peer.send(head())
    while True:
        peer.send(WORD)
        gevent.sleep(0.005)


def is_healthy(peer: Peer) -> None:
    peer.send(head())
    for _ in range(WORDS):
        peer.send(WORD)
        gevent.sleep(0.01)
    peer.send(END)
    peer.wait_closed()


KINDS = (drips_its_head, drips_in_the_middle_of_an_event, never_ends, is_healthy)


def test_what_drips_and_what_never_ends_meets_its_deadline_beside_healthy_streams() -> None:
    def script(peer: Peer) -> None:
        KINDS[number_of(peer.request()) % len(KINDS)](peer)

    with serving(script) as server:
        one = StreamClient(server.url(), Clock(), keep_text=True)
        jobs = [gevent.spawn(one.stream, asking(number), deadline_s=2.0) for number in range(40)]
        replies: list[Reply] = [job.get() for job in jobs]
        one.close()
    found = {kind: replies[place :: len(KINDS)] for place, kind in enumerate(KINDS)}
    for kind in KINDS[:3]:
        assert {(reply.outcome, reply.error) for reply in found[kind]} == {
            (Outcome.TIMEOUT, "the deadline of 2 s passed")
        }
        for reply in found[kind]:
            assert reply.sent_ns is not None
            assert reply.end_ns is not None
            assert reply.end_ns - reply.sent_ns >= 1_960_000_000
    assert {reply.status for reply in found[drips_its_head]} == {None}
    assert {reply.text for reply in found[drips_in_the_middle_of_an_event]} == {"word "}
    assert all((reply.output_events or 0) > 1 for reply in found[never_ends])
    assert {(reply.outcome, reply.text) for reply in found[is_healthy]} == {(Outcome.OK, "word " * WORDS)}
