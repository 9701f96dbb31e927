"""A far line between two processes of one machine: a TCP relay that holds every byte back, each way for its own time."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time


class Relay:
    """Listens on a port of its own and passes each connection on to another, late.

    Args:
        port: where connections are passed on to, on loopback.
        there_s: how long what comes from the caller is held back.
        back_s: how long what goes back to it is.
    """

    def __init__(self, port: int, *, there_s: float, back_s: float) -> None:
        self._target = port
        self._there_s, self._back_s = there_s, back_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End every connection; the threads end with them."""
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            try:
                called = socket.create_connection(("127.0.0.1", self._target))
            except OSError:  # nobody listens there yet: the caller will try again
                caller.close()
                continue
            self._sockets += [caller, called]
            self._pass_on(caller, called, self._there_s)
            self._pass_on(called, caller, self._back_s)

    def _pass_on(self, source: socket.socket, sink: socket.socket, delay_s: float) -> None:
        held: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

        def take() -> None:
            data = b"."
            while data:
                try:
                    data = source.recv(65536)
                except OSError:
                    data = b""
                held.put((time.monotonic() + delay_s, data))

        def give() -> None:
            with contextlib.suppress(OSError):
                while True:
                    due, data = held.get()
                    time.sleep(max(0.0, due - time.monotonic()))
                    if not data:
                        sink.shutdown(socket.SHUT_WR)
                        return
                    sink.sendall(data)

        for work in (take, give):
            threading.Thread(target=work, daemon=True).start()
