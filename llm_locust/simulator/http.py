"""HTTP/1.1 without I/O: received bytes in, whole requests out; response heads and chunks as bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import formatdate
from urllib.parse import unquote, urlsplit

import httptools

from llm_locust.simulator.faults import status_phrase

MAX_BODY_BYTES = 64 << 20
LAST_CHUNK = b"0\r\n\r\n"


class BadRequest(Exception):
    """What came is not HTTP that this server reads; the connection cannot go on."""


@dataclass(slots=True)
class Request:
    """One request, body included."""

    method: str
    path: str
    headers: dict[str, str]
    """By lower-case name; of a repeated header the last."""
    body: bytes
    http_1_1: bool
    """Whether the client understands chunks."""
    keep_alive: bool
    received_ns: int
    """Monotonic nanoseconds: right after the read that completed it."""


class RequestReader:
    """Feeds bytes to the parser and collects the requests that they complete."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._done: list[Request] = []
        self._now_ns = 0
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self.wants_continue = False
        """The client waits for ``100 Continue`` before it sends the body; set back by the caller."""

    def feed(self, data: bytes, now_ns: int) -> list[Request]:
        """The requests that ``data``, read at ``now_ns``, completed.

        Raises:
            BadRequest: not HTTP/1, an upgrade, or a body past :data:`MAX_BODY_BYTES`.
        """
        self._now_ns = now_ns
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, UnicodeDecodeError, ValueError) as error:
            raise BadRequest(str(error)) from None
        if len(self._body) > MAX_BODY_BYTES:
            raise BadRequest(f"the body is longer than {MAX_BODY_BYTES} bytes")
        done, self._done = self._done, []
        return done

    # What the parser calls:

    def on_message_begin(self) -> None:
        """A request starts."""
        self._url = b""
        self._headers = {}
        self._body = bytearray()

    def on_url(self, url: bytes) -> None:
        """A piece of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The head is over."""
        self.wants_continue = self._headers.get("expect", "").lower() == "100-continue"

    def on_body(self, body: bytes) -> None:
        """A piece of the body, chunk framing removed."""
        self._body += body

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._done.append(
            Request(
                method=self._parser.get_method().decode("latin-1"),
                path=unquote(urlsplit(self._url.decode("latin-1")).path),
                headers=self._headers,
                body=bytes(self._body),
                http_1_1=self._parser.get_http_version() == "1.1",
                keep_alive=self._parser.should_keep_alive(),
                received_ns=self._now_ns,
            )
        )
        self._body = bytearray()


def head(status: int, headers: Mapping[str, str], *, keep_alive: bool) -> bytes:
    """A response head with ``Date``, ``Server`` and, where the connection will end, ``Connection: close``."""
    lines = [
        f"HTTP/1.1 {status} {status_phrase(status)}",
        f"date: {formatdate(usegmt=True)}",
        "server: llm-locust-simulator",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    if not keep_alive:
        lines.append("connection: close")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def chunk(data: bytes) -> bytes:
    """``data`` (not empty) as one chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


@dataclass(frozen=True, slots=True)
class Response:
    """A whole response that is known before it is sent."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()

    def encode(self, *, keep_alive: bool) -> bytes:
        """Head and body, to be sent in one write."""
        headers = {
            **dict(self.headers),
            "content-type": self.content_type,
            "content-length": str(len(self.body)),
        }
        return head(self.status, headers, keep_alive=keep_alive) + self.body
