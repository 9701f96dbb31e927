"""Requests whose client leaves before the reply has ended, against real loopback sockets."""

from __future__ import annotations

from typing import Any

import gevent
import pytest
from gevent.event import Event

from llm_locust.records import Clock, Outcome
from llm_locust.streaming import Reply, StreamClient, StreamRequest

from .responses import CHAT, HELLO, PLAIN, chunk, head, response
from .server import Peer, answer, serving

pytestmark = pytest.mark.usefixtures("reading")

GOOD = response(*PLAIN)


def chat() -> StreamRequest:
    return StreamRequest(path="/v1/chat/completions", body=b'{"stream":true}', headers=[], dialect=CHAT)


def client(url: str) -> StreamClient:
    return StreamClient(url, Clock(), keep_text=True)


def leaving(url: str, **when: Any) -> Reply:
    request = chat()
    for name, value in when.items():
        setattr(request, name, value)
    one = client(url)
    try:
        return one.stream(request, deadline_s=10)
    finally:
        one.close()


def test_who_leaves_after_a_time_closes_the_connection_and_keeps_what_was_seen() -> None:
    closed = Event()

    def script(peer: Peer) -> None:
        peer.request()
        peer.send(head() + chunk(HELLO[0]))
        peer.wait_closed()
        closed.set()

    with serving(script) as server:
        reply = leaving(server.url(), leave_after_s=0.05)
        closed.wait()
    assert (reply.outcome, reply.error) == (Outcome.CANCELLED, "left as --cancel planned, after 0.05 s")
    assert (reply.text, reply.output_events, reply.complete_ns) == ("Hel", 1, None)
    assert reply.sent_ns is not None
    assert reply.end_ns is not None
    assert reply.end_ns - reply.sent_ns >= 50_000_000


def test_who_leaves_after_so_many_events_reads_no_further() -> None:
    closed = Event()

    def script(peer: Peer) -> None:
        peer.request()
        peer.send(head() + chunk(HELLO[0]))
        gevent.sleep(0.01)  # reads of their own
        peer.send(chunk(HELLO[1]))
        peer.wait_closed()
        closed.set()

    with serving(script) as server:
        reply = leaving(server.url(), leave_after_events=2)
        closed.wait()
    assert (reply.outcome, reply.error) == (Outcome.CANCELLED, "left as --cancel planned, after 2 output events")
    assert (reply.text, reply.output_events) == ("Hello", 2)


@pytest.mark.parametrize("when", [{"leave_after_s": 5.0}, {"leave_after_events": 3}, {"leave_after_events": 4}])
def test_a_reply_that_ends_first_is_an_ordinary_one(when: dict[str, Any]) -> None:
    with serving(answer(GOOD)) as server:
        reply = leaving(server.url(), **when)
    assert (reply.outcome, reply.text) == (Outcome.OK, "Hello!")


def test_who_waits_longer_than_the_deadline_is_out_of_time() -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.wait_closed()

    request = chat()
    request.leave_after_s = 5.0
    with serving(script) as server:
        one = client(server.url())
        reply = one.stream(request, deadline_s=0.05)
        one.close()
    assert reply.outcome == Outcome.TIMEOUT


def test_who_leaves_takes_no_kept_connection_along() -> None:
    def hold(peer: Peer) -> None:
        peer.request()
        peer.send(head() + chunk(HELLO[0]))
        peer.wait_closed()

    with serving(hold, answer(GOOD)) as server:
        one = client(server.url())
        request = chat()
        request.leave_after_events = 1
        assert one.stream(request, deadline_s=10).outcome == Outcome.CANCELLED
        assert one.stream(chat(), deadline_s=10).outcome == Outcome.OK
        one.close()
        assert server.connections == 2
