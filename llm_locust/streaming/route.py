"""The way to a server: directly or by a proxy, in the clear or under TLS. Load and probes take the same."""

from __future__ import annotations

import socket

from gevent import socket as gevent_socket

from llm_locust.records import Outcome
from llm_locust.streaming.connection import Address, Connection, NoConnection, tls_failure, within
from llm_locust.streaming.proxy import Proxy
from llm_locust.streaming.redaction import secrets_in
from llm_locust.streaming.target import Target
from llm_locust.streaming.tls import tls_context


class Route:
    """How one server is reached.

    A request for ``http://`` goes to the proxy with its whole URL; for ``https://`` the proxy is asked for a tunnel, and TLS
    is spoken with the server itself, by its own name.

    Args:
        target: the server.
        proxy: what stands between; ``None`` for nothing.
        ca_file: PEM certificates to trust instead of the system's.
        insecure: do not verify the server's certificate.

    Raises:
        UsageError: the file cannot be read, or holds no certificate.
    """

    def __init__(
        self, target: Target, *, proxy: Proxy | None = None, ca_file: str | None = None, insecure: bool = False
    ) -> None:
        self.target = target
        self.proxy = proxy
        self.fields: list[tuple[str, str]] = proxy.fields if proxy is not None and not target.tls else []
        """Request headers that the way asks for."""
        self.secrets: tuple[str, ...] = secrets_in(proxy.fields) if proxy is not None else ()
        """What must not be repeated of it."""
        self._tls = tls_context(ca_file, insecure) if target.tls else None

    @property
    def first_hop(self) -> str:
        """Whom TCP connects to, in words."""
        return self.target.host if self.proxy is None else f"the proxy {self.proxy.host}"

    def look_up(self) -> list[Address]:
        """The addresses that TCP connects to, in the order in which they are to be tried.

        Raises:
            OSError: the name has none.
        """
        hop = self.target if self.proxy is None else self.proxy
        try:
            found = gevent_socket.getaddrinfo(hop.host, hop.port, 0, socket.SOCK_STREAM)
        except UnicodeError:  # a label that is empty or too long for DNS
            raise OSError("not a host name") from None
        return list(dict.fromkeys(Address(family, sockaddr) for family, _, _, _, sockaddr in found))

    def request_target(self, path: str) -> str:
        """What a request line says for ``path`` under the base URL."""
        there = self.target.path(path)
        through = self.proxy is not None and not self.target.tls
        return f"{self.target.scheme}://{self.target.authority}{there}" if through else there

    def dig(self, connection: Connection, *, timeout_s: float) -> None:
        """Have the proxy open the tunnel, where there is to be one.

        Raises:
            NoConnection: it does not.
        """
        if self.proxy is None or not self.target.tls:
            return
        try:
            with within(timeout_s, f"the proxy {self.proxy.authority} gave no answer within {timeout_s:g} s"):
                self.proxy.open_tunnel(connection, self.target.full_authority)
        except OSError as error:
            text = f"the proxy {self.proxy.authority} broke the connection: {error.strerror or error}"
            raise NoConnection(Outcome.CONNECT_ERROR, text) from None

    def secure(self, connection: Connection, *, timeout_s: float) -> None:
        """The TLS handshake, where the server wants one.

        Raises:
            NoConnection: it failed.
        """
        if self._tls is None:
            return
        try:
            with within(timeout_s, f"no TLS handshake within {timeout_s:g} s"):
                connection.start_tls(self._tls, self.target.name)
        except OSError as error:
            raise tls_failure(error) from None
