"""Hosts of their own, as network namespaces of this one: own addresses, own routes, own view of the run folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Host:
    """A namespace that is linked to this one by a line of its own."""

    name: str
    address: str
    ipv6: str
    gateway: str
    """This end of the line."""
    gateway_ipv6: str

    def command(self, *words: str, instead: tuple[Path, Path] | None = None) -> list[str]:
        """The command, to be run there.

        Args:
            words: the command.
            instead: a folder, and one that is found in its place there (``ip netns exec`` gives a view of the files that
                is this host's alone).
        """
        if instead is not None:
            place, other = map(str, instead)
            words = ("sh", "-c", 'mount --bind "$1" "$0" && shift && exec "$@"', place, other, *words)
        return ["ip", "netns", "exec", self.name, *words]


def why_not() -> str | None:
    """Why there can be no namespaces here; ``None`` where there can."""
    if shutil.which("ip") is None:
        return "there is no ip command"
    name = f"llm-locust-{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode != 0:
        return f"network namespaces cannot be made here (root can): {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return None


@contextlib.contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    """So many hosts while the block lasts, each with a line to this one and, through it, to the others."""
    found = [_host(number) for number in range(count)]
    try:
        for number, host in enumerate(found):
            _connect(host, f"llm{os.getpid() % 100_000}{'abcdefgh'[number]}")
        yield found
    finally:
        for host in found:
            subprocess.run(["ip", "netns", "del", host.name], capture_output=True)  # its end of the line goes with it


def _host(number: int) -> Host:
    subnet = os.getpid() * 8 % 248 + number  # a few test runs at once do not meet
    return Host(
        name=f"llm-locust-{os.getpid()}-{number}",
        address=f"10.213.{subnet}.2",
        ipv6=f"fd13:{subnet:x}::2",
        gateway=f"10.213.{subnet}.1",
        gateway_ipv6=f"fd13:{subnet:x}::1",
    )


def _connect(host: Host, line: str) -> None:
    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def there(*words: str) -> None:
        ip("-n", host.name, *words)

    ip("netns", "add", host.name)
    there("link", "set", "lo", "up")
    ip("link", "add", line, "type", "veth", "peer", "name", "uplink", "netns", host.name)
    for address, gateway, length in ((host.address, host.gateway, 24), (host.ipv6, host.gateway_ipv6, 64)):
        nodad = ["nodad"] if length == 64 else []  # else it is some seconds until an address can be used
        ip("addr", "add", f"{gateway}/{length}", "dev", line, *nodad)
        there("addr", "add", f"{address}/{length}", "dev", "uplink", *nodad)
    ip("link", "set", line, "up")
    there("link", "set", "uplink", "up")
    there("route", "add", "default", "via", host.gateway)
    there("-6", "route", "add", "default", "via", host.gateway_ipv6)
