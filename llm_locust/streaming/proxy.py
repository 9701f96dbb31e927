"""A forward proxy: its address as a person gives it, and what it says when it is asked for a tunnel.

A proxy is used when it was asked for by option, never because of a variable like ``HTTPS_PROXY``: a load that quietly went
through one would measure it.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from llm_locust.records import Outcome, UsageError
from llm_locust.records.run import PROXY_AUTH_VARIABLE
from llm_locust.streaming.basic import encode_basic
from llm_locust.streaming.connection import Connection, NoConnection
from llm_locust.streaming.failed_reply import MAX_ERROR_BODY_BYTES, no_tunnel
from llm_locust.streaming.framing import ResponseFraming
from llm_locust.streaming.target import Target


class Proxy(msgspec.Struct, frozen=True):
    """An HTTP proxy, spoken to without TLS."""

    host: str
    """A name or an address, without the brackets of IPv6."""
    port: int
    credentials: str | None = None
    """``user:password``, when it asks for them."""

    @staticmethod
    def parse(url: str, credentials: str | None = None) -> Proxy:
        """``http://host:port``.

        Raises:
            UsageError: another kind of proxy, no port, a path, or credentials in the URL, which are not repeated.
        """
        if "@" in url:
            raise UsageError(
                "--proxy holds a user name or password: they would end up in the files of the run; leave them out and put "
                f"user:password into the environment variable {PROXY_AUTH_VARIABLE}"
            )
        if not url.lower().startswith("http://"):
            raise UsageError(
                f"--proxy {url!r}: write it like http://proxy:3128; HTTP proxies are used, spoken to without TLS"
            )
        target = Target.parse(url, called="--proxy")
        if target.prefix or urlsplit(url).port is None:
            raise UsageError(f"--proxy {url!r}: write it with its port and nothing behind that, like http://proxy:3128")
        return Proxy(target.host, target.port, credentials)

    def __repr__(self) -> str:
        return f"Proxy({self.url})"  # a traceback or a log gets no credentials

    @property
    def authority(self) -> str:
        """Host and port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """As it is written down: without credentials."""
        return f"http://{self.authority}"

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The request headers that are meant for it, and nobody beyond it."""
        return [("Proxy-Authorization", encode_basic(self.credentials))] if self.credentials is not None else []

    def open_tunnel(self, connection: Connection, authority: str) -> None:
        """Have it connect to ``authority`` (host and port); what is sent afterwards goes there.

        Raises:
            NoConnection: it refuses, or what it answers is no answer to that.
            OSError: the connection to it broke.
        """
        fields = [("Host", authority), ("User-Agent", "llm-locust"), *self.fields]
        lines = [f"CONNECT {authority} HTTP/1.1", *(f"{name}: {value}" for name, value in fields)]
        connection.send("\r\n".join(lines).encode() + b"\r\n\r\n")
        words = _refusal(connection)
        if words is not None:
            text = f"the proxy {self.authority} opens no tunnel to {authority}: {words}"
            raise NoConnection(Outcome.CONNECT_ERROR, text)


def _refusal(connection: Connection) -> str | None:
    """Read the proxy's answer; ``None`` when the tunnel is there."""
    framing, body = ResponseFraming(), bytearray()
    while not framing.done and framing.error is None and len(body) < MAX_ERROR_BODY_BYTES:
        data, _ = connection.receive()
        if not data:
            break
        body += framing.feed(data)
        if framing.head is not None and 200 <= framing.head.status < 300:  # it has no body, whatever its headers say
            return "its answer is followed by something that nobody asked for" if body else None
    if framing.head is None:
        return framing.error or "it closed the connection without an answer"
    return no_tunnel(framing.head, bytes(body))
