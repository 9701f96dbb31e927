"""TLS with a certificate made for the test."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from llm_locust.records import Clock, Outcome, UsageError
from llm_locust.streaming import Reply, StreamClient, StreamRequest

from .certificate import SelfMade
from .responses import CHAT, PLAIN, head, response
from .server import Peer, answer, serving

GOOD = response(*PLAIN)

pytestmark = pytest.mark.usefixtures("reading")


def stream(one: StreamClient) -> Reply:
    return one.stream(StreamRequest(path="/v1/x", body=b"{}", headers=[], dialect=CHAT), deadline_s=10)


def client(url: str, **options: Any) -> StreamClient:
    return StreamClient(url, Clock(), keep_text=True, **options)


def test_a_verified_connection_is_timed_apart_and_reused(made: SelfMade) -> None:
    with serving(answer(GOOD), tls=made.context) as server:
        one = client(server.url(scheme="https"), ca_file=made.certificate)
        first, second = stream(one), stream(one)
        assert server.connections == 1
        one.close()
    assert (first.outcome, first.text, first.error) == (Outcome.OK, "Hello!", None)
    assert first.connect_ns is not None
    assert first.tls_ns is not None
    assert first.tls_ns > 0
    assert first.bytes_in == len(GOOD)
    assert (second.outcome, second.reused, second.tls_ns) == (Outcome.OK, True, None)
    assert first.clock == ("kernel" if sys.platform.startswith("linux") else "user")


def test_a_certificate_is_verified_unless_told_otherwise(made: SelfMade) -> None:
    with serving(answer(GOOD), tls=made.context) as server:
        refused = stream(client(server.url(scheme="https")))
        assert stream(client(server.url(scheme="https"), insecure=True)).outcome is Outcome.OK
    assert refused.outcome is Outcome.CONNECT_ERROR
    assert refused.error is not None
    assert refused.error.startswith("TLS handshake failed: the certificate was not accepted: self")
    assert refused.sent_ns is not None
    assert refused.written_ns is None


def test_the_name_in_the_certificate_counts(made: SelfMade, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo
    monkeypatch.setattr("gevent.socket.getaddrinfo", lambda host, *rest: real("127.0.0.1", *rest))
    with serving(answer(GOOD), tls=made.context) as server:
        refused = stream(client(f"https://engine.example:{server.port}", ca_file=made.certificate))
    assert refused.outcome is Outcome.CONNECT_ERROR
    assert refused.error is not None
    assert "the certificate was not accepted: Hostname mismatch" in refused.error


def test_a_body_that_ends_with_the_connection(made: SelfMade) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(head(framing="Connection: close") + "".join(PLAIN).encode())
        peer.close()

    with serving(script, tls=made.context) as server:
        assert stream(client(server.url(scheme="https"), insecure=True)).outcome is Outcome.OK


def test_a_long_body_over_many_records(made: SelfMade) -> None:
    long = response(*(PLAIN[:-3] * 3000), *PLAIN[-3:])
    with serving(answer(long), tls=made.context) as server:
        reply = stream(client(server.url(scheme="https"), insecure=True))
    assert (reply.outcome, reply.output_events, reply.bytes_in) == (Outcome.OK, 9000, len(long))


def test_https_to_a_server_that_speaks_plain_http() -> None:
    def script(peer: Peer) -> None:
        peer.sock.recv(10)
        peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        peer.wait_closed()

    with serving(script) as server:
        reply = stream(client(server.url(scheme="https")))
    assert reply.outcome is Outcome.CONNECT_ERROR
    assert reply.error == (
        "TLS handshake failed: the server does not speak TLS on this port; should the base URL begin with http://?"
    )


def test_a_server_that_closes_in_the_handshake() -> None:
    with serving(lambda peer: peer.sock.recv(10_000)) as server:
        reply = stream(client(server.url(scheme="https")))
    assert reply.outcome is Outcome.CONNECT_ERROR
    assert reply.error == "TLS handshake failed: the server closed the connection"


def test_a_handshake_that_never_comes_has_its_own_limit() -> None:
    with serving(Peer.wait_closed) as server:
        reply = stream(client(server.url(scheme="https"), connect_timeout_s=0.1))
    assert (reply.outcome, reply.error) == (Outcome.CONNECT_ERROR, "no TLS handshake within 0.1 s")


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_ca_file_that_is_none_is_refused(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UsageError, match="CA file"):
        client("https://127.0.0.1:1", ca_file=str(file))
