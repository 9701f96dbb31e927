"""A forward proxy on loopback: hands on whole-URL requests and digs tunnels, or answers everything with the same bytes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import gevent
from gevent import socket as gevent_socket
from gevent.server import StreamServer

from llm_locust.streaming import Proxy


class ForwardProxy:
    """``refusal`` is what it answers instead of letting anybody through; empty: it hangs up, ``None``: everybody may."""

    def __init__(self, refusal: bytes | None = None, credentials: str | None = None) -> None:
        self.heads: list[bytes] = []
        """The first head of each connection."""
        self._refusal = refusal
        self._credentials = credentials
        self._server = StreamServer(("127.0.0.1", 0), self._serve)
        self._server.start()

    @property
    def way(self) -> Proxy:
        """It, as a client is given it."""
        return Proxy("127.0.0.1", int(self._server.server_port), self._credentials)

    def stop(self) -> None:
        self._server.stop(timeout=1)

    def _serve(self, client: Any, _address: Any) -> None:
        with contextlib.suppress(OSError), client:
            said = b""
            while b"\r\n\r\n" not in said:
                if not (data := client.recv(65536)):
                    return
                said += data
            head, _, rest = said.partition(b"\r\n\r\n")
            self.heads.append(head)
            if self._refusal is not None:
                client.sendall(self._refusal)
                return
            method, where, _ = head.split(b"\r\n")[0].decode().split(" ")
            url = urlsplit(f"//{where}" if method == "CONNECT" else where)
            # Whatever the name, the server is on this machine: a proxy has a resolver of its own.
            with gevent_socket.socket() as server:
                server.connect(("127.0.0.1", url.port or 80))
                if method == "CONNECT":
                    client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n" + rest)
                else:
                    server.sendall(said.replace(where.encode(), url.path.encode(), 1))
                back = gevent.spawn(_pump, server, client)
                _pump(client, server)
                back.join()


def _pump(source: Any, sink: Any) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(gevent_socket.SHUT_WR)


@contextlib.contextmanager
def proxying(refusal: bytes | None = None, credentials: str | None = None) -> Iterator[ForwardProxy]:
    proxy = ForwardProxy(refusal, credentials)
    try:
        yield proxy
    finally:
        proxy.stop()
