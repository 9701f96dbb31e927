"""Event boundaries and fields: body bytes in, whole events out, for server-sent events and for lines of JSON.

Boundaries are found here, because they are what is timed: an event belongs to the read that completed it, at its first
possible byte (a CR that ends a blank line need not wait for an LF). Fields are read by ``sseclient-py``, which is only ever
handed one whole event with canonical line ends; left alone with a stream, its 1.9 merges events that end in ``\\n\\r\\n``,
loses the first event after a byte-order mark and dispatches an unfinished tail. The common event of one ``data:`` line
takes a shortcut that a property test holds equal to it.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Protocol

import sseclient

BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One whole event. ``data`` is valid UTF-8: broken sequences are replaced, as the WHATWG standard has it."""

    name: str
    data: bytes


class EventDecoder(Protocol):
    """Cuts a body into events."""

    alone: ClassVar[frozenset[tuple[bytes, bytes]]]
    """What may stand before and after the data of a plain event that is a body's piece by itself."""

    @property
    def idle(self) -> bool:
        """An event has just ended and nothing came after it: another whole event would change nothing."""

    def feed(self, data: bytes) -> list[Event]:
        """The events that ``data`` completed, in order."""

    @property
    def tail(self) -> bytes:
        """What was received since the last whole event."""


class SseEvents:
    """Server-sent events: lines end in LF, CRLF or CR, in any mix; a blank line ends an event.

    A byte-order mark at the start is dropped. Comments and blocks without a data field are no events. A block that no
    blank line has ended stays in ``tail`` and is never dispatched.
    """

    alone: ClassVar = frozenset((start, end) for start in (b"data: ", b"data:") for end in (b"\n\n", b"\r\n\r\n"))

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._after_cr = False
        self._mark: bytes | None = b""
        """The first bytes, while they may still turn out to be a byte-order mark."""

    @property
    def idle(self) -> bool:
        """An event has just ended and nothing came after it."""
        return not self._buffer and not self._after_cr and self._mark is None

    @property
    def tail(self) -> bytes:
        """The unfinished block, line ends canonical."""
        return (self._mark or b"") + bytes(self._buffer).lstrip(b"\n")

    def feed(self, data: bytes) -> list[Event]:
        """The events that ``data`` completed, in order."""
        if self._mark is not None:
            data = self._mark + data
            if len(data) < len(BOM) and BOM.startswith(data):
                self._mark = data
                return []
            self._mark = None
            data = data.removeprefix(BOM)
        if not data:
            return []
        if self._after_cr and data[0] == 0x0A:
            data = data[1:]  # the second half of a CRLF whose CR has already ended the line
            self._after_cr = False
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        elif data:
            self._after_cr = False

        buffer = self._buffer
        search_from = max(0, len(buffer) - 1)
        buffer += data
        end = buffer.find(b"\n\n", search_from)
        if end < 0:
            return []
        events: list[Event] = []
        start = 0
        while end >= 0:
            event = parse_event(bytes(buffer[start:end]))
            if event is not None:
                events.append(event)
            start = end + 2
            end = buffer.find(b"\n\n", start)
        del buffer[:start]
        return events


class JsonLines:
    """Newline-delimited JSON: every line that is not blank is an event."""

    alone: ClassVar = frozenset({(b"", b"\n"), (b"", b"\r\n")})

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._at_start = True

    @property
    def idle(self) -> bool:
        """A line has just ended and nothing came after it."""
        return not self._buffer and not self._at_start

    @property
    def tail(self) -> bytes:
        """The line that no newline has ended."""
        return self._trim(bytes(self._buffer))

    def feed(self, data: bytes) -> list[Event]:
        """The lines that ``data`` completed, in order."""
        search_from = len(self._buffer)
        self._buffer += data
        end = self._buffer.rfind(b"\n", search_from)
        if end < 0:
            return []
        lines = bytes(self._buffer[:end]).split(b"\n")
        del self._buffer[: end + 1]
        lines[0] = self._trim(lines[0])
        self._at_start = False
        return [Event("message", valid_utf8(line)) for line in map(bytes.strip, lines) if line]

    def _trim(self, line: bytes) -> bytes:
        return (line.removeprefix(BOM) if self._at_start else line).strip()


def parse_event(block: bytes) -> Event | None:
    """The fields of one block of lines (LF line ends, without the closing blank line), or ``None`` if it is no event."""
    block = block.lstrip(b"\n")
    if block.startswith(b"data:") and b"\n" not in block:
        return Event("message", valid_utf8(block[6:] if block[5:6] == b" " else block[5:]))
    return parse_fields(block)


def parse_fields(block: bytes) -> Event | None:
    """As :func:`parse_event`, always through ``sseclient``."""
    for event in sseclient.SSEClient(iter([valid_utf8(block) + b"\n\n"])).events():
        return Event(event.event, event.data.encode())
    return None


def valid_utf8(data: bytes) -> bytes:
    """``data`` with every broken UTF-8 sequence replaced by U+FFFD."""
    if data.isascii():
        return data
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace").encode()
    return data
