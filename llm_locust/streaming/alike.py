"""The shortcut through a stream: reads that are alike but for one string.

Nearly every read of a stream is one chunk that holds one event that differs from the event before it in its text alone.
Once such a read was taken apart the long way (HTTP framing, event boundary and fields, JSON, dialect), the bytes on both
sides of its text are known. A later read that has the same bytes around one JSON string, under a chunk size that fits, is
then the same event with that string for text, and takes a tenth of the time. Whatever does not fit goes the long way.

Why that is sound: the place of the text was found by putting a marker there and reading the event again, so it is a JSON
string that becomes the text and nothing else; one JSON string in place of another leaves the rest of the document as it was;
no JSON string holds a line break, so the event ends where it ended; and a parser that stands between two chunks stands
there again after a whole chunk. Property tests hold the shortcut equal to the long way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from llm_locust.streaming.dialects import Delta, Dialect, WrongDialect
from llm_locust.streaming.events import Event

_MARKER = "the one string that differs 7f3a"
_LAST_BYTES = b"\r\n"
_MAX_EVENT_BYTES = 4096
"""Longer reads are rare, and cost little more the long way for each of their bytes."""
_MAX_SIZE_DIGITS = 4
_SIZE_FORMATS = ("%x", "%X")
"""How servers write the size of a chunk."""

_decode_string = msgspec.json.Decoder(str).decode


class AlikeReads:
    """Reads of one whole chunk with one whole event that holds nothing but one piece of text, or of reasoning."""

    def __init__(self, field: Literal["text", "reasoning"], size_format: str, before: bytes, after: bytes) -> None:
        self.field: Literal["text", "reasoning"] = field
        """What the string is."""
        self.taken = 0
        """Reads that took the shortcut."""
        self._size_format = size_format
        self._before = before
        self._after = after + _LAST_BYTES
        self._heads: dict[int, bytes] = {}

    def strings(self, reads: Sequence[bytes], start: int) -> list[str]:
        """The strings of the reads from ``start`` on, up to the first read that is not alike or whose string is empty."""
        found: list[str] = []
        for position in range(start, len(reads)):
            string = self._string(reads[position])
            if not string:
                break
            found.append(string)
        self.taken += len(found)
        return found

    def strings_of_many(self, read: bytes) -> list[str]:
        """The strings of a read that is several whole chunks, each alike; none of them if one is not.

        A client that has fallen behind finds many events in each read: it must not fall behind further over them.
        """
        found: list[str] = []
        position = 0
        while position < len(read):
            size_end = read.find(b"\r\n", position, position + _MAX_SIZE_DIGITS + 2)
            try:
                end = size_end + int(read[position:size_end], 16) + 2 * len(_LAST_BYTES)
            except ValueError:
                return []
            string = self._string(read[position:end])
            if not string:
                return []
            found.append(string)
            position = end
        self.taken += 1
        return found

    def _string(self, read: bytes) -> str:
        """The string of one chunk, or the empty string if the chunk is not alike."""
        head = self._heads.get(len(read)) or self._head(len(read))
        if not (read.startswith(head) and read.endswith(self._after)):
            return ""
        try:
            return _decode_string(read[len(head) - 1 : 1 - len(self._after)])
        except msgspec.DecodeError:
            return ""

    def _head(self, length: int) -> bytes:
        """What a read of this length begins with: the size of its chunk, then the event up to the opening quote."""
        for digits in range(1, _MAX_SIZE_DIGITS + 1):
            size = self._size_format % max(length - digits - 2 * len(_LAST_BYTES), 0)
            if len(size) == digits and length <= _MAX_EVENT_BYTES:
                break
        else:
            return b"\0"  # begins no chunk
        head = self._heads[length] = size.encode() + b"\r\n" + self._before
        return head


def learn(read: bytes, event: Event, delta: Delta, dialect: Dialect) -> AlikeReads | None:
    """What reads like this one have in common, if it is one chunk with one event of nothing but text or reasoning."""
    string = delta.text or delta.reasoning
    if not string or not string.isprintable() or '"' in string or "\\" in string:
        return None
    around = _around(read, event, dialect)
    if around is None:
        return None
    field: Literal["text", "reasoning"] = "text" if delta.text else "reasoning"
    if delta != _only(field, string):  # so would the marked one be, but that costs another reading
        return None
    size_format, line_start, line_end = around
    quoted = b'"' + string.encode() + b'"'
    place = event.data.rfind(quoted)
    if place < 0:  # written with escapes
        return None
    before, after = event.data[: place + 1], event.data[place + len(quoted) - 1 :]
    try:
        marked = dialect.read_event(Event(event.name, before + _MARKER.encode() + after))
    except WrongDialect:
        return None
    if marked != _only(field, _MARKER):
        return None
    return AlikeReads(field, size_format, line_start + before, after + line_end)


def _only(field: str, string: str) -> Delta:
    return Delta(text=string) if field == "text" else Delta(reasoning=string)


def _around(read: bytes, event: Event, dialect: Dialect) -> tuple[str, bytes, bytes] | None:
    """How the chunk's size is written and what stands before and after the event's data; ``None`` if it is not alone."""
    size, line_break, rest = read.partition(b"\r\n")
    if not line_break or not rest.endswith(_LAST_BYTES):
        return None
    body = rest.removesuffix(_LAST_BYTES)
    formats = [form for form in _SIZE_FORMATS if (form % len(body)).encode() == size]
    line_start, _, line_end = body.partition(event.data)
    if not formats or (line_start, line_end) not in dialect.events.alone:
        return None
    return formats[0], line_start, line_end
