"""The stream client against real loopback sockets."""

from __future__ import annotations

import errno
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import gevent
import pytest
from gevent.event import Event

from llm_locust.records import Clock, Outcome, UsageError
from llm_locust.streaming import Cancelled, Reply, StreamClient, StreamRequest, connection

from .responses import CHAT, HELLO, PLAIN, STOP, chunk, delta, head, response, sse, whole
from .server import Peer, answer, serving

pytestmark = pytest.mark.usefixtures("reading")

GOOD = response(*PLAIN)
LINUX = sys.platform.startswith("linux")


def chat(*headers: tuple[str, str], body: bytes = b'{"stream":true}', streamed: bool = True) -> StreamRequest:
    return StreamRequest(path="/v1/chat/completions", body=body, headers=list(headers), dialect=CHAT, streamed=streamed)


def client(url: str, **options: Any) -> StreamClient:
    return StreamClient(url, Clock(), keep_text=True, **options)


def ask(url: str, *, deadline_s: float = 10, **options: Any) -> Reply:
    one = client(url, **options)
    try:
        return one.stream(chat(), deadline_s=deadline_s)
    finally:
        one.close()


def once(data: bytes, then: Callable[[Peer], None] = Peer.close) -> Callable[[Peer], None]:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(data)
        then(peer)

    return script


# A good reply


def test_a_streamed_reply_and_its_times_in_order() -> None:
    with serving(answer(GOOD)) as server:
        reply = ask(server.url())
    assert (reply.outcome, reply.status, reply.error, reply.text) == (Outcome.OK, 200, None, "Hello!")
    assert (reply.reused, reply.retries, reply.tls_ns) == (False, 0, None)
    assert reply.bytes_in == len(GOOD)
    times = [
        reply.sent_ns,
        reply.written_ns,
        reply.headers_ns,
        reply.first_output_ns,
        reply.last_output_ns,
        reply.complete_ns,
        reply.end_ns,
    ]
    assert None not in times
    assert times == sorted(times)  # type: ignore[type-var]
    assert reply.connect_ns is not None
    assert reply.connect_ns > 0
    assert abs(reply.end_ns - time.time_ns()) < 60_000_000_000  # Unix time, not another epoch


def test_head_and_body_arrive_in_one_piece() -> None:
    first: list[bytes] = []

    def script(peer: Peer) -> None:
        first.append(peer.sock.recv(65536))
        peer.send(GOOD)
        peer.wait_closed()

    with serving(script) as server:
        assert ask(server.url()).outcome is Outcome.OK
    assert first[0].startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert first[0].endswith(b'\r\n\r\n{"stream":true}')


@pytest.mark.parametrize(
    ("path", "due"),
    [("/v1", b"POST /v1/chat/completions "), ("/prefix", b"POST /prefix/v1/chat/completions ")],
)
def test_base_urls_with_a_path(path: str, due: bytes) -> None:
    with serving(answer(GOOD)) as server:
        assert ask(server.url(path)).outcome is Outcome.OK
        assert server.requests[0].startswith(due)


def test_a_body_that_ends_with_the_connection() -> None:
    with serving(once(head(framing="Connection: close") + "".join(PLAIN).encode())) as server:
        assert ask(server.url()).outcome is Outcome.OK


def test_a_reply_in_one_piece_as_asked() -> None:
    raw = whole('{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}')
    with serving(answer(raw)) as server:
        reply = client(server.url()).stream(chat(streamed=False), deadline_s=10)
    assert (reply.outcome, reply.text, reply.first_output_ns) == (Outcome.OK, "hi", None)


def test_a_large_request_arrives_whole() -> None:
    body = b'{"prompt":"' + b"x" * 3_000_000 + b'"}'
    with serving(answer(GOOD)) as server:
        reply = client(server.url()).stream(chat(body=body), deadline_s=10)
        assert server.requests[0].endswith(body)
    assert reply.outcome is Outcome.OK


@pytest.mark.skipif(not LINUX, reason="the kernel's receive times are there on Linux only")
def test_receive_times_come_from_the_kernel_even_while_the_loop_is_blocked() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    clock = Clock()
    sent_at: list[int] = []
    asked, go_on, sent = threading.Event(), threading.Event(), threading.Event()

    def serve() -> None:
        sock, _ = listener.accept()
        with sock:
            sock.recv(65536)
            asked.set()
            go_on.wait(10)
            sock.sendall(response(HELLO[0], STOP))
            sent_at.append(clock.now_ns())
            sent.set()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    one = StreamClient(f"http://127.0.0.1:{listener.getsockname()[1]}", clock)
    request = gevent.spawn(one.stream, chat(), deadline_s=10)
    with gevent.Timeout(10):
        while not asked.is_set():
            gevent.sleep(0.005)
    go_on.set()
    assert sent.wait(10)  # a plain thread's wait: from here on the event loop is blocked
    time.sleep(0.03)
    reply = request.get(timeout=10)
    thread.join(10)
    listener.close()
    assert reply.outcome is Outcome.OK
    assert reply.clock == "kernel"
    assert reply.read_lag_ns is not None
    assert reply.read_lag_ns >= 29_000_000
    assert reply.first_output_ns is not None
    assert reply.first_output_ns <= sent_at[0] + 1_000_000  # stamped while the bytes were sent, read 30 ms later


# Connections


def test_a_connection_is_reused() -> None:
    with serving(answer(GOOD)) as server:
        one = client(server.url())
        replies = [one.stream(chat(), deadline_s=10) for _ in range(3)]
        assert server.connections == 1
        one.close()
    assert [reply.outcome for reply in replies] == [Outcome.OK] * 3
    assert [reply.reused for reply in replies] == [False, True, True]
    assert [reply.connect_ns is None for reply in replies] == [False, True, True]
    assert [reply.retries for reply in replies] == [0, 0, 0]


def test_an_error_reply_keeps_its_connection() -> None:
    with serving(answer(whole('{"error":"busy"}', "503 Busy"))) as server:
        one = client(server.url())
        assert [one.stream(chat(), deadline_s=10).outcome for _ in range(2)] == [Outcome.REJECTED] * 2
        assert server.connections == 1


def test_any_number_of_requests_run_at_once() -> None:
    everyone = Event()
    waiting = 0

    def script(peer: Peer) -> None:
        nonlocal waiting
        peer.request()
        waiting += 1
        if waiting == 200:
            everyone.set()
        everyone.wait()
        peer.send(GOOD)
        peer.wait_closed()

    with serving(script) as server:
        one = client(server.url())
        jobs = [gevent.spawn(one.stream, chat(), deadline_s=15) for _ in range(200)]
        assert {job.get().outcome for job in jobs} == {Outcome.OK}
        one.close()


def test_without_reuse_every_request_connects() -> None:
    with serving(answer(GOOD)) as server:
        one = client(server.url(), reuse=False)
        assert [one.stream(chat(), deadline_s=10).reused for _ in range(2)] == [False, False]
        assert server.connections == 2
        assert b"Connection: close" in server.requests[0]


def test_a_connection_that_said_more_than_asked_is_not_reused() -> None:
    with serving(answer(GOOD + b"HTTP/1.1 200 OK\r\n"), answer(GOOD)) as server:
        one = client(server.url())
        replies = [one.stream(chat(), deadline_s=10) for _ in range(2)]
    assert [(reply.outcome, reply.reused) for reply in replies] == [(Outcome.OK, False), (Outcome.OK, False)]


def test_a_connection_closed_while_idle_is_dropped_before_it_is_used() -> None:
    closed = Event()

    def script(peer: Peer) -> None:
        once(GOOD)(peer)
        closed.set()

    with serving(script, answer(GOOD)) as server:
        one = client(server.url())
        one.stream(chat(), deadline_s=10)
        closed.wait()
        reply = one.stream(chat(), deadline_s=10)
    assert (reply.outcome, reply.reused, reply.retries) == (Outcome.OK, False, 0)


def closes_at_the_second_request(peer: Peer) -> None:
    once(GOOD, Peer.request)(peer)
    peer.close()


def resets_at_the_second_request(peer: Peer) -> None:
    once(GOOD, Peer.request)(peer)
    peer.reset()


@pytest.mark.parametrize("stale", [closes_at_the_second_request, resets_at_the_second_request])
def test_a_stale_connection_is_retried_once_on_a_fresh_one(stale: Callable[[Peer], None]) -> None:
    with serving(stale, answer(GOOD)) as server:
        one = client(server.url())
        one.stream(chat(), deadline_s=10)
        before_ns = one.clock.now_ns()
        reply = one.stream(chat(), deadline_s=10)
        assert server.connections == 2
        assert len(server.requests) == 3
    assert (reply.outcome, reply.retries, reply.reused) == (Outcome.OK, 1, False)
    assert reply.sent_ns is not None
    assert reply.connect_ns is not None
    assert reply.written_ns is not None
    assert before_ns <= reply.sent_ns < reply.written_ns - reply.connect_ns  # the first attempt's time


def test_a_retry_is_not_retried() -> None:
    with serving(closes_at_the_second_request, once(b"")) as server:
        one = client(server.url())
        one.stream(chat(), deadline_s=10)
        reply = one.stream(chat(), deadline_s=10)
        assert server.connections == 2
    assert (reply.outcome, reply.retries) == (Outcome.CONNECTION_LOST, 1)


def test_a_fresh_connection_closed_without_an_answer_is_not_retried() -> None:
    with serving(once(b"")) as server:
        reply = ask(server.url())
        assert server.connections == 1
    assert (reply.outcome, reply.retries) == (Outcome.CONNECTION_LOST, 0)
    assert reply.error == "the connection was closed without an answer"


def test_a_reused_connection_that_answered_a_byte_is_not_retried() -> None:
    def script(peer: Peer) -> None:
        once(GOOD, Peer.request)(peer)
        peer.send(b"H")
        peer.close()

    with serving(script) as server:
        one = client(server.url())
        one.stream(chat(), deadline_s=10)
        reply = one.stream(chat(), deadline_s=10)
        assert server.connections == 1
    assert (reply.outcome, reply.retries, reply.reused) == (Outcome.CONNECTION_LOST, 0, True)


# Time


def lasted_until_the_deadline(reply: Reply, deadline_s: float) -> bool:
    assert reply.sent_ns is not None
    assert reply.end_ns is not None
    return reply.end_ns - reply.sent_ns >= deadline_s * 0.98e9


def test_a_server_that_never_answers_ends_in_timeout() -> None:
    with serving(lambda peer: (peer.request(), peer.wait_closed())) as server:  # type: ignore[arg-type, func-returns-value]
        reply = ask(server.url(), deadline_s=0.1)
    assert (reply.outcome, reply.error) == (Outcome.TIMEOUT, "the deadline of 0.1 s passed")
    assert (reply.status, reply.output_events, reply.output_tokens) == (None, None, None)
    assert lasted_until_the_deadline(reply, 0.1)


def test_a_slow_loris_ends_in_timeout() -> None:
    def script(peer: Peer) -> None:
        peer.request()
        for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 10_000:
            peer.send(bytes([byte]))
            gevent.sleep(0.002)

    with serving(script) as server:
        reply = ask(server.url(), deadline_s=0.15)
    assert reply.outcome is Outcome.TIMEOUT
    assert lasted_until_the_deadline(reply, 0.15)


def test_an_endless_stream_ends_in_timeout_and_keeps_what_was_seen() -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(head())
        while True:
            peer.send(chunk(HELLO[0]))
            gevent.sleep(0.002)

    with serving(script) as server:
        reply = ask(server.url(), deadline_s=0.15)
    assert (reply.outcome, reply.status) == (Outcome.TIMEOUT, 200)
    assert reply.output_events
    assert reply.text == "Hel" * reply.output_events
    assert reply.first_output_ns is not None
    assert reply.complete_ns is None
    assert lasted_until_the_deadline(reply, 0.15)


def test_an_endless_stream_that_never_lets_the_client_wait_ends_in_timeout() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        sock, _ = listener.accept()
        with sock:
            sock.recv(65536)
            try:
                sock.sendall(head())
                while True:
                    sock.sendall(chunk(HELLO[0]) * 500)
            except OSError:
                pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    reply = ask(f"http://127.0.0.1:{listener.getsockname()[1]}", deadline_s=0.2, max_bytes=2**40)
    thread.join(10)
    listener.close()
    assert reply.outcome is Outcome.TIMEOUT
    assert not thread.is_alive()


def test_a_stream_longer_than_the_bound_is_given_up() -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(head())
        while True:
            peer.send(chunk(sse(delta(content="x" * 1000))))

    with serving(script) as server:
        reply = ask(server.url(), max_bytes=100_000)
    assert reply.outcome is Outcome.PROTOCOL_ERROR
    assert reply.error == "the reply is longer than 100000 bytes and was given up"


# What breaks


def test_a_reset_in_the_stream_keeps_what_was_seen() -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(head() + chunk(HELLO[0]))
        gevent.sleep(0.05)  # a reset overtakes bytes that were not read yet
        peer.reset()

    with serving(script) as server:
        reply = ask(server.url())
    assert (reply.outcome, reply.status, reply.output_events) == (Outcome.CONNECTION_LOST, 200, 1)
    assert reply.error == "the connection broke: Connection reset by peer"


def test_a_refused_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    reply = ask(f"http://127.0.0.1:{port}")
    assert reply.outcome is Outcome.CONNECT_ERROR
    assert reply.error == f"no connection: 127.0.0.1:{port}: Connection refused"
    assert reply.sent_ns is not None
    assert (reply.written_ns, reply.connect_ns, reply.status, reply.clock) == (None, None, None, None)


@pytest.mark.skipif(not LINUX, reason="a full accept queue drops connections silently on Linux")
def test_a_full_accept_queue_is_a_connect_error_in_its_own_time() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fill = [socket.socket() for _ in range(4)]
        for one in fill:
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        reply = ask(f"http://127.0.0.1:{listener.getsockname()[1]}", connect_timeout_s=0.1)
        for one in fill:
            one.close()
    assert (reply.outcome, reply.error) == (Outcome.CONNECT_ERROR, "no connection within 0.1 s")


def test_an_answer_before_the_whole_request_was_read_is_still_read() -> None:
    def script(peer: Peer) -> None:
        peer.sock.recv(1000)
        peer.send(whole('{"error":"request body too large"}', "413 Too Large", extra="Connection: close\r\n"))
        peer.sock.shutdown(socket.SHUT_WR)
        peer.wait_closed()

    with serving(script) as server:
        reply = client(server.url()).stream(chat(body=b"x" * 5_000_000), deadline_s=10)
    assert (reply.outcome, reply.error) == (Outcome.HTTP_ERROR, "HTTP 413: request body too large")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    raw = whole("", f"{status} Moved", extra="Location: https://elsewhere/v1\r\n")
    with serving(answer(raw)) as server:
        reply = ask(server.url())
        assert len(server.requests) == 1
    assert (reply.outcome, reply.status) == (Outcome.HTTP_ERROR, status)
    assert reply.error == f"HTTP {status}: redirects are not followed; it points to https://elsewhere/v1"


def test_a_redirect_without_a_location_says_so_and_secrets_in_one_are_masked() -> None:
    raw = (
        whole("", "307 Temporary Redirect"),
        whole("", "302 Found", extra="Location: https://me:hunter2@elsewhere/\r\n"),
    )
    for data, due in zip(raw, ("it points to nowhere", "it points to https://***@elsewhere/"), strict=True):
        with serving(answer(data)) as server:
            assert (ask(server.url()).error or "").endswith(due)


def test_a_path_may_carry_a_query() -> None:
    with serving(answer(GOOD)) as server:
        request = StreamRequest(path="/v1/x?api-version=2", body=b"{}", headers=[], dialect=CHAT)
        assert client(server.url("/base")).stream(request, deadline_s=10).outcome is Outcome.OK
        assert server.requests[0].startswith(b"POST /base/v1/x?api-version=2 HTTP/1.1\r\n")


def test_a_secret_that_the_server_echoes_is_masked() -> None:
    def script(peer: Peer) -> None:
        request = peer.request().decode()
        echoed = next(line for line in request.split("\r\n") if line.startswith("Authorization"))
        peer.send(
            whole(f"no access with <{echoed}> nor with <plain-words-only> nor <WORD>", "401 Unauthorized", "text/plain")
        )

    with serving(script) as server:
        reply = client(server.url()).stream(
            chat(("Authorization", "Bearer plain-words-only"), ("X-API-Key", "WORD")), deadline_s=10
        )
    assert reply.error == "HTTP 401: no access with <Authorization: ***> nor with <***> nor <***>"


# Ours


def test_a_name_that_does_not_resolve_is_our_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("gevent.socket.getaddrinfo", unknown)
    one = client("http://no-such-host.invalid")
    reply = one.stream(chat(), deadline_s=10)
    assert (reply.outcome, reply.sent_ns, reply.retries) == (Outcome.GENERATOR_ERROR, None, None)
    assert reply.error == "cannot resolve no-such-host.invalid: Name or service not known"
    with pytest.raises(UsageError, match=r"cannot resolve no-such-host\.invalid"):
        one.resolve()


def test_a_lookup_that_never_ends_is_our_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gevent.socket.getaddrinfo", lambda *_: Event().wait())
    reply = client("http://engine").stream(chat(), deadline_s=0.05)
    assert (reply.outcome, reply.sent_ns) == (Outcome.GENERATOR_ERROR, None)
    assert reply.error == "engine was not resolved within 0.05 s"


def test_a_name_is_looked_up_once_and_again_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []

    with serving(answer(GOOD)) as server:

        def found(host: str, port: int, *_: Any) -> Any:
            looked_up.append(host)
            gevent.sleep(0.01)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))] * 2

        monkeypatch.setattr("gevent.socket.getaddrinfo", found)
        one = client(f"http://engine:{server.port}", reuse=False)
        jobs = [gevent.spawn(one.stream, chat(), deadline_s=10) for _ in range(5)]
        assert {job.get().outcome for job in jobs} == {Outcome.OK}
        assert looked_up == ["engine"]
        assert one.resolve() == (f"127.0.0.1:{server.port}",)
        assert looked_up == ["engine", "engine"]


def test_the_next_address_is_tried_and_the_one_that_worked_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.2", 0)) as listener:
        nobody = listener.getsockname()
    tried: list[tuple[Any, ...]] = []
    real = connection._connect_one
    monkeypatch.setattr(
        connection, "_connect_one", lambda address, times: (tried.append(address.sockaddr), real(address, times))[1]
    )
    with serving(answer(GOOD)) as server:
        here = ("127.0.0.1", server.port)
        both = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", nobody), (socket.AF_INET, socket.SOCK_STREAM, 6, "", here)]
        monkeypatch.setattr("gevent.socket.getaddrinfo", lambda *_: both)
        one = client("http://engine", reuse=False)
        assert [one.stream(chat(), deadline_s=10).outcome for _ in range(2)] == [Outcome.OK] * 2
    assert tried == [nobody, here, here]


@pytest.mark.parametrize(
    ("code", "due"),
    [
        (errno.EMFILE, Outcome.GENERATOR_ERROR),
        (errno.ENFILE, Outcome.GENERATOR_ERROR),
        (errno.EADDRNOTAVAIL, Outcome.GENERATOR_ERROR),
        (errno.EHOSTUNREACH, Outcome.CONNECT_ERROR),
    ],
)
def test_running_out_of_sockets_is_our_error(monkeypatch: pytest.MonkeyPatch, code: int, due: Outcome) -> None:
    def fails(*_: Any) -> Any:
        raise OSError(code, "no")

    monkeypatch.setattr(connection, "_connect_one", fails)
    reply = ask("http://127.0.0.1:9")
    assert (reply.outcome, reply.sent_ns is None) == (due, False)


def test_a_request_that_is_wrong_raises() -> None:
    one = client("http://127.0.0.1:9")
    with pytest.raises(UsageError, match="header"):
        one.stream(chat(("X", "a\r\nb")), deadline_s=1)
    with pytest.raises(UsageError, match="unknown dialect"):
        one.stream(StreamRequest(path="/", body=b"", headers=[], dialect="x"), deadline_s=1)


# Cancelling


@pytest.mark.parametrize("seen", [b"", head() + chunk(HELLO[0])], ids=["before the head", "in the stream"])
def test_cancelled_from_outside(seen: bytes) -> None:
    sent, closed = Event(), Event()

    def script(peer: Peer) -> None:
        peer.request()
        peer.send(seen)
        sent.set()
        peer.wait_closed()
        closed.set()

    with serving(script) as server:
        one = client(server.url())
        request = gevent.spawn(one.stream, chat(), deadline_s=15)
        sent.wait()
        gevent.sleep(0.02)
        request.kill(Cancelled, block=False)
        reply = request.get()
        closed.wait()  # the engine is told, so that it can stop generating
    assert (reply.outcome, reply.error) == (Outcome.CANCELLED, "cancelled by the client")
    assert reply.text == ("Hel" if seen else None if reply.status is None else "")
    assert reply.sent_ns is not None
    assert reply.end_ns is not None


def test_a_killed_greenlet_dies_and_leaves_no_connection_behind() -> None:
    sent, closed = Event(), Event()

    def script(peer: Peer) -> None:
        peer.request()
        sent.set()
        peer.wait_closed()
        closed.set()

    with serving(script) as server:
        request = gevent.spawn(client(server.url()).stream, chat(), deadline_s=15)
        sent.wait()
        request.kill()
        closed.wait()
    assert isinstance(request.value, gevent.GreenletExit)


def test_a_timeout_of_the_caller_is_left_to_the_caller() -> None:
    with serving(lambda peer: (peer.request(), peer.wait_closed())) as server:  # type: ignore[arg-type, func-returns-value]
        with pytest.raises(gevent.Timeout) as raised, gevent.Timeout(0.05) as theirs:
            ask(server.url())
        assert raised.value is theirs


def test_closing_lets_a_request_in_flight_end() -> None:
    asked, go_on = Event(), Event()

    def script(peer: Peer) -> None:
        peer.request()
        asked.set()
        go_on.wait()
        peer.send(GOOD)
        peer.wait_closed()

    with serving(script) as server:
        one = client(server.url())
        request = gevent.spawn(one.stream, chat(), deadline_s=15)
        asked.wait()
        one.close()
        go_on.set()
        assert request.get().outcome is Outcome.OK
        assert one._idle == []
