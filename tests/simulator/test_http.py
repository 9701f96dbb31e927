"""HTTP without sockets: the same requests wherever the bytes are cut."""

from __future__ import annotations

import pytest

from llm_locust.simulator import http
from llm_locust.simulator.http import BadRequest, RequestReader, Response, chunk, head

TWO = (
    b"POST /v1/completions?x=1 HTTP/1.1\r\nHost: a\r\nX-Request-Id: r-1\r\nContent-Length: 3\r\n\r\n{ }"
    b"GET /he%61lth HTTP/1.0\r\n\r\n"
)


@pytest.mark.parametrize("cut", range(1, len(TWO)))
def test_requests_are_the_same_wherever_the_bytes_are_cut(cut: int) -> None:
    reader = RequestReader()
    first, second = reader.feed(TWO[:cut], 1) + reader.feed(TWO[cut:], 2)
    assert (first.method, first.path, first.body, first.headers["x-request-id"]) == (
        "POST",
        "/v1/completions",
        b"{ }",
        "r-1",
    )
    assert (first.http_1_1, first.keep_alive) == (True, True)
    assert (second.method, second.path, second.body) == ("GET", "/health", b"")
    assert (second.http_1_1, second.keep_alive) == (False, False)
    assert second.received_ns == 2, "stamped by the read that completed it"


def test_a_chunked_request_body_is_put_together() -> None:
    body = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{ \r\n1\r\n}\r\n0\r\n\r\n"
    (request,) = RequestReader().feed(body, 0)
    assert request.body == b"{ }"


def test_a_client_that_waits_for_100_continue_is_seen() -> None:
    reader = RequestReader()
    assert reader.feed(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n", 0) == []
    assert reader.wants_continue


def test_what_is_not_http_is_refused() -> None:
    with pytest.raises(BadRequest):
        RequestReader().feed(b"\x16\x03\x01 hello\r\n\r\n", 0)


def test_a_body_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_BODY_BYTES", 10)
    with pytest.raises(BadRequest, match="longer than 10 bytes"):
        RequestReader().feed(b"POST / HTTP/1.1\r\nContent-Length: 1000\r\n\r\n" + b"x" * 11, 0)


def test_a_response_is_one_piece_of_head_and_body() -> None:
    data = Response(503, b"{}", headers=(("retry-after", "1"),)).encode(keep_alive=False)
    top, body = data.split(b"\r\n\r\n")
    lines = top.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 503 Service Unavailable"
    assert {b"content-length: 2", b"content-type: application/json", b"retry-after: 1", b"connection: close"} < set(
        lines
    )
    assert body == b"{}"


def test_chunks_and_heads_are_framed() -> None:
    assert chunk(b"x" * 26) == b"1a\r\n" + b"x" * 26 + b"\r\n"
    assert b"connection" not in head(200, {}, keep_alive=True)
    assert head(599, {}, keep_alive=True).startswith(b"HTTP/1.1 599 Unknown Status\r\n")
