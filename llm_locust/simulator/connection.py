"""One client connection: a greenlet reads requests ahead of their turn, so that a client's leaving is seen at once.

``gevent.pywsgi`` would not do: it looks at the socket only between requests, and a cut in mid-chunk, a reset or a stall
needs the bytes on the wire to be ours. End of file from the client counts as leaving, as it does for uvicorn.
"""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable, Iterator

import gevent
from gevent import socket
from gevent.queue import Queue

from llm_locust.simulator.http import BadRequest, Request, RequestReader, Response

_READ_BYTES = 65_536
_PIPELINED = 16
"""Requests read ahead of their turn; beyond them TCP holds the client back."""
_SLICE_SECONDS = 0.02
"""With a bandwidth limit, bytes leave in pieces that take this long."""


class ClientGone(Exception):
    """The client closed or reset the connection."""


class Connection:
    """Requests in, raw bytes out. Use it as a context manager: leaving it closes the socket."""

    def __init__(self, sock: socket.socket, bandwidth_kbps: float | None = None) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        self._bytes_per_ns = None if bandwidth_kbps is None else bandwidth_kbps * 1000 / 8 / 1e9
        self._free_at_ns = 0
        self._inbox: Queue[Request | BadRequest | None] = Queue(_PIPELINED)
        self._on_gone: Callable[[], None] | None = None
        self.gone = False
        """The client has left, or we have closed."""
        self._reader = gevent.spawn(self._read)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.kill()
        self._socket.close()

    def requests(self) -> Iterator[Request]:
        """The requests of this connection, in order, until the client leaves or one of them ends the connection."""
        while not self.gone or not self._inbox.empty():
            request = self._inbox.get()
            if request is None:
                return
            if isinstance(request, BadRequest):
                refusal = Response(400, f"{request}\n".encode(), "text/plain; charset=utf-8")
                self.send(refusal.encode(keep_alive=False))
                return
            yield request
            if not request.keep_alive:
                return

    @contextlib.contextmanager
    def watched(self, on_gone: Callable[[], None]) -> Iterator[None]:
        """Calls ``on_gone`` once if the client leaves inside the block, or had left before it."""
        self._on_gone = on_gone
        if self.gone:
            on_gone()
        try:
            yield
        finally:
            self._on_gone = None

    def send(self, data: bytes) -> None:
        """Write all of ``data``, no faster than the bandwidth allows.

        Raises:
            ClientGone: the client cannot be written to.
        """
        if self.gone:
            raise ClientGone
        try:
            if self._bytes_per_ns is None:
                self._socket.sendall(data)
                return
            size = max(1, int(self._bytes_per_ns * _SLICE_SECONDS * 1e9))
            for start in range(0, len(data), size):
                piece = data[start : start + size]
                now_ns = time.monotonic_ns()
                # A piece arrives when its last bit does: it is written at the end of its time on the line.
                self._free_at_ns = max(self._free_at_ns, now_ns) + round(len(piece) / self._bytes_per_ns)
                gevent.sleep((self._free_at_ns - now_ns) / 1e9)
                self._socket.sendall(piece)
        except OSError:
            raise ClientGone from None

    def cut(self) -> None:
        """End the connection with a FIN, whatever was promised."""
        self.gone = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def reset(self) -> None:
        """End the connection with an RST; what the kernel had not sent yet is lost."""
        self.gone = True
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def _read(self) -> None:
        reader = RequestReader()
        try:
            while data := self._socket.recv(_READ_BYTES):
                for request in reader.feed(data, time.monotonic_ns()):
                    self._inbox.put(request)
                if reader.wants_continue:
                    reader.wants_continue = False
                    self._socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        except BadRequest as error:
            self._inbox.put(error)
            return
        except OSError:
            pass
        self.gone = True
        if self._on_gone is not None:
            self._on_gone()
        self._inbox.put(None)
