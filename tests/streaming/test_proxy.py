"""Through a proxy: only when it was asked for, and whatever it refuses is told in its words."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from typing import Any

import pytest

from llm_locust.records import Clock, Outcome, UsageError
from llm_locust.streaming import Proxy, Reply, StreamClient, StreamRequest
from llm_locust.telemetry.probe import NoPage, Page, Probe

from .certificate import SelfMade
from .forward_proxy import ForwardProxy, proxying
from .responses import CHAT, PLAIN, response, whole
from .server import Peer, answer, serving

pytestmark = pytest.mark.usefixtures("reading")

GOOD = response(*PLAIN)
ASK = StreamRequest(path="/v1/chat/completions", body=b"{}", headers=[("Authorization", "Bearer key-1")], dialect=CHAT)
CREDENTIALS = "me:let me in"
BASIC = b"Proxy-Authorization: Basic bWU6bGV0IG1lIGlu"


def client(url: str, **options: Any) -> StreamClient:
    return StreamClient(url, Clock(), keep_text=True, **options)


def ask(url: str, *, deadline_s: float = 10, **options: Any) -> Reply:
    one = client(url, **options)
    try:
        return one.stream(ASK, deadline_s=deadline_s)
    finally:
        one.close()


def page(data: bytes) -> Callable[[Peer], None]:
    def script(peer: Peer) -> None:
        while peer.sock.recv(65536):
            peer.send(data)

    return script


# Let through


def test_a_plain_request_goes_to_the_proxy_with_its_whole_url_and_the_connection_is_kept() -> None:
    with serving(answer(GOOD)) as server, proxying() as proxy:
        one = client(server.url("/v1"), proxy=proxy.way)
        replies = [one.stream(ASK, deadline_s=10) for _ in range(2)]
        one.close()
        lines = proxy.heads[0].split(b"\r\n")
    assert [(reply.outcome, reply.text, reply.reused) for reply in replies] == [
        (Outcome.OK, "Hello!", False),
        (Outcome.OK, "Hello!", True),
    ]
    assert len(proxy.heads) == 1
    assert lines[0] == f"POST http://127.0.0.1:{server.port}/v1/chat/completions HTTP/1.1".encode()
    assert f"Host: 127.0.0.1:{server.port}".encode() in lines
    assert not any(line.startswith(b"Proxy-") for line in lines)


def test_tls_goes_to_the_server_itself_through_a_tunnel(made: SelfMade) -> None:
    with serving(answer(GOOD), tls=made.context) as server, proxying() as proxy:
        one = client(server.url(scheme="https"), ca_file=made.certificate, proxy=proxy.way)
        first, second = (one.stream(ASK, deadline_s=10) for _ in range(2))
        one.close()
    assert (first.outcome, first.text, second.outcome, second.reused) == (Outcome.OK, "Hello!", Outcome.OK, True)
    assert [head.split(b"\r\n")[0] for head in proxy.heads] == [f"CONNECT 127.0.0.1:{server.port} HTTP/1.1".encode()]
    assert first.connect_ns is not None
    assert first.tls_ns is not None
    assert first.bytes_in == len(GOOD)  # the proxy's own answer is no part of the reply
    assert first.clock == ("kernel" if sys.platform.startswith("linux") else "user")


def test_the_proxy_gets_its_credentials_and_the_server_does_not(made: SelfMade) -> None:
    with serving(answer(GOOD), tls=made.context) as server, proxying(credentials=CREDENTIALS) as proxy:
        assert ask(server.url(scheme="https"), insecure=True, proxy=proxy.way).outcome is Outcome.OK
        assert BASIC in proxy.heads[0].split(b"\r\n")
        assert b"key-1" not in proxy.heads[0]
        assert b"Proxy-" not in server.requests[0]
        assert b"Bearer key-1" in server.requests[0]
    with serving(answer(GOOD)) as server, proxying(credentials=CREDENTIALS) as proxy:
        assert ask(server.url(), proxy=proxy.way).outcome is Outcome.OK
        assert BASIC in proxy.heads[0].split(b"\r\n")


def test_the_certificate_is_the_servers_own_and_must_be_made_out_to_its_name(made: SelfMade) -> None:
    with serving(answer(GOOD), tls=made.context) as server, proxying() as proxy:
        replies = [
            ask(f"https://engine.example:{server.port}", ca_file=made.certificate, proxy=proxy.way),
            ask(server.url(scheme="https"), proxy=proxy.way),
        ]
    assert [reply.outcome for reply in replies] == [Outcome.CONNECT_ERROR] * 2
    assert "Hostname mismatch" in (replies[0].error or "")
    assert "the certificate was not accepted: self" in (replies[1].error or "")


def test_the_proxy_looks_up_the_servers_name_and_this_machine_the_proxys(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    with serving(answer(GOOD)) as server, proxying() as proxy:

        def found(host: str, port: int, *_: Any) -> Any:
            asked.append(host)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

        monkeypatch.setattr("gevent.socket.getaddrinfo", found)
        one = client(f"http://engine.example:{server.port}", proxy=Proxy("gateway", proxy.way.port))
        assert one.stream(ASK, deadline_s=10).outcome is Outcome.OK
        assert one.resolve() == (f"127.0.0.1:{proxy.way.port}",)
    assert asked == ["gateway", "gateway"]


# Not let through


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (
            whole("", "407 Proxy Authentication Required", extra='Proxy-Authenticate: Basic realm="x"\r\n'),
            "HTTP 407: Proxy Authentication Required (the proxy wants user:password in the environment variable "
            "LLM_LOCUST_PROXY_AUTH)",
        ),
        (whole("only port 443\n", "403 Forbidden", "text/plain"), "HTTP 403: only port 443"),
        (whole("<html><title>No route</title>", "502 Bad Gateway", "text/html"), "HTTP 502: No route"),
        (b"HTTP/1.0 503 Full\r\n\r\n", "HTTP 503: Full"),
        (b"HTTP/1.1 503\r\n\r\n", "HTTP 503"),
        (b"", "it closed the connection without an answer"),
        (b"SSH-2.0-x\r\n", "not an HTTP/1.1 response: Expected HTTP/, RTSP/ or ICE/"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
            "its answer is followed by something that nobody asked for",
        ),
    ],
)
def test_a_proxy_that_digs_no_tunnel_is_told_in_its_words(refusal: bytes, words: str) -> None:
    with proxying(refusal) as proxy:
        reply = ask("https://engine.example/v1", proxy=proxy.way)
    assert (reply.outcome, reply.status, reply.written_ns) == (Outcome.CONNECT_ERROR, None, None)
    assert reply.error is not None
    assert reply.error.startswith(
        f"the proxy 127.0.0.1:{proxy.way.port} opens no tunnel to engine.example:443: {words}"
    )


@pytest.mark.parametrize("echo", ["Basic bWU6bGV0IG1lIGlu", "bWU6bGV0IG1lIGlu", CREDENTIALS, "let%20me%20in"])
def test_credentials_that_the_proxy_repeats_are_masked(echo: str) -> None:
    refusal = whole(f"who is <{echo}>?", "407 Who", "text/plain")
    with proxying(refusal, CREDENTIALS) as proxy:
        texts = [ask(url, proxy=proxy.way).error or "" for url in ("https://engine", "http://engine")]
        with pytest.raises(NoPage) as none:
            Probe("https://engine", {}, proxy=proxy.way).get("/", timeout_s=5)
        asked = Probe("http://engine", {}, proxy=proxy.way)
        texts += [asked.safe(str(none.value)), asked.safe(asked.get("/", timeout_s=5).message())]
    for text in texts:
        assert "who is <" in text
        assert "let" not in text
        assert "bWU6" not in text


def test_a_proxy_that_wants_a_password_for_a_plain_request_is_an_http_error() -> None:
    with proxying(whole("", "407 Proxy Authentication Required")) as proxy:
        reply = ask("http://engine.example", proxy=proxy.way)
    assert (reply.outcome, reply.status) == (Outcome.HTTP_ERROR, 407)
    assert reply.error == ("HTTP 407 (the proxy wants user:password in the environment variable LLM_LOCUST_PROXY_AUTH)")


def test_a_proxy_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    reply = ask("https://engine.example", proxy=Proxy("127.0.0.1", port))
    assert (reply.outcome, reply.error) == (
        Outcome.CONNECT_ERROR,
        f"no connection to the proxy: 127.0.0.1:{port}: Connection refused",
    )


def test_a_proxy_that_never_answers_has_the_time_of_a_connection_and_the_deadline_stands() -> None:
    with serving(Peer.wait_closed) as silent:
        way = Proxy("127.0.0.1", silent.port)
        slow = ask("https://engine.example", proxy=way, connect_timeout_s=0.1)
        late = ask("https://engine.example", proxy=way, deadline_s=0.1)
    assert slow.outcome is Outcome.CONNECT_ERROR
    assert slow.error == f"the proxy 127.0.0.1:{silent.port} gave no answer within 0.1 s"
    assert late.outcome is Outcome.TIMEOUT


def test_a_proxy_that_resets_the_connection() -> None:
    def script(peer: Peer) -> None:
        peer.sock.recv(65536)
        peer.reset()

    with serving(script) as rude:
        reply = ask("https://engine.example", proxy=Proxy("127.0.0.1", rude.port))
    assert reply.outcome is Outcome.CONNECT_ERROR
    assert reply.error == f"the proxy 127.0.0.1:{rude.port} broke the connection: Connection reset by peer"


def test_a_proxy_without_an_address_is_our_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("gevent.socket.getaddrinfo", unknown)
    one = client("http://engine", proxy=Proxy("gateway", 3128))
    assert one.stream(ASK, deadline_s=10).error == "cannot resolve the proxy gateway: Name or service not known"
    with pytest.raises(UsageError, match="cannot resolve the proxy gateway"):
        one.resolve()


# Never of its own accord


@pytest.mark.parametrize("name", ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"])
def test_a_proxy_of_the_environment_is_never_used(monkeypatch: pytest.MonkeyPatch, made: SelfMade, name: str) -> None:
    with proxying(whole("", "403 Forbidden")) as proxy:
        monkeypatch.setenv(name, proxy.way.url)
        for scheme, tls in (("http", None), ("https", made.context)):
            with serving(answer(GOOD), tls=tls) as server:
                assert ask(server.url(scheme=scheme), insecure=True).outcome is Outcome.OK
            with serving(page(whole("{}")), tls=tls) as server:
                assert Probe(server.url(scheme=scheme), {}, insecure=True).get("/", timeout_s=5).status == 200
        assert proxy.heads == []


# What asks beside the load takes the same way


def pages(proxy: ForwardProxy, url: str) -> list[Page]:
    probe = Probe(url, {"Authorization": "Bearer key-1"}, insecure=True, keep_alive=True, proxy=proxy.way)
    found = [probe.get("/health", timeout_s=5), probe.post("/api/show", {}, timeout_s=5)]
    probe.close()
    return found


def test_a_probe_goes_through_the_proxy_too(made: SelfMade) -> None:
    for scheme, tls in (("http", None), ("https", made.context)):
        with serving(page(whole("{}")), tls=tls) as server, proxying(credentials=CREDENTIALS) as proxy:
            assert [found.body for found in pages(proxy, server.url("/v1", scheme))] == [b"{}", b"{}"]
            first, *rest = proxy.heads[0].split(b"\r\n")
        assert BASIC in rest
        assert (b"Authorization: Bearer key-1" in rest) is (tls is None)
        where = f"127.0.0.1:{server.port}".encode()
        assert first == (b"CONNECT " + where if tls else b"GET http://" + where + b"/health") + b" HTTP/1.1"


def test_a_probe_says_why_the_proxy_does_not_let_it_through() -> None:
    with proxying(whole("only port 443\n", "403 Forbidden", "text/plain")) as proxy, pytest.raises(NoPage) as none:
        Probe("https://engine:8443", {}, proxy=proxy.way).get("/health", timeout_s=5)
    assert none.value.failure.outcome is Outcome.CONNECT_ERROR
    assert str(none.value) == (
        f"the proxy 127.0.0.1:{proxy.way.port} opens no tunnel to engine:8443: HTTP 403: only port 443"
    )


# As a person names it


def test_the_url_of_a_proxy() -> None:
    assert Proxy.parse("http://proxy:3128") == Proxy("proxy", 3128)
    assert Proxy.parse("HTTP://Proxy:80/").url == "http://proxy:80"
    assert Proxy.parse("http://[::1]:3128", "a:b") == Proxy("::1", 3128, "a:b")
    assert Proxy.parse("http://[::1]:3128", "a:b").url == "http://[::1]:3128"
    assert repr(Proxy.parse("http://proxy:3128", "a:b")) == "Proxy(http://proxy:3128)"


@pytest.mark.parametrize(
    "url",
    ["proxy:3128", "proxy", "", "http://proxy", "https://proxy:3128", "socks5://proxy:1080", "http://proxy:3128/x",
     "http://proxy:3128?x=1", "http://proxy:0", "http://:3128", "http://pro xy:1"],
)  # fmt: skip
def test_what_is_no_proxy_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="--proxy"):
        Proxy.parse(url)


def test_credentials_in_the_url_of_a_proxy_are_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError, match="LLM_LOCUST_PROXY_AUTH") as refused:
        Proxy.parse("http://me:hunter2@proxy:3128")
    assert "hunter2" not in str(refused.value)
