"""A loopback server that answers each path as the test says, in the greenlets of the test itself."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import gevent
import msgspec
from gevent.server import StreamServer
from gevent.ssl import SSLContext

Answer = bytes | Callable[[], bytes]

NOT_FOUND = b'HTTP/1.1 404 Not Found\r\nContent-Length: 22\r\n\r\n{"detail":"Not Found"}'


def http(status: int, body: object = b"", **headers: str) -> bytes:
    """A response; anything but bytes and text is sent as JSON."""
    kind = "application/json"
    if isinstance(body, str):
        body, kind = body.encode(), "text/plain"
    elif not isinstance(body, bytes):
        body = msgspec.json.encode(body)
    fields = {"Content-Type": kind, "Content-Length": str(len(body))}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def models(*names: str, owner: str = "somebody") -> bytes:
    """The answer to ``/v1/models``."""
    return http(200, {"object": "list", "data": [{"id": name, "object": "model", "owned_by": owner} for name in names]})


class Pages:
    """A server by path; what is not there gets a 404. An answer may be a function, asked anew for every request."""

    def __init__(self, pages: Mapping[str, Answer], *, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.asked: list[str] = []
        """The paths, in order."""
        self.heads: list[str] = []
        """The request heads as they came."""
        self._pages = pages
        options: dict[str, Any] = {} if tls is None else {"ssl_context": tls}
        self._server = StreamServer(("127.0.0.1", port), self._serve, **options)
        self._server.start()
        self.port = int(self._server.server_port or 0)

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """End it."""
        self._server.stop(timeout=1)

    def _serve(self, sock: Any, _address: Any) -> None:
        with contextlib.suppress(OSError):
            data = b""
            while b"\r\n\r\n" not in data:
                piece = sock.recv(65536)
                if not piece:
                    return
                data += piece
            head = data.partition(b"\r\n\r\n")[0].decode()
            path = head.split(" ")[1]
            self.asked.append(path)
            self.heads.append(head)
            answer = self._pages.get(path, NOT_FOUND)
            sock.sendall(answer if isinstance(answer, bytes) else answer())


@contextlib.contextmanager
def serving(pages: Mapping[str, Answer], *, tls: ssl.SSLContext | None = None) -> Iterator[Pages]:
    """A server while the block lasts; a test that hangs fails instead of holding up the suite."""
    server = Pages(pages, tls=tls)
    try:
        with gevent.Timeout(20):
            yield server
    finally:
        server.stop()


def server_context(certificate: Path) -> SSLContext:
    context = SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    return context


def never() -> bytes:
    """An answer that does not come."""
    gevent.sleep(60)
    return b""


def free_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
