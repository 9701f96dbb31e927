"""What a client sees on the wire: bytes and how the connection ended, without any leniency."""

from __future__ import annotations

import csv
import json
import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import requests
from prometheus_client.parser import text_string_to_metric_families

SECONDS = 20.0
"""No wait in these tests is longer."""

Found = TypeVar("Found")


@dataclass
class Raw:
    """Everything that came on one connection."""

    data: bytes
    ended: str
    """``complete`` (as its framing says), ``eof`` or ``reset``."""
    reads: list[bytes]

    @property
    def status(self) -> int:
        return int(self.data.split(b" ", 2)[1])

    @property
    def body(self) -> bytes:
        """The body with chunks undone, as far as it came."""
        top, _, rest = self.data.partition(b"\r\n\r\n")
        if b"transfer-encoding: chunked" not in top:
            return rest
        body = b""
        while match := re.match(rb"([0-9a-f]+)\r\n", rest):
            size = int(match[1], 16)
            body += rest[match.end() : match.end() + size]
            rest = rest[match.end() + size + 2 :]
        return body

    @property
    def events(self) -> list[Any]:
        """The whole server-sent events, decoded where they are JSON."""
        whole = re.findall(rb"data: (.*)\n\n", self.body)
        return [event.decode() if event == b"[DONE]" else json.loads(event) for event in whole]


def connect(base_url: str) -> socket.socket:
    address = urlsplit(base_url)
    assert address.hostname is not None
    return socket.create_connection((address.hostname, address.port or 80), timeout=SECONDS)


def request_bytes(path: str, body: Any = None, headers: dict[str, str] | None = None, version: str = "1.1") -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/{version}", "host: x", f"content-length: {len(content)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode() + content


def read_response(sock: socket.socket, so_far: bytes = b"") -> Raw:
    """Read until the framing says that it is over, or the connection ends; ``so_far`` has been read already."""
    reads = [so_far] if so_far else []
    while True:
        data = b"".join(reads)
        top, gap, rest = data.partition(b"\r\n\r\n")
        if gap:
            length = re.search(rb"content-length: (\d+)", top)
            if length and len(rest) >= int(length[1]):
                return Raw(data, "complete", reads)
            if b"transfer-encoding: chunked" in top and rest.endswith(b"0\r\n\r\n"):
                return Raw(data, "complete", reads)
        try:
            piece = sock.recv(65_536)
        except ConnectionResetError:
            return Raw(data, "reset", reads)
        if not piece:
            return Raw(data, "eof", reads)
        reads.append(piece)


def ask(base_url: str, path: str, body: Any = None, headers: dict[str, str] | None = None, version: str = "1.1") -> Raw:
    """One request on a connection of its own."""
    with connect(base_url) as sock:
        sock.sendall(request_bytes(path, body, headers, version))
        return read_response(sock)


def chat(**more: Any) -> dict[str, Any]:
    """A streamed chat request of 6 prompt tokens: three of text, two for the message, one for the reply."""
    return {"model": "synthetic", "messages": [{"role": "user", "content": "Hello there!"}], "stream": True, **more}


def eventually(look: Callable[[], Found | None]) -> Found:
    """What ``look`` finds, as soon as it finds something."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError("it did not come about in time")


def truth(log_path: Path, request_id: str) -> dict[str, str]:
    """The row of one request in the server's log: it is written right after the last byte."""

    def look() -> dict[str, str] | None:
        with log_path.open(newline="") as file:
            return next((row for row in csv.DictReader(file) if row["request_id"] == request_id), None)

    return eventually(look)


def metrics(base_url: str) -> dict[str, float]:
    """The metrics page by sample name; labels other than model and engine follow the name."""
    page = requests.get(f"{base_url}/metrics", timeout=SECONDS).text
    found = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            rest = {k: v for k, v in sample.labels.items() if k not in ("model_name", "engine")}
            found[sample.name + "".join(f",{k}={v}" for k, v in sorted(rest.items()))] = sample.value
    return found
