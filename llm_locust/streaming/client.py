"""The stream client: one POST and its reply over gevent sockets, timed, within a wall-clock deadline.

Simple inside: a greenlet per request that waits on its socket. ``stream()`` never raises for anything that a server or a
network does; whatever happens becomes the outcome of a :class:`Reply`, with all that was seen until then.
"""

from __future__ import annotations

import socket
import ssl

import gevent
from gevent import socket as gevent_socket
from gevent.lock import BoundedSemaphore

from llm_locust.records import NS_PER_S, Clock, Outcome, UsageError
from llm_locust.streaming.connection import READ_BYTES, Address, Connection, NoConnection, connect, tls_failure
from llm_locust.streaming.decoder import MAX_REPLY_BYTES, ReplyDecoder
from llm_locust.streaming.dialects import get_dialect
from llm_locust.streaming.receive_times import ReceiveTimes
from llm_locust.streaming.redaction import secrets_in
from llm_locust.streaming.reply import Failure, Reply
from llm_locust.streaming.request import StreamRequest, encode_request
from llm_locust.streaming.target import Target
from llm_locust.streaming.tls import tls_context

_READS_PER_TURN = 16
"""A socket that always has bytes ready never waits, so it hands the loop back by itself after this many reads."""


class Cancelled(Exception):
    """Throw it into the greenlet inside ``stream()``, as ``greenlet.kill(Cancelled, block=False)``, to drop the request.

    ``stream()`` then returns a reply with outcome ``cancelled``. Thrown when ``stream()`` has just returned, it surfaces in
    the caller.
    """


class StreamClient:
    """Sends requests to one server and reads their replies; any number of greenlets may share it.

    Idle connections are kept without limit and the latest used is taken first. Redirects are not followed and proxies not
    used. Make it in the process that uses it, as its clock.

    Args:
        base_url: ``http://host:port``, with or without a path; a base that ends in ``/v1`` is not doubled.
        clock: the clock of the records.
        connect_timeout_s: for TCP, and again for TLS; a ``connect_error`` when it passes.
        keep_text: keep the generated text in the reply.
        ca_file: PEM certificates to trust instead of the system's.
        insecure: do not verify the server's certificate.
        reuse: keep connections alive between requests.
        max_bytes: a longer reply is given up as a ``protocol_error``.

    Raises:
        UsageError: a base URL that is none, carries credentials, or a CA file that cannot be read.
    """

    def __init__(
        self,
        base_url: str,
        clock: Clock,
        *,
        connect_timeout_s: float = 10.0,
        keep_text: bool = False,
        ca_file: str | None = None,
        insecure: bool = False,
        reuse: bool = True,
        max_bytes: int = MAX_REPLY_BYTES,
    ) -> None:
        self.target = Target.parse(base_url)
        self._clock = clock
        self._times = ReceiveTimes(clock)
        self._connect_timeout_s = connect_timeout_s
        self._keep_text = keep_text
        self._reuse = reuse
        self._max_bytes = max_bytes
        self._tls: ssl.SSLContext | None = tls_context(ca_file, insecure) if self.target.tls else None
        self._addresses: list[Address] = []
        self._resolving = BoundedSemaphore(1)
        self._idle: list[Connection] = []
        self._closed = False

    @property
    def clock_steps(self) -> int:
        """How often a step of the wall clock made a read fall back to user time."""
        return self._times.clock_steps

    def resolve(self) -> tuple[str, ...]:
        """Look the server's name up again, and return its addresses in the order they will be tried.

        Without it the first request looks it up; either way the answer is kept. Connections already open stay.

        Raises:
            UsageError: the name has no address.
        """
        try:
            self._addresses = self._look_up()
        except OSError as error:
            raise UsageError(f"cannot resolve {self.target.host}: {error.strerror or error}") from None
        return tuple(map(str, self._addresses))

    def stream(self, request: StreamRequest, *, deadline_s: float) -> Reply:
        """Send one request and read its reply, within ``deadline_s`` seconds of being sent.

        Raises:
            UsageError: the request itself is wrong: an unknown dialect, a header with a line break.
        """
        dialect = get_dialect(request.dialect)
        data = encode_request(request, self.target, media_type=dialect.media_type, keep_alive=self._reuse)
        exchange = _Exchange(self, request, deadline_s)
        exchange.run(data)
        return exchange.reply()

    def close(self) -> None:
        """Close the idle connections; those in use close when their request ends."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    # What an exchange asks of its client.

    def _addresses_once(self) -> list[Address]:
        if not self._addresses:
            with self._resolving:
                if not self._addresses:
                    try:
                        self._addresses = self._look_up()
                    except OSError as error:
                        text = f"cannot resolve {self.target.host}: {error.strerror or error}"
                        raise NoConnection(Outcome.GENERATOR_ERROR, text) from None
        return self._addresses

    def _look_up(self) -> list[Address]:
        try:
            found = gevent_socket.getaddrinfo(self.target.host, self.target.port, 0, socket.SOCK_STREAM)
        except UnicodeError:  # a label that is empty or too long for DNS
            raise OSError("not a host name") from None
        return list(dict.fromkeys(Address(family, sockaddr) for family, _, _, _, sockaddr in found))

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.stale():
                return connection
            connection.close()
        return None

    def _connect(self) -> Connection:
        connection = connect(self._addresses_once(), self._times, timeout_s=self._connect_timeout_s)
        if self._addresses[0] != connection.address and connection.address in self._addresses:
            # Start with what worked: "localhost" is often ::1 first, where nobody listens.
            self._addresses.remove(connection.address)
            self._addresses.insert(0, connection.address)
        return connection

    def _give_back(self, connection: Connection) -> None:
        if self._reuse and not self._closed:
            connection.used = True
            self._idle.append(connection)
        else:
            connection.close()


class _Exchange:
    """One request on its way: what only the client can know of it."""

    def __init__(self, client: StreamClient, request: StreamRequest, deadline_s: float) -> None:
        self._client = client
        self._clock = client._clock
        self._request = request
        self._deadline_s = deadline_s
        self._decoder = self._new_decoder()
        self._failure: Failure | None = None
        self._connection: Connection | None = None
        self._sent_ns: int | None = None
        self._deadline_ns = 0
        self._written_ns: int | None = None
        self._connect_ns: int | None = None
        self._tls_ns: int | None = None
        self._reused: bool | None = None
        self._retries = 0
        self._kernel_reads = 0
        self._user_reads = 0
        self._read_lag_ns: int | None = None
        self._ended_ns: int | None = None

    def run(self, data: bytes) -> None:
        """Do it all; afterwards the decoder and the fields here hold what happened."""
        deadline = gevent.Timeout(self._deadline_s)
        try:
            if not self._client._addresses:
                self._look_up()  # which is not yet sending
            self._sent_ns = self._clock.now_ns()
            self._deadline_ns = self._sent_ns + int(self._deadline_s * NS_PER_S)
            deadline.start()
            self._attempt(data, may_reuse=True)
            if self._stale():
                self._drop_connection()
                self._decoder = self._new_decoder()
                self._retries = 1
                self._attempt(data, may_reuse=False)
        except gevent.Timeout as expired:
            if expired is not deadline:
                raise
            self._failure = self._out_of_time()
        except _OutOfTime:
            self._failure = self._out_of_time()
        except Cancelled:
            self._failure = Failure(Outcome.CANCELLED, "cancelled by the client")
        except NoConnection as none:
            self._failure = none.failure
        finally:
            deadline.close()
            self._ended_ns = self._clock.now_ns()
            if self._connection is not None and self._failure is None and self._decoder.reusable:
                self._client._give_back(self._connection)
                self._connection = None
            self._drop_connection()

    def reply(self) -> Reply:
        """The outcome, with the client's own share of the timeline."""
        reply = self._decoder.finish(self._ended_ns, failure=self._failure, secrets=secrets_in(self._request.headers))
        reply.sent_ns = self._sent_ns
        reply.written_ns = self._written_ns
        reply.connect_ns = self._connect_ns
        reply.tls_ns = self._tls_ns
        reply.reused = self._reused
        reply.retries = None if self._sent_ns is None else self._retries
        if self._kernel_reads or self._user_reads:
            reply.clock = (
                "mixed" if self._kernel_reads and self._user_reads else "kernel" if self._kernel_reads else "user"
            )
        reply.read_lag_ns = self._read_lag_ns
        return reply

    def _look_up(self) -> None:
        # A limit of its own: libev starts a stopped timer again with what was left of it.
        limit = gevent.Timeout.start_new(self._deadline_s)
        try:
            self._client._addresses_once()
        except gevent.Timeout as expired:
            if expired is not limit:
                raise
            text = f"{self._client.target.host} was not resolved within {self._deadline_s:g} s"
            raise NoConnection(Outcome.GENERATOR_ERROR, text) from None
        finally:
            limit.close()

    def _attempt(self, data: bytes, *, may_reuse: bool) -> None:
        connection = self._connection = self._client._take_idle() if may_reuse else None
        if connection is None:
            connection = self._open()
        self._reused = connection.used
        broken = None
        try:
            connection.send(data)
            self._written_ns = self._clock.now_ns()
        except OSError as error:
            # A server may answer before it has read the whole request, and close: what it said is still there to read.
            broken = error
        try:
            self._read(connection)
        except OSError as error:
            self._decoder.lost(self._clock.now_ns(), f"the connection broke: {_reason(broken or error)}")

    def _open(self) -> Connection:
        client = self._client
        self._reused = False
        before = self._clock.now_ns()
        connection = self._connection = client._connect()
        connected = self._clock.now_ns()
        self._connect_ns = connected - before
        if client._tls is None:
            return connection
        limit = gevent.Timeout.start_new(client._connect_timeout_s)
        try:
            connection.start_tls(client._tls, client.target.host)
        except gevent.Timeout as expired:
            if expired is not limit:
                raise
            text = f"no TLS handshake within {client._connect_timeout_s:g} s"
            raise NoConnection(Outcome.CONNECT_ERROR, text) from None
        except OSError as error:
            raise tls_failure(error) from None
        finally:
            limit.close()
        self._tls_ns = self._clock.now_ns() - connected
        return connection

    def _read(self, connection: Connection) -> None:
        reads = 0
        while not self._decoder.done:
            data, time = connection.receive()
            if time.t_ns > self._deadline_ns:
                raise _OutOfTime
            if not data:
                self._decoder.close(time.t_ns)
                return
            self._note(time.lag_ns)
            self._decoder.feed(data, time.t_ns)
            reads += 1
            if reads % _READS_PER_TURN == 0 or len(data) == READ_BYTES:
                gevent.sleep(0)

    def _note(self, lag_ns: int | None) -> None:
        if lag_ns is None:
            self._user_reads += 1
        else:
            self._kernel_reads += 1
            self._read_lag_ns = max(self._read_lag_ns or 0, lag_ns)

    def _stale(self) -> bool:
        """A kept-alive connection that the server closed before it saw the request: not a byte came back on it."""
        return self._reused is True and self._decoder.bytes_in == 0 and self._decoder.done

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _new_decoder(self) -> ReplyDecoder:
        return ReplyDecoder(
            get_dialect(self._request.dialect),
            streamed=self._request.streamed,
            keep_text=self._client._keep_text,
            max_bytes=self._client._max_bytes,
        )

    def _out_of_time(self) -> Failure:
        return Failure(Outcome.TIMEOUT, f"the deadline of {self._deadline_s:g} s passed")


class _OutOfTime(Exception):
    """A read came after the deadline: a stream that always has bytes ready outruns the timer."""


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
