"""What this machine has run out of, in words that say what to do: the server has no part in it."""

from __future__ import annotations

import contextlib
import errno
import resource
import socket
from pathlib import Path

_PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def out_of_resources(error: OSError) -> str | None:
    """What a call that asks for a descriptor could not get; ``None`` when it failed for another reason."""
    if error.errno == errno.EMFILE:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return (
            f"out of file descriptors: this process may have {soft} open; raise the limit (ulimit -n), or share the "
            "requests among more workers"
        )
    if error.errno == errno.ENFILE:
        return (
            "out of file descriptors: this machine has as many open as it may; raise fs.file-max, or use workers on more "
            "machines"
        )
    if error.errno in (errno.ENOBUFS, errno.ENOMEM):
        return f"out of memory for sockets: {error.strerror}; use workers on more machines, or fewer requests at once"
    return None


def has_family(family: int) -> bool:
    """Whether this machine speaks IPv6, if that is asked. Where it does not, connecting fails as it does without a port."""
    if family != socket.AF_INET6:
        return True
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as one:
            one.bind(("::1", 0))
    except OSError:
        return False
    return True


def out_of_ports(text: str) -> str:
    """No local port is left for one more connection to the same server; ``text`` says to which addresses."""
    span = ""
    with contextlib.suppress(OSError, ValueError):
        first, last = _PORT_RANGE.read_text().split()
        span = f" (now {first}-{last})"
    return f"out of local ports: widen net.ipv4.ip_local_port_range{span}, or use workers on more machines; {text}"
