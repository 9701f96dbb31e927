"""One page of the server: a bounded request over the very sockets, name resolution and TLS trust that the load uses.

A server that is ready for another client (another certificate store, a proxy from the environment) would not yet be ready
for the load.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import gevent
import msgspec

from llm_locust.records import Clock, Outcome, UsageError
from llm_locust.streaming.connection import Address, Connection, NoConnection, connect
from llm_locust.streaming.failed_reply import body_message
from llm_locust.streaming.framing import ResponseFraming
from llm_locust.streaming.proxy import Proxy
from llm_locust.streaming.receive_times import ReceiveTimes
from llm_locust.streaming.redaction import safe_line, secrets_in
from llm_locust.streaming.reply import Failure
from llm_locust.streaming.route import Route
from llm_locust.streaming.target import Target

MAX_PAGE_BYTES = 1024 * 1024
"""What a server says of itself is far shorter; of a longer page this much is read."""


class Page(NamedTuple):
    """An answer, whatever its status."""

    status: int
    server: str
    """The ``Server`` header, or the empty string."""
    body: bytes
    sent_ns: int = 0
    """When it was asked for, on the probe's clock: the connection stood by then."""
    first_ns: int = 0
    """When its first byte came: by the kernel's stamp where there is one."""
    last_ns: int = 0
    """... and its last."""
    cut: str | None = None
    """Why the body is not all of the page, when it is not."""
    date: str = ""
    """The ``Date`` header, or the empty string."""

    def json(self) -> dict[str, Any]:
        """The JSON object of a 200; an empty one for everything else."""
        if self.status != 200:
            return {}
        try:
            return msgspec.json.decode(self.body, type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return {}

    def message(self) -> str:
        """What an error page says: the message of a JSON error, the title of a web page, or the text itself."""
        return body_message(self.body)


class NoPage(Exception):
    """There was no answer; ``failure`` says why, in one line without secrets."""

    def __init__(self, failure: Failure, *, unknown_name: bool = False) -> None:
        super().__init__(failure.error)
        self.failure = failure
        self.unknown_name = unknown_name
        """The host's name has no address."""


class Probe:
    """Asks one server for pages, one at a time. Redirects are not followed.

    Args:
        base_url: as given for the load; a ``/v1`` at its end is left out, because health and version lie beside it.
        headers: sent with every page, as the key is.
        ca_file: PEM certificates to trust instead of the system's.
        insecure: do not verify the server's certificate.
        proxy: what the load goes through.
        clock: what the times of pages are on; ``None`` for one of its own.
        keep_alive: keep the connection for the next page; else each page takes one of its own.
        most_bytes: of a longer page no more is read.

    Raises:
        UsageError: a base URL that is none, a header with a line break, or a CA file that cannot be read.
    """

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str],
        *,
        ca_file: str | None = None,
        insecure: bool = False,
        proxy: Proxy | None = None,
        clock: Clock | None = None,
        keep_alive: bool = False,
        most_bytes: int = MAX_PAGE_BYTES,
    ) -> None:
        self.base_url = base_url.strip().rstrip("/").removesuffix("/v1")
        self.target = Target.parse(self.base_url)
        self._route = Route(self.target, proxy=proxy, ca_file=ca_file, insecure=insecure)
        for name, value in headers.items():
            if any(char in name + value for char in "\r\n\0"):
                raise UsageError(f"header {name!r}: neither name nor value may hold a line break: leave it out")
        lines = [f"Host: {self.target.authority}", "User-Agent: llm-locust", "Accept: application/json, */*"]
        lines += [f"{name}: {value}" for name, value in (*self._route.fields, *headers.items())]
        lines += ["Accept-Encoding: identity", f"Connection: {'keep-alive' if keep_alive else 'close'}"]
        self._head = "\r\n".join([*lines, ""]).encode()
        self._secrets = (*secrets_in(headers.items()), *self._route.secrets)
        self._times = ReceiveTimes(clock or Clock())
        self._keep_alive = keep_alive
        self._most_bytes = most_bytes
        self._kept: Connection | None = None

    def get(self, path: str, *, timeout_s: float) -> Page:
        """The page at ``path`` under the base URL, within ``timeout_s`` seconds from name to last byte.

        Raises:
            NoPage: the name is unknown, nobody listens, TLS failed, time ran out, or the answer is not HTTP.
        """
        return self._ask(
            f"GET {self._route.request_target(path)} HTTP/1.1\r\n".encode() + self._head + b"\r\n", timeout_s
        )

    def post(self, path: str, body: object, *, timeout_s: float) -> Page:
        """The answer to ``body`` as JSON; otherwise as :meth:`get`."""
        content = msgspec.json.encode(body)
        fields = f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        line = f"POST {self._route.request_target(path)} HTTP/1.1\r\n"
        return self._ask(line.encode() + self._head + fields.encode() + content, timeout_s)

    def close(self) -> None:
        """Close the connection that was kept, if there is one."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _ask(self, request: bytes, timeout_s: float) -> Page:
        limit = gevent.Timeout.start_new(timeout_s)
        connection, self._kept = self._kept, None
        missing = "answer"
        try:
            if connection is not None:
                try:
                    return self._exchange(connection, request)
                except (OSError, NoPage):  # gone while it was idle: the request goes out once more, on a new one
                    connection.close()
            missing = "connection"
            to = "" if self._route.proxy is None else " to the proxy"
            connection = connect(self._addresses(), self._times, timeout_s=timeout_s, to=to)
            missing = "tunnel through the proxy"
            self._route.dig(connection, timeout_s=timeout_s)
            missing = "TLS handshake"
            self._route.secure(connection, timeout_s=timeout_s)
            missing = "answer"
            return self._exchange(connection, request)
        except gevent.Timeout as expired:
            if expired is not limit:
                raise
            outcome = Outcome.TIMEOUT if missing == "answer" else Outcome.CONNECT_ERROR
            raise NoPage(Failure(outcome, f"no {missing} within {timeout_s:g} s")) from None
        except NoConnection as none:
            raise NoPage(none.failure) from None
        except OSError as error:
            text = f"the connection broke: {error.strerror or error}"
            raise NoPage(Failure(Outcome.CONNECTION_LOST, text)) from None
        finally:
            limit.close()
            if connection is not None and connection is not self._kept:
                connection.close()

    def _exchange(self, connection: Connection, request: bytes) -> Page:
        sent_ns = self._times.now().t_ns
        connection.send(request)
        framing, body = ResponseFraming(), bytearray()
        first_ns = last_ns = 0
        while not framing.done and framing.error is None and len(body) <= self._most_bytes:
            data, time = connection.receive()
            if not data:
                framing.close()
                break
            first_ns, last_ns = first_ns or time.t_ns, time.t_ns
            body += framing.feed(data)
        if framing.error is not None:
            raise NoPage(Failure(Outcome.PROTOCOL_ERROR, framing.error))
        if framing.head is None:
            raise NoPage(Failure(Outcome.CONNECTION_LOST, "the connection was closed without an answer"))
        cut = None
        if len(body) > self._most_bytes:
            cut = f"the page is longer than {self._most_bytes:,} bytes"
        elif framing.truncated:
            cut = "the connection was closed before the page had ended"
        if self._keep_alive and framing.reusable:
            self._kept = connection
        head = framing.head
        return Page(head.status, head.get("server"), bytes(body), sent_ns, first_ns, last_ns, cut, head.get("date"))

    def safe(self, text: str) -> str:
        """``text`` as one bounded line with the secrets of the headers masked."""
        return safe_line(text, self._secrets)

    def _addresses(self) -> list[Address]:
        try:
            return self._route.look_up()
        except OSError as error:
            text = f"cannot resolve {self._route.first_hop}: {error.strerror or error}"
            raise NoPage(Failure(Outcome.GENERATOR_ERROR, text), unknown_name=True) from None
