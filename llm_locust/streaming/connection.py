"""One connection: TCP and TLS set up, bytes sent, reads stamped, staleness seen."""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import gevent
from gevent import socket as gevent_socket

from llm_locust.records import Outcome
from llm_locust.streaming.own_limits import has_family, out_of_ports, out_of_resources
from llm_locust.streaming.receive_times import ANCILLARY_BYTES, ReceiveTime, ReceiveTimes, ask_for_kernel_times
from llm_locust.streaming.reply import Failure
from llm_locust.streaming.tls import TlsSession

READ_BYTES = 65536

ReceiveNow = Callable[[int, int], tuple[bytes, list[tuple[int, int, bytes]], int, Any]]


class Address(NamedTuple):
    """One address that a name resolved to."""

    family: int
    sockaddr: tuple[Any, ...]

    def __str__(self) -> str:
        host, port = self.sockaddr[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class NoConnection(Exception):
    """No connection could be made, or none be read; ``failure`` says whose fault it is."""

    def __init__(self, outcome: Outcome, error: str) -> None:
        super().__init__(error)
        self.failure = Failure(outcome, error)


class Connection:
    """An open connection, used by one request at a time."""

    def __init__(self, sock: Any, address: Address, times: ReceiveTimes, *, stamped: bool) -> None:
        self.address = address
        self.used = False
        """A request was sent on it before."""
        self._sock = sock
        self._times = times
        self._stamped = stamped
        self._tls: TlsSession | None = None

    def start_tls(self, context: ssl.SSLContext, server_name: str) -> None:
        """The TLS handshake.

        Raises:
            OSError: it failed; ``ssl.SSLError`` with the reason, where TLS itself knows it.
        """
        tls = TlsSession(context, server_name)
        try:
            while not tls.handshake():
                self._flush(tls)
                tls.received(self._sock.recv(READ_BYTES))
        finally:
            self._flush(tls)  # the last flight, or the alert that tells the peer why
        self._tls = tls

    def send(self, data: bytes) -> None:
        """Hand ``data`` to the kernel, whole.

        Raises:
            OSError: the connection broke.
        """
        self._sock.sendall(data if self._tls is None else self._tls.encrypt(data))

    def fileno(self) -> int:
        """The descriptor of the socket."""
        return int(self._sock.fileno())

    @property
    def receive_now(self) -> ReceiveNow:
        """``recvmsg`` of the socket itself: it never waits, but raises ``BlockingIOError``."""
        receive_now: ReceiveNow = self._sock._sock.recvmsg  # gevent's own socket would wait in the calling greenlet
        return receive_now

    @property
    def encrypted(self) -> bool:
        """What :attr:`receive_now` reads must go through :meth:`decrypt`."""
        return self._tls is not None

    def decrypt(self, ciphertext: bytes) -> tuple[bytes, bool]:
        """What can be decrypted after ``ciphertext`` was read, and whether the peer has ended its side. Never waits.

        Raises:
            OSError: the bytes are no TLS, or what TLS must answer cannot be sent at once.
        """
        assert self._tls is not None
        self._tls.received(ciphertext)
        plaintext, ended = self._tls.decrypt()
        due = self._tls.outgoing()
        if due and self._sock._sock.send(due) < len(due):
            raise BrokenPipeError(errno.EPIPE, "no room to answer the peer's TLS message")
        return plaintext, ended or not ciphertext

    def receive(self) -> tuple[bytes, ReceiveTime]:
        """Wait for the next bytes; ``b""`` when the peer closed.

        Raises:
            OSError: the connection broke.
        """
        while True:
            data, time = self._read()
            if self._tls is None:
                return data, time
            self._tls.received(data)
            plaintext, ended = self._tls.decrypt()
            self._flush(self._tls)
            if plaintext or ended or not data:
                return plaintext, time

    def stale(self) -> bool:
        """While idle: the peer has closed it, or said something that nobody asked for."""
        try:
            if self._tls is None:
                self._sock._sock.recv(1, socket.MSG_PEEK)
                return True
            # Session tickets may arrive at any time; they are no reason to drop a connection.
            plaintext, ended = self.decrypt(self._sock._sock.recv(READ_BYTES))
            return ended or bool(plaintext)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        """Close the socket; never raises."""
        with contextlib.suppress(OSError):
            self._sock.close()

    def _read(self) -> tuple[bytes, ReceiveTime]:
        if not self._stamped:
            data = self._sock.recv(READ_BYTES)
            return data, self._times.now()
        data, ancillary, _, _ = self._sock.recvmsg(READ_BYTES, ANCILLARY_BYTES)
        return data, self._times.of(ancillary) if data else self._times.now()

    def _flush(self, tls: TlsSession) -> None:
        due = tls.outgoing()
        if due:
            self._sock.sendall(due)


def connect(addresses: Sequence[Address], times: ReceiveTimes, *, timeout_s: float, to: str = "") -> Connection:
    """A TCP connection to the first address that takes it; ``to`` says in errors whose they are, where that matters.

    Raises:
        NoConnection: none did within ``timeout_s``, or this machine has run out of descriptors or ports.
    """
    refusals: list[tuple[Address, OSError]] = []
    with within(timeout_s, f"no connection{to} within {timeout_s:g} s"):
        for address in addresses:
            try:
                return _connect_one(address, times)
            except OSError as error:
                if (ours := out_of_resources(error)) is not None:
                    raise NoConnection(Outcome.GENERATOR_ERROR, ours) from None
                refusals.append((address, error))
    text = "; ".join(f"{address}: {error.strerror or error}" for address, error in refusals)
    if any(error.errno == errno.EADDRNOTAVAIL and has_family(address.family) for address, error in refusals):
        raise NoConnection(Outcome.GENERATOR_ERROR, out_of_ports(text))
    raise NoConnection(Outcome.CONNECT_ERROR, f"no connection{to}: {text}")


@contextlib.contextmanager
def within(timeout_s: float, otherwise: str) -> Iterator[None]:
    """A limit of its own for one step of making a connection.

    Raises:
        NoConnection: the step took longer; ``otherwise`` says so.
    """
    limit = gevent.Timeout.start_new(timeout_s)
    try:
        yield
    except gevent.Timeout as expired:
        if expired is not limit:
            raise
        raise NoConnection(Outcome.CONNECT_ERROR, otherwise) from None
    finally:
        limit.close()


def _connect_one(address: Address, times: ReceiveTimes) -> Connection:
    sock = gevent_socket.socket(address.family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stamped = ask_for_kernel_times(sock)
        sock.connect(address.sockaddr)
    except BaseException:
        sock.close()
        raise
    return Connection(sock, address, times, stamped=stamped)


def tls_failure(error: OSError) -> NoConnection:
    """Why the TLS handshake failed, with what to do about it where that is known."""
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"the certificate was not accepted: {error.verify_message}; give its CA file, or ask for no verification"
    elif isinstance(error, ssl.SSLError) and error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        text = "the server does not speak TLS on this port; should the base URL begin with http://?"
    elif isinstance(error, ssl.SSLEOFError):
        text = "the server closed the connection"
    else:
        text = error.strerror or str(error)
    return NoConnection(Outcome.CONNECT_ERROR, f"TLS handshake failed: {text}")
