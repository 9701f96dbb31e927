"""The stream client: one server, the connections to it, and any number of requests at once.

``stream()`` blocks its greenlet and never raises for anything that a server or a network does; whatever happens becomes the
outcome of a :class:`Reply`, with all that was seen until then.
"""

from __future__ import annotations

from gevent.lock import BoundedSemaphore

from llm_locust.records import Clock, Outcome, UsageError
from llm_locust.streaming.connection import Address, Connection, NoConnection, connect
from llm_locust.streaming.decoder import MAX_REPLY_BYTES
from llm_locust.streaming.dialects import get_dialect
from llm_locust.streaming.epoll_reading import EpollReading
from llm_locust.streaming.exchange import Exchange
from llm_locust.streaming.proxy import Proxy
from llm_locust.streaming.reading import PlainReading, Reading, has_epoll
from llm_locust.streaming.receive_times import ReceiveTimes
from llm_locust.streaming.reply import Reply
from llm_locust.streaming.request import StreamRequest, encode_request
from llm_locust.streaming.route import Route
from llm_locust.streaming.target import Target


class StreamClient:
    """Sends requests to one server and reads their replies; any number of greenlets may share it.

    Idle connections are kept without limit and the latest used is taken first. Redirects are not followed, and no proxy is
    used but one given here. Make it in the process that uses it, as its clock.

    Args:
        base_url: ``http://host:port``, with or without a path; a base that ends in ``/v1`` is not doubled.
        clock: the clock of the records.
        connect_timeout_s: for TCP, again for a proxy's tunnel, and again for TLS; a ``connect_error`` when it passes.
        keep_text: keep the generated text in the reply.
        ca_file: PEM certificates to trust instead of the system's.
        insecure: do not verify the server's certificate.
        proxy: send everything through it.
        reuse: keep connections alive between requests.
        max_bytes: a longer reply is given up as a ``protocol_error``.
        plain: wait on each socket by itself, instead of reading all streams through one epoll, which costs a third; ``None``
            for that only where the system has no epoll.

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
        proxy: Proxy | None = None,
        reuse: bool = True,
        max_bytes: int = MAX_REPLY_BYTES,
        plain: bool | None = None,
    ) -> None:
        self.route = Route(Target.parse(base_url), proxy=proxy, ca_file=ca_file, insecure=insecure)
        self.clock = clock
        self.connect_timeout_s = connect_timeout_s
        self.keep_text = keep_text
        self.max_bytes = max_bytes
        self._times = ReceiveTimes(clock)
        plain = not has_epoll() if plain is None else plain
        self.reading: Reading = PlainReading() if plain else EpollReading(self._times)
        self._reuse = reuse
        self._addresses: list[Address] = []
        self._resolving = BoundedSemaphore(1)
        self._idle: list[Connection] = []
        self._closed = False

    @property
    def resolved(self) -> bool:
        """The server's addresses are known."""
        return bool(self._addresses)

    @property
    def clock_steps(self) -> int:
        """How often a step of the wall clock made a read fall back to user time."""
        return self._times.clock_steps

    def resolve(self) -> tuple[str, ...]:
        """Look the server's name up again (or a proxy's), and return its addresses in the order they will be tried.

        Without it the first request looks it up; either way the answer is kept. Connections already open stay.

        Raises:
            UsageError: the name has no address.
        """
        try:
            self._addresses = self.route.look_up()
        except OSError as error:
            raise UsageError(
                f"cannot resolve {self.route.first_hop}: {error.strerror or error}; check the host's name, and the name "
                "server of this machine"
            ) from None
        return tuple(map(str, self._addresses))

    def stream(self, request: StreamRequest, *, deadline_s: float) -> Reply:
        """Send one request and read its reply, within ``deadline_s`` seconds of being sent.

        Raises:
            UsageError: the request itself is wrong: an unknown dialect, a header with a line break.
        """
        dialect = get_dialect(request.dialect)
        data = encode_request(request, self.route, media_type=dialect.media_type, keep_alive=self._reuse)
        exchange = Exchange(self, request, dialect, deadline_s)
        exchange.run(data)
        return exchange.reply()

    def close(self) -> None:
        """Close the idle connections; those in use close when their request ends."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()
        self.reading.close()

    # What an exchange asks of its client.

    def addresses(self) -> list[Address]:
        """The server's addresses, looked up by whoever asks first.

        Raises:
            NoConnection: the name has none.
        """
        if not self._addresses:
            with self._resolving:
                if not self._addresses:
                    try:
                        self._addresses = self.route.look_up()
                    except OSError as error:
                        text = f"cannot resolve {self.route.first_hop}: {error.strerror or error}"
                        raise NoConnection(Outcome.GENERATOR_ERROR, text) from None
        return self._addresses

    def take_idle(self) -> Connection | None:
        """A connection kept alive that the server has not closed, if there is one."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.stale():
                return connection
            connection.close()
        return None

    def connect(self) -> Connection:
        """A new TCP connection.

        Raises:
            NoConnection: there is none to be had.
        """
        to = "" if self.route.proxy is None else " to the proxy"
        connection = connect(self.addresses(), self._times, timeout_s=self.connect_timeout_s, to=to)
        if self._addresses[0] != connection.address and connection.address in self._addresses:
            # Start with what worked: "localhost" is often ::1 first, where nobody listens.
            self._addresses.remove(connection.address)
            self._addresses.insert(0, connection.address)
        return connection

    def give_back(self, connection: Connection) -> None:
        """Keep a connection whose reply has ended for another request."""
        if self._reuse and not self._closed:
            connection.used = True
            self._idle.append(connection)
        else:
            connection.close()
