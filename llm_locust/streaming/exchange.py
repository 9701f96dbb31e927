"""One request on its way: connection, bytes out, reply in, one retry where that is fair, and how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gevent

from llm_locust.records import NS_PER_S, Outcome, leaving_text
from llm_locust.streaming.connection import Connection, NoConnection
from llm_locust.streaming.decoder import ReplyDecoder
from llm_locust.streaming.dialects import Dialect
from llm_locust.streaming.reception import OutOfTime, Reception
from llm_locust.streaming.redaction import secrets_in
from llm_locust.streaming.reply import Failure, Reply
from llm_locust.streaming.request import StreamRequest

if TYPE_CHECKING:
    from llm_locust.streaming.client import StreamClient


class Cancelled(Exception):
    """Throw it into the greenlet inside ``stream()``, as ``greenlet.kill(Cancelled, block=False)``, to drop the request.

    ``stream()`` then returns a reply with outcome ``cancelled``. Thrown when ``stream()`` has just returned, it surfaces in
    the caller.
    """


class Exchange:
    """One request and its reply."""

    def __init__(self, client: StreamClient, request: StreamRequest, dialect: Dialect, deadline_s: float) -> None:
        self._client = client
        self._clock = client.clock
        self._request = request
        self._dialect = dialect
        self._deadline_s = deadline_s
        self._failure: Failure | None = None
        self._connection: Connection | None = None
        self._sent_ns: int | None = None
        self._written_ns: int | None = None
        self._connect_ns: int | None = None
        self._tls_ns: int | None = None
        self._reused: bool | None = None
        self._retries = 0
        self._ended_ns: int | None = None
        self._reception = self._new_reception()

    def run(self, data: bytes) -> None:
        """Do it all; :meth:`reply` then says what happened."""
        deadline = gevent.Timeout(self._deadline_s)
        patience = gevent.Timeout(self._request.leave_after_s)  # None never runs out
        try:
            if not self._client.resolved:
                self._look_up()  # which is not yet sending
            self._sent_ns = self._clock.now_ns()
            self._reception.deadline_ns = self._sent_ns + int(self._deadline_s * NS_PER_S)
            deadline.start()
            patience.start()
            self._attempt(data, may_reuse=True)
            if self._stale():
                self._drop_connection()
                self._reception = self._new_reception(self._reception.deadline_ns)
                self._retries = 1
                self._attempt(data, may_reuse=False)
            if self._reception.enough:
                self._failure = _left(f"{self._request.leave_after_events} output events")
        except gevent.Timeout as expired:
            if expired is patience:
                self._at_the_end(_left(f"{self._request.leave_after_s:g} s"))
            elif expired is deadline:
                self._at_the_end(self._out_of_time())
            else:
                raise
        except OutOfTime:
            self._at_the_end(self._out_of_time())
        except Cancelled:
            self._at_the_end(Failure(Outcome.CANCELLED, "cancelled by the client"), whatever=True)
        except NoConnection as none:
            self._failure = none.failure
        finally:
            deadline.close()
            patience.close()
            self._ended_ns = self._clock.now_ns()
            if self._connection is not None and self._failure is None and self._reception.decoder.reusable:
                self._client.give_back(self._connection)
                self._connection = None
            self._drop_connection()

    def reply(self) -> Reply:
        """The outcome, with the client's own share of the timeline."""
        reception = self._reception
        secrets = (*secrets_in(self._request.headers), *self._client.route.secrets)
        reply = reception.decoder.finish(self._ended_ns, failure=self._failure, secrets=secrets)
        reply.sent_ns = self._sent_ns
        reply.written_ns = self._written_ns
        reply.connect_ns = self._connect_ns
        reply.tls_ns = self._tls_ns
        reply.reused = self._reused
        reply.retries = None if self._sent_ns is None else self._retries
        reply.clock = reception.clock
        reply.read_lag_ns = reception.read_lag_ns if reception.read_lag_ns >= 0 else None
        return reply

    def _look_up(self) -> None:
        # A limit of its own: libev starts a stopped timer again with what was left of it.
        limit = gevent.Timeout.start_new(self._deadline_s)
        try:
            self._client.addresses()
        except gevent.Timeout as expired:
            if expired is not limit:
                raise
            text = f"{self._client.route.first_hop} was not resolved within {self._deadline_s:g} s"
            raise NoConnection(Outcome.GENERATOR_ERROR, text) from None
        finally:
            limit.close()

    def _attempt(self, data: bytes, *, may_reuse: bool) -> None:
        connection = self._connection = self._client.take_idle() if may_reuse else None
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
            self._client.reading.read(connection, self._reception)
        except OSError as error:
            self._reception.settle()
            self._reception.decoder.lost(self._clock.now_ns(), f"the connection broke: {_reason(broken or error)}")

    def _open(self) -> Connection:
        client = self._client
        self._reused = False
        before = self._clock.now_ns()
        connection = self._connection = client.connect()
        client.route.dig(connection, timeout_s=client.connect_timeout_s)
        connected = self._clock.now_ns()
        self._connect_ns = connected - before
        if client.route.target.tls:
            client.route.secure(connection, timeout_s=client.connect_timeout_s)
            self._tls_ns = self._clock.now_ns() - connected
        return connection

    def _at_the_end(self, failure: Failure, *, whatever: bool = False) -> None:
        """The client ends it, unless (or ``whatever``) what was read before that already ended it."""
        try:
            done = self._reception.settle()
        except OutOfTime:
            done = False
        if whatever or not done:
            self._failure = failure

    def _stale(self) -> bool:
        """A kept-alive connection that the server closed before it saw the request: not a byte came back on it."""
        decoder = self._reception.decoder
        return self._reused is True and decoder.bytes_in == 0 and decoder.done

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _new_reception(self, deadline_ns: int = 0) -> Reception:
        client = self._client
        decoder = ReplyDecoder(
            self._dialect,
            streamed=self._request.streamed,
            keep_text=client.keep_text,
            max_bytes=client.max_bytes,
        )
        return Reception(decoder, deadline_ns, self._request.leave_after_events)

    def _out_of_time(self) -> Failure:
        return Failure(Outcome.TIMEOUT, f"the deadline of {self._deadline_s:g} s passed")


def _left(after: str) -> Failure:
    return Failure(Outcome.CANCELLED, leaving_text(after))


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
