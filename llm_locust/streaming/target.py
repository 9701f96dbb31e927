"""Where requests go: a base URL taken apart, and the paths under it."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote, urlsplit

import msgspec

from llm_locust.records import UsageError


class Target(msgspec.Struct, frozen=True):
    """The server behind a base URL."""

    tls: bool
    host: str
    """A name or an address, without the brackets of IPv6."""
    port: int
    prefix: str
    """The path of the base URL, without a slash at its end."""

    @staticmethod
    def parse(base_url: str, *, called: str = "base URL") -> Target:
        """``http://host:8000``, ``https://host/prefix``, ``http://[::1]:8000/v1``.

        Raises:
            UsageError: no http(s) URL, credentials in it, or a query; the message, which calls the URL ``called``, repeats
                neither credentials nor query, where keys are found too.
        """
        shown = re.split(r"[?#]", base_url.rpartition("@")[2], maxsplit=1)[0]
        try:
            parts = urlsplit(base_url.strip())
            port = parts.port
        except ValueError as error:
            raise UsageError(f"{called} {shown!r}: {error}; write it like http://127.0.0.1:8000") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{called} {shown!r}: write it with a scheme and a host, like http://127.0.0.1:8000")
        if "@" in parts.netloc:
            raise UsageError(
                f"{called} with credentials before {shown!r}: they would end up in the files of the run; "
                "give the key in the environment or in a header that names an environment variable"
            )
        if parts.query or parts.fragment:
            raise UsageError(
                f"{called} {shown!r}: leave out what follows the path (after ? or #); a query that every request needs "
                "belongs into the path of the user class"
            )
        if port == 0:
            raise UsageError(f"{called} {shown!r}: port 0 cannot be connected to")
        tls = parts.scheme == "https"
        host = unquote(parts.hostname)
        try:
            host = host if host.isascii() else host.encode("idna").decode("ascii")
        except UnicodeError:
            raise UsageError(
                f"{called} {shown!r}: {host!r} is no host name; write it like http://127.0.0.1:8000"
            ) from None
        if any(char.isspace() or not char.isprintable() for char in host):
            raise UsageError(f"{called} {shown!r}: {host!r} is no host name; write it like http://127.0.0.1:8000")
        return Target(tls, host, port or (443 if tls else 80), parts.path.rstrip("/"))

    @property
    def scheme(self) -> str:
        """``http`` or ``https``."""
        return "https" if self.tls else "http"

    @property
    def name(self) -> str:
        """The host as a peer may know it: a zone (``%eth0``) means something on this machine only."""
        return self.host.partition("%")[0]

    @property
    def authority(self) -> str:
        """The value of the ``Host`` header: brackets for IPv6, no zone, no default port."""
        full = self.full_authority
        return full.removesuffix(":443" if self.tls else ":80")

    @property
    def full_authority(self) -> str:
        """As :attr:`authority`, always with the port."""
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"

    def path(self, path: str) -> str:
        """The request target for ``path``; a segment that ends the prefix and starts the path (``/v1``) is not doubled."""
        path = path if path.startswith("/") else f"/{path}"
        last = self.prefix.rpartition("/")[2]
        prefix = self.prefix
        if last and (path == f"/{last}" or path.startswith((f"/{last}/", f"/{last}?"))):
            prefix = prefix[: -len(last) - 1]
        return quote(prefix + path, safe="/?&=:@!$'()*+,;~%-._")
