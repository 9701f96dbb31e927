"""Over IPv6, and past it to IPv4 where nobody listens on the former."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from llm_locust.records import Clock, Outcome
from llm_locust.streaming import StreamClient, StreamRequest
from llm_locust.streaming.own_limits import has_family
from llm_locust.telemetry.probe import Probe

from .certificate import SelfMade
from .responses import CHAT, PLAIN, response
from .server import answer, serving

GOOD = response(*PLAIN)
ASK = StreamRequest(path="/v1/chat/completions", body=b"{}", headers=[], dialect=CHAT)

needs_ipv6 = pytest.mark.skipif(not has_family(socket.AF_INET6), reason="this machine has no IPv6 on loopback")


def client(url: str, **options: Any) -> StreamClient:
    return StreamClient(url, Clock(), keep_text=True, **options)


@needs_ipv6
@pytest.mark.usefixtures("reading")
def test_a_stream_over_ipv6() -> None:
    with serving(answer(GOOD), host="::1") as server:
        one = client(server.url("/v1"))
        reply = one.stream(ASK, deadline_s=10)
        assert (reply.outcome, reply.text) == (Outcome.OK, "Hello!")
        assert one.resolve() == (f"[::1]:{server.port}",)
        head = server.requests[0]
    assert head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert f"\r\nHost: [::1]:{server.port}\r\n".encode() in head


@needs_ipv6
def test_tls_to_an_ipv6_literal_is_verified(made: SelfMade) -> None:
    with serving(answer(GOOD), host="::1", tls=made.context) as server:
        one = client(server.url(scheme="https"), ca_file=made.certificate)
        assert one.stream(ASK, deadline_s=10).outcome is Outcome.OK


@needs_ipv6
def test_a_probe_over_ipv6() -> None:
    def script(peer: Any) -> None:
        peer.sock.recv(65536)
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        peer.wait_closed()

    with serving(script, host="::1") as server:
        assert Probe(server.url("/v1"), {}).get("/health", timeout_s=5).body == b"{}"


@pytest.mark.parametrize("name", ["localhost", "engine"])
def test_a_name_that_is_ipv6_first_where_only_ipv4_listens(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with serving(answer(GOOD)) as server:
        both = [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", server.port, 0, 0)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.port)),
        ]
        monkeypatch.setattr("gevent.socket.getaddrinfo", lambda *_: both)
        one = client(f"http://{name}:{server.port}", reuse=False)
        assert one.resolve() == (f"[::1]:{server.port}", f"127.0.0.1:{server.port}")
        assert [one.stream(ASK, deadline_s=10).outcome for _ in range(2)] == [Outcome.OK] * 2


def test_when_nobody_listens_each_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    both = [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
    ]
    monkeypatch.setattr("gevent.socket.getaddrinfo", lambda *_: both)
    reply = client(f"http://localhost:{port}").stream(ASK, deadline_s=10)
    assert reply.outcome is Outcome.CONNECT_ERROR
    assert (reply.error or "").startswith(f"no connection: [::1]:{port}: ")
    assert (reply.error or "").endswith(f"; 127.0.0.1:{port}: Connection refused")
