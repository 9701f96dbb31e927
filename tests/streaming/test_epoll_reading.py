"""Reading all streams through one epoll, and the traps of it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import gevent
import greenlet
import psutil
import pytest
from gevent.event import Event

from llm_locust.records import Clock, Outcome
from llm_locust.streaming import Cancelled, ReplyDecoder, StreamClient, StreamRequest, epoll_reading, get_dialect
from llm_locust.streaming.epoll_reading import EpollReading
from llm_locust.streaming.reading import has_epoll
from llm_locust.streaming.receive_times import ReceiveTimes
from llm_locust.streaming.reception import Reception

from .responses import CHAT, HELLO, PLAIN, STOP, chunk, delta, head, response, sse
from .server import Peer, answer, serving

pytestmark = pytest.mark.skipif(not has_epoll(), reason="this system has no epoll")

GOOD = response(*PLAIN)
ASK = StreamRequest(path="/v1/chat/completions", body=b"{}", headers=[], dialect=CHAT)


def client(url: str) -> StreamClient:
    return StreamClient(url, Clock(), keep_text=True, plain=False)


def reading_of(one: StreamClient) -> EpollReading:
    assert isinstance(one.reading, EpollReading)
    return one.reading


def held(go_on: Event, asked: Event | None = None, data: bytes = GOOD) -> Any:
    """Answers once the test lets it, half before and half after."""

    def script(peer: Peer) -> None:
        while True:
            peer.request()
            peer.send(data[: len(data) // 2])
            if asked is not None:
                asked.set()
            go_on.wait()
            peer.send(data[len(data) // 2 :])

    return script


@pytest.fixture
def switches() -> Iterator[dict[Any, int]]:
    """How often each greenlet was switched to."""
    counted: dict[Any, int] = {}

    def trace(event: str, arguments: Any) -> None:
        if event == "switch":
            counted[arguments[1]] = counted.get(arguments[1], 0) + 1

    before = greenlet.settrace(trace)
    yield counted
    greenlet.settrace(before)


def test_a_reply_costs_one_switch_however_many_reads_it_takes(switches: dict[Any, int]) -> None:
    def script(peer: Peer) -> None:
        while True:
            peer.request()
            peer.send(head())
            for _ in range(50):
                gevent.sleep(0.001)
                peer.send(chunk(HELLO[0]))
            peer.send(chunk(STOP) + b"0\r\n\r\n")

    with serving(script) as server:
        one = client(server.url())
        one.stream(ASK, deadline_s=10)  # connects
        request = gevent.spawn(one.stream, ASK, deadline_s=10)
        reply = request.get()
        one.close()
    assert (reply.outcome, reply.output_events) == (Outcome.OK, 50)
    assert switches[request] == 2  # its start, and the end of the reply


def test_an_error_of_ours_in_one_stream_is_raised_there_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, asked = Event(), Event()
    with serving(held(go_on, asked)) as server:
        one = client(server.url())
        broken, healthy = (gevent.spawn(one.stream, ASK, deadline_s=10) for _ in range(2))
        while len(reading_of(one)._streams) < 2:
            gevent.sleep(0.001)
        real = ReplyDecoder.feed_all
        victim = next(iter(reading_of(one)._streams.values())).reception.decoder

        def feed_all(decoder: ReplyDecoder, *read: Any) -> None:
            if decoder is victim:
                raise ZeroDivisionError("ours")
            real(decoder, *read)

        monkeypatch.setattr(ReplyDecoder, "feed_all", feed_all)
        go_on.set()
        done = gevent.joinall([broken, healthy], timeout=10)
        assert len(done) == 2
        assert reading_of(one)._streams == {}
        one.close()
    assert [type(job.exception) for job in (broken, healthy)].count(ZeroDivisionError) == 1
    assert [job.value.outcome for job in (broken, healthy) if job.value is not None] == [Outcome.OK]


def test_an_epoll_that_fails_is_said_by_every_request_and_made_again() -> None:
    go_on, asked = Event(), Event()
    with serving(held(go_on, asked)) as server:
        one = client(server.url())
        request = gevent.spawn(one.stream, ASK, deadline_s=10)
        asked.wait()
        reading_of(one)._epoll.close()
        reading_of(one)._on_ready()
        with pytest.raises(ValueError, match="closed epoll"):
            request.get()
        go_on.set()
        assert one.stream(ASK, deadline_s=10).outcome is Outcome.OK
        one.close()


def test_a_stopped_watcher_is_seen_and_started_again(caplog: pytest.LogCaptureFixture) -> None:
    go_on, asked = Event(), Event()
    with serving(held(go_on, asked)) as server, caplog.at_level(logging.ERROR):
        one = client(server.url())
        request = gevent.spawn(one.stream, ASK, deadline_s=10)
        asked.wait()
        reading_of(one)._watcher.stop()  # as gevent does to a watcher whose callback raised
        go_on.set()
        assert request.get().outcome is Outcome.OK
        one.close()
    assert "the hub had stopped watching the streams" in caplog.text


SURPLUS = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nbad"


def ends_oddly(peer: Peer) -> None:
    """The head, and later, in a read of its own, the rest and more than that."""
    peer.request()
    peer.send(head())
    gevent.sleep(0.02)
    peer.send(GOOD.removeprefix(head()) + SURPLUS)
    peer.wait_closed()


def test_a_reply_whose_end_does_not_look_like_one_is_ended_all_the_same() -> None:
    with serving(ends_oddly) as server:  # which gives up long before the deadline
        one = client(server.url())
        assert one.stream(ASK, deadline_s=1000).outcome is Outcome.OK
        one.close()


def test_a_reply_that_had_ended_when_its_time_ran_out_is_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoll_reading, "LOOK_S", 1000.0)
    with serving(ends_oddly) as server:
        one = client(server.url())
        reply = one.stream(ASK, deadline_s=0.3)
        one.close()
    assert reply.outcome is Outcome.OK
    assert reply.end_ns is not None
    assert reply.sent_ns is not None
    assert reply.end_ns - reply.sent_ns < 300_000_000


def test_a_descriptor_used_again_at_once_belongs_to_the_new_stream() -> None:
    go_on, asked = Event(), Event()
    with serving(held(go_on, asked), answer(response(sse(delta(content="new")), STOP))) as server:
        one = client(server.url())
        dropped = gevent.spawn(one.stream, ASK, deadline_s=10)
        asked.wait()
        gevent.sleep(0.01)
        descriptor = next(iter(reading_of(one)._streams))
        dropped.kill(Cancelled, block=False)
        assert dropped.get().outcome is Outcome.CANCELLED
        gevent.sleep(0)  # the socket is closed a turn later
        fresh = gevent.spawn(one.stream, ASK, deadline_s=10)
        while not reading_of(one)._streams:
            gevent.sleep(0)
        assert next(iter(reading_of(one)._streams)) == descriptor
        assert fresh.get().text == "new"
        go_on.set()
        one.close()


def test_a_batch_that_names_a_stream_that_is_gone_or_not_ready_reads_nothing() -> None:
    go_on, asked = Event(), Event()
    with serving(held(go_on, asked)) as server:
        one = client(server.url())
        request = gevent.spawn(one.stream, ASK, deadline_s=10)
        asked.wait()
        gevent.sleep(0.02)
        reading = reading_of(one)
        real, known = reading._epoll, next(iter(reading._streams))

        class Stale:
            def poll(self, *_: Any) -> list[tuple[int, int]]:
                return [(known, 1), (known + 1000, 1)]

            def __getattr__(self, name: str) -> Any:
                return getattr(real, name)

        reading._epoll = Stale()
        reading._on_ready()
        assert list(reading._streams) == [known]
        reading._epoll = real
        go_on.set()
        assert request.get().outcome is Outcome.OK
        one.close()


def test_nothing_is_watched_and_no_descriptor_kept_once_all_is_read() -> None:
    with serving(answer(GOOD)) as server:
        one = client(server.url())
        before = psutil.Process().num_fds()
        jobs = [gevent.spawn(one.stream, ASK, deadline_s=10) for _ in range(5)]
        gevent.joinall(jobs)
        reading = reading_of(one)
        assert (reading._streams, reading._watcher.active, reading._look.active) == ({}, False, False)
        one.close()
        while psutil.Process().num_fds() > before:  # the server's ends close when it sees ours closed
            gevent.sleep(0.005)


def test_closing_while_reading_closes_the_epoll_with_the_last_stream() -> None:
    go_on, asked = Event(), Event()
    with serving(held(go_on, asked)) as server:
        one = client(server.url())
        request = gevent.spawn(one.stream, ASK, deadline_s=10)
        asked.wait()
        one.close()
        assert reading_of(one)._epoll is not None
        go_on.set()
        assert request.get().outcome is Outcome.OK
        assert reading_of(one)._epoll is None


def test_the_epoll_is_made_in_the_process_that_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(answer(GOOD)) as server:
        one = client(server.url())
        reading = reading_of(one)
        assert reading._epoll is None  # nothing is made before the first read
        one.stream(ASK, deadline_s=10)
        parents = reading._epoll
        with monkeypatch.context() as patched:
            patched.setattr(os, "getpid", lambda: -1)  # as after a fork
            assert one.stream(ASK, deadline_s=10).outcome is Outcome.OK
            assert reading._epoll is not parents
            one.close()


@pytest.mark.parametrize(("shift_ns", "clock"), [(None, "user"), (0, "kernel")])
def test_a_wake_that_saw_the_clock_step_takes_user_time(
    monkeypatch: pytest.MonkeyPatch, shift_ns: int | None, clock: str
) -> None:
    with serving(answer(GOOD)) as server:
        one = client(server.url())
        monkeypatch.setattr(one._times, "wake", lambda: shift_ns)
        reply = one.stream(ASK, deadline_s=10)
        one.close()
    assert (reply.outcome, reply.clock, reply.read_lag_ns is None) == (Outcome.OK, clock, shift_ns is None)


def test_one_look_settles_so_much_and_the_next_goes_on() -> None:
    """After a stall every stream looks quiet; to decode them all at once would be the next stall."""
    reading = EpollReading(ReceiveTimes(Clock()))
    for descriptor in range(20):
        reception = Reception(ReplyDecoder(get_dialect(CHAT)), 10**9)
        reception.reads, reception.times = [head(), *[chunk(HELLO[0])] * 29], [0] * 30
        reading._streams[descriptor] = SimpleNamespace(reception=reception, kept=30)  # type: ignore[assignment]
    reading._watcher = SimpleNamespace(active=True)
    left = []
    while not left or left[-1] > 0:
        reading._on_look()
        left.append(sum(len(stream.reception.reads) for stream in reading._streams.values()))
    assert left == [450, 300, 150, 0]


def test_many_reads_are_let_gather_and_nothing_of_them_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoll_reading, "GATHER_FROM", 0)
    enough = Event()
    sent: list[int] = []

    def script(peer: Peer) -> None:
        peer.request()
        peer.send(head())
        words = 0
        while not enough.is_set():
            peer.send(chunk(sse(delta(content="word "))))
            words += 1
            gevent.sleep(0.01)
        sent.append(words)
        peer.send(chunk(sse(delta("stop"))) + b"0\r\n\r\n")
        peer.wait_closed()

    with serving(script) as server:
        one = client(server.url())
        requests = [gevent.spawn(one.stream, ASK, deadline_s=10) for _ in range(3)]
        gevent.sleep(0)
        reading = reading_of(one)
        while (
            reading._pause is None or not reading._pause.active
        ):  # a look finds reads, and no stream with many of them
            gevent.sleep(0.005)
        assert not reading._watcher.active
        enough.set()
        gevent.joinall(requests)
        replies = [request.get() for request in requests]
        assert [reply.outcome for reply in replies] == [Outcome.OK] * 3
        assert sorted((reply.text or "").count("word ") for reply in replies) == sorted(sent)
        assert (reading._watcher.active, reading._pause.active, reading._look.active) == (False, False, False)
        one.close()


def test_reads_of_few_fast_streams_are_never_let_gather(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, asked = Event(), Event()
    with serving(held(go_on, asked)) as server:
        one = client(server.url())
        request = gevent.spawn(one.stream, ASK, deadline_s=10)
        asked.wait()
        reading = reading_of(one)
        per_look = epoll_reading.LOOK_S
        for reads_a_second, gathered in ((199, False), (5001, False)):
            reading._reads = round(reads_a_second * per_look)
            reading._on_look()
            assert reading._gathering is gathered
        monkeypatch.setattr(epoll_reading, "GATHER_BELOW", 10_000)
        reading._reads = round(5010 * per_look)
        reading._on_look()
        assert reading._gathering
        go_on.set()
        assert request.get().outcome is Outcome.OK
        one.close()
