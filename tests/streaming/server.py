"""A loopback server whose every connection follows a script, in the greenlets of the test itself."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from typing import Any

import gevent
from gevent.server import StreamServer

Script = Callable[[Any], None]

BACKLOG = 1024
"""Connections that a thousand clients make at once need not be tried again a second later."""


class ScriptedServer:
    """The scripts are taken in turn, one per connection; the last one serves every further connection."""

    def __init__(self, *scripts: Script, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self.connections = 0
        self.requests: list[bytes] = []
        self._scripts = scripts
        self._host = host
        options = {"ssl_context": tls} if tls else {}
        self._server = StreamServer((host, 0), self._serve, backlog=BACKLOG, **options)
        self._server.start()

    @property
    def port(self) -> int:
        return int(self._server.server_port)

    def url(self, path: str = "", scheme: str = "http") -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{scheme}://{host}:{self.port}{path}"

    def stop(self) -> None:
        self._server.stop(timeout=1)

    def _serve(self, sock: Any, _address: Any) -> None:
        script = self._scripts[min(self.connections, len(self._scripts) - 1)]
        self.connections += 1
        with contextlib.suppress(OSError):
            script(Peer(self, sock))


class Peer:
    """The server's end of a connection."""

    def __init__(self, server: ScriptedServer, sock: Any) -> None:
        self._server = server
        self.sock = sock

    def request(self) -> bytes:
        """Read one request, head and body; empty when the client has closed."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.sock.recv(65536) or self._gone()
        head, _, body = data.partition(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        while len(body) < length:
            body += self.sock.recv(65536) or self._gone()
        self._server.requests.append(head + b"\r\n\r\n" + body)
        return self._server.requests[-1]

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def wait_closed(self) -> None:
        """Until the client has closed its end."""
        with contextlib.suppress(OSError):
            while self.sock.recv(65536):
                pass

    def close(self) -> None:
        self.sock.close()

    def reset(self) -> None:
        """Close with a reset instead of a FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    @staticmethod
    def _gone() -> bytes:
        raise ConnectionResetError


@contextlib.contextmanager
def serving(*scripts: Script, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> Iterator[ScriptedServer]:
    server = ScriptedServer(*scripts, tls=tls, host=host)
    try:
        with gevent.Timeout(20):  # a script that hangs fails the test instead of the suite
            yield server
    finally:
        server.stop()


def answer(data: bytes) -> Script:
    """Answer every request on the connection with the same bytes."""

    def script(peer: Peer) -> None:
        while True:
            peer.request()
            peer.send(data)

    return script
