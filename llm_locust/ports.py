"""TCP ports of this machine: one to listen on for processes that are started, and whether one can be listened on."""

from __future__ import annotations

import errno
import socket

ALL_ADDRESSES = "*"
"""As Locust and ZeroMQ write it."""

_WHY = {
    errno.EADDRINUSE: "another process listens there",
    errno.EADDRNOTAVAIL: "this machine has no such address",
    errno.EACCES: "this user may not listen there",
}


def free_port() -> int:
    """A port of the loopback address that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def why_not_listen(host: str, port: int) -> str | None:
    """Why nothing can listen there, in words; ``None`` when something can, or when that cannot be told from here.

    Args:
        host: a name or an address; empty or ``*`` for all addresses of this machine.
        port: 0 stands for any port, which is always to be had.
    """
    name = None if host in ("", ALL_ADDRESSES) else host
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:  # ZeroMQ also takes names of network interfaces
        return None
    family, kind, protocol, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    try:
        with socket.socket(family, kind, protocol) as probe:
            # What ended a moment ago is no obstacle; whoever listens is one all the same.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except OSError as error:
        return _WHY.get(error.errno or 0)
    return None
