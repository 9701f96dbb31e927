"""Where a request goes and what its bytes are."""

from __future__ import annotations

import pytest

from llm_locust.records import UsageError
from llm_locust.streaming import DIALECTS, StreamRequest, get_dialect
from llm_locust.streaming.proxy import Proxy
from llm_locust.streaming.request import encode_request
from llm_locust.streaming.route import Route
from llm_locust.streaming.target import Target


@pytest.mark.parametrize(
    ("base", "path", "authority", "due"),
    [
        ("http://127.0.0.1:8000", "/v1/chat/completions", "127.0.0.1:8000", "/v1/chat/completions"),
        ("http://h:8000/", "/v1/completions", "h:8000", "/v1/completions"),
        ("http://h/prefix", "/v1/completions", "h", "/prefix/v1/completions"),
        ("http://h/prefix/", "v1/completions", "h", "/prefix/v1/completions"),
        ("https://h/v1", "/v1/chat/completions", "h", "/v1/chat/completions"),
        ("https://h/openai/v1/", "/v1/chat/completions", "h", "/openai/v1/chat/completions"),
        ("https://h:443", "/x", "h", "/x"),
        ("http://h:443", "/x", "h:443", "/x"),
        ("http://h/v1beta", "/v1/models", "h", "/v1beta/v1/models"),
        ("http://h/api", "/api/generate", "h", "/api/generate"),
        ("http://[::1]:8000/v1", "/v1/x", "[::1]:8000", "/v1/x"),
        ("http://[fe80::1%25eth0]", "/x", "[fe80::1]", "/x"),
        ("HTTP://H:1", "/x?a=b c", "h:1", "/x?a=b%20c"),
        ("http://bücher.example", "/x", "xn--bcher-kva.example", "/x"),
    ],
)
def test_base_url_and_path(base: str, path: str, authority: str, due: str) -> None:
    target = Target.parse(base)
    assert (target.authority, target.path(path)) == (authority, due)


def test_parts_of_a_target() -> None:
    assert Target.parse("https://[::1]/v1/") == Target(tls=True, host="::1", port=443, prefix="/v1")
    assert Target.parse("http://host") == Target(tls=False, host="host", port=80, prefix="")


@pytest.mark.parametrize(
    "base",
    ["127.0.0.1:8000", "localhost", "", "ftp://h", "http://", "http://h:port", "http://h:99999", "http://h:0",
     "http://h/v1?key=1", "http://h/#x", "http://[::1", "http://a b/"],
)  # fmt: skip
def test_a_base_url_that_is_none_is_refused(base: str) -> None:
    with pytest.raises(UsageError, match="base URL"):
        Target.parse(base)


@pytest.mark.parametrize(
    "base", ["http://user:hunter2@h", "http://hunter2@h/v1", "https://:hunter2@h:1", "http://user:hunter2@h:x"]
)
def test_credentials_in_the_url_are_refused_and_not_repeated(base: str) -> None:
    with pytest.raises(UsageError) as refused:
        Target.parse(base)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("base", ["http://h/v1?key=hunter2", "http://h/v1#hunter2", "http://h:x/v1?key=hunter2"])
def test_a_query_is_refused_and_not_repeated(base: str) -> None:
    with pytest.raises(UsageError, match="base URL") as refused:
        Target.parse(base)
    assert "hunter2" not in str(refused.value)


def encoded(
    *headers: tuple[str, str],
    keep_alive: bool = True,
    streamed: bool = True,
    base: str = "http://h:1",
    proxy: Proxy | None = None,
) -> tuple[str, dict[str, str], bytes]:
    request = StreamRequest(
        path="/v1/x", body=b'{"a":1}', headers=list(headers), dialect="openai-chat", streamed=streamed
    )
    route = Route(Target.parse(base), proxy=proxy)
    raw = encode_request(request, route, media_type="text/event-stream", keep_alive=keep_alive)
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return first, dict(line.split(": ", 1) for line in lines), body


def test_the_bytes_of_a_request() -> None:
    assert encoded() == (
        "POST /v1/x HTTP/1.1",
        {
            "Host": "h:1",
            "User-Agent": "llm-locust",
            "Accept": "text/event-stream",
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",
            "Content-Length": "7",
        },
        b'{"a":1}',
    )


def test_without_a_stream_json_is_accepted() -> None:
    assert encoded(streamed=False)[1]["Accept"] == "application/json"


def test_without_reuse_the_server_is_told() -> None:
    assert encoded(keep_alive=False)[1]["Connection"] == "close"


def test_a_proxy_is_given_the_whole_url_and_its_own_credentials() -> None:
    first, headers, _ = encoded(base="http://[::1]/v1", proxy=Proxy("p", 3128, "me:let me in"))
    assert first == "POST http://[::1]/v1/x HTTP/1.1"
    assert headers["Host"] == "[::1]"
    assert headers["Proxy-Authorization"] == "Basic bWU6bGV0IG1lIGlu"


def test_what_goes_through_a_tunnel_knows_nothing_of_the_proxy() -> None:
    plain = encoded(base="https://h:1")
    assert encoded(base="https://h:1", proxy=Proxy("p", 3128, "me:let me in")) == plain


def test_headers_of_the_request_replace_those_of_the_client_but_for_its_framing() -> None:
    _, headers, _ = encoded(
        ("user-agent", "mine"), ("X-Request-Id", "r1"), ("Accept-Encoding", "gzip"), ("content-length", "9")
    )
    assert headers["user-agent"] == "mine"
    assert headers["X-Request-Id"] == "r1"
    assert headers["Accept-Encoding"] == "identity"
    assert headers["Content-Length"] == "7"
    assert not {"User-Agent", "content-length"} & headers.keys()


@pytest.mark.parametrize(
    "header", [("X-A", "b\r\nX-Evil: 1"), ("X\n", "b"), ("", "b"), ("X A", "b"), ("X:", "b"), ("X", "a\0")]
)
def test_a_header_that_would_break_the_head_is_refused(header: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match="header"):
        encoded(header)


def test_dialects_are_found_by_name() -> None:
    assert {name: dialect.path for name, dialect in DIALECTS.items()} == {
        "openai-chat": "/v1/chat/completions",
        "openai-completions": "/v1/completions",
        "ollama-generate": "/api/generate",
        "ollama-chat": "/api/chat",
    }
    with pytest.raises(UsageError, match="unknown dialect 'chat': choose one of openai-chat"):
        get_dialect("chat")
