"""Where requests go: a base URL taken apart, and the paths under it."""

from __future__ import annotations

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
    def parse(base_url: str) -> Target:
        """``http://host:8000``, ``https://host/prefix``, ``http://[::1]:8000/v1``.

        Raises:
            UsageError: no http(s) URL, credentials in it, or a query; the message never repeats the credentials.
        """
        shown = base_url.rpartition("@")[2] if "@" in base_url else base_url
        try:
            parts = urlsplit(base_url.strip())
            port = parts.port
        except ValueError as error:
            raise UsageError(f"base URL {shown!r}: {error}; write it like http://127.0.0.1:8000") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"base URL {shown!r}: write it with a scheme and a host, like http://127.0.0.1:8000")
        if "@" in parts.netloc:
            raise UsageError(
                f"base URL with credentials before {shown!r}: they would end up in the files of the run; "
                "give the key in the environment or in a header that names an environment variable"
            )
        if parts.query or parts.fragment:
            raise UsageError(f"base URL {shown!r}: leave out what follows the path ({parts.query or parts.fragment!r})")
        if port == 0:
            raise UsageError(f"base URL {shown!r}: port 0 cannot be connected to")
        tls = parts.scheme == "https"
        host = unquote(parts.hostname)
        try:
            host = host if host.isascii() else host.encode("idna").decode("ascii")
        except UnicodeError:
            raise UsageError(f"base URL {shown!r}: {host!r} is no host name") from None
        if any(char.isspace() or not char.isprintable() for char in host):
            raise UsageError(f"base URL {shown!r}: {host!r} is no host name")
        return Target(tls, host, port or (443 if tls else 80), parts.path.rstrip("/"))

    @property
    def authority(self) -> str:
        """The value of the ``Host`` header: brackets for IPv6, no zone, no default port."""
        host = self.host.partition("%")[0]
        host = f"[{host}]" if ":" in host else host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    def path(self, path: str) -> str:
        """The request target for ``path``; a segment that ends the prefix and starts the path (``/v1``) is not doubled."""
        path = path if path.startswith("/") else f"/{path}"
        last = self.prefix.rpartition("/")[2]
        prefix = self.prefix
        if last and (path == f"/{last}" or path.startswith((f"/{last}/", f"/{last}?"))):
            prefix = prefix[: -len(last) - 1]
        return quote(prefix + path, safe="/?&=:@!$'()*+,;~%-._")
