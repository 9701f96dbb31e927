"""The bytes of a trace file as blocks of whole lines, hashed on the way: a file of any size in a few megabytes.

Line ends may be LF or CRLF, the last one may be missing, a byte-order mark is dropped.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

from llm_locust.records import UsageError

BLOCK_BYTES = 1 << 20
"""Read at once; the arrays made of it on the way stay in the processor's cache."""

LONGEST_LINE = 64 << 20
"""Bytes. A longer "line" is a file of another kind, and would be held whole."""

SHOWN = 60
"""Characters of a wrong value that a message shows."""

_BOM = b"\xef\xbb\xbf"

_PACKED = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
}


def shown(value: str | bytes) -> str:
    """A wrong value as a message shows it: quoted, on one line, cut."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return repr(text if len(text) <= SHOWN else text[: SHOWN - 3] + "...")


@dataclass(frozen=True)
class Block:
    """Some whole lines, each ended by a newline (the last of a file has one here even where the file has none)."""

    data: bytes
    first_line: int
    """The number of its first line, from 1."""
    offset: int
    """Where it begins in the file, in bytes."""


class TraceFile:
    """A trace file being read, once, from front to back."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the file and read its first block.

        Raises:
            UsageError: it is not there, is a directory or empty, is packed, or cannot be read.
        """
        self.path = os.fspath(path)
        self.looks_like: str | None = None
        """The format that the first line is of, where it is not the one asked for."""
        self._digest = hashlib.sha256()
        try:
            self._file = open(self.path, "rb", buffering=0)  # noqa: SIM115 - closed when it has been read
        except IsADirectoryError:
            raise UsageError(f"{self.path} is a directory: name the trace file in it") from None
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be read: {error.strerror}") from None
        status = os.fstat(self._file.fileno())
        self.version = (status.st_size, status.st_mtime_ns)
        """Size and time of change, by which a later reader knows that it is still the same file."""
        try:
            self._start = self._read()
            for magic, name in _PACKED.items():
                if self._start.startswith(magic):
                    raise UsageError(f"{self.path} is packed ({name}): unpack it first")
            if not self._start.removeprefix(_BOM).strip():
                raise UsageError(f"{self.path} is empty: give a file with rows")
        except UsageError:
            self._file.close()
            raise
        self.first_line = self._start.removeprefix(_BOM).lstrip().split(b"\n", 1)[0].rstrip()
        """The first line that is not blank, without its end; cut when it is longer than a block."""

    @property
    def sha256(self) -> str:
        """Of all bytes read so far: of the file, once it has been read."""
        return self._digest.hexdigest()

    def bad(self, line: int, what: str) -> UsageError:
        """The error of a bad line: file, line, what is wrong."""
        return UsageError(f"{self.path}:{line}: {what}")

    def wrong_format(self, line: int, what: str) -> UsageError:
        """The error of a line that does not have the form of the format; it names the format that it looks like."""
        hint = f"; it looks like --format {self.looks_like}" if self.looks_like else ""
        return self.bad(line, what + hint)

    def close(self) -> None:
        """Close the file, read or not."""
        self._file.close()

    def blocks(self) -> Iterator[Block]:
        """The file in blocks of whole lines.

        Raises:
            UsageError: it is not UTF-8, or a line is too long to be one.
        """
        with self._file:
            line, offset = 1, 0
            chunk, held = self._start, b""
            self._start = b""
            if chunk.startswith(_BOM):
                chunk, offset = chunk[len(_BOM) :], len(_BOM)
            while chunk:
                end = chunk.rfind(b"\n") + 1
                if end:
                    block = self._block(held + chunk[:end], line, offset)
                    yield block
                    line += block.data.count(b"\n")
                    offset += len(block.data)
                    held = chunk[end:]
                else:
                    held += chunk
                    if len(held) > LONGEST_LINE:
                        raise self.bad(line, f"longer than {LONGEST_LINE >> 20} MiB: this is not a text file of lines")
                chunk = self._read()
            if held:
                yield self._block(held + b"\n", line, offset)

    def _read(self) -> bytes:
        try:
            chunk = self._file.read(BLOCK_BYTES)
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be read: {error.strerror}") from None
        self._digest.update(chunk)
        return chunk

    def _block(self, data: bytes, line: int, offset: int) -> Block:
        if not data.isascii():
            try:
                data.decode("utf-8")
            except UnicodeDecodeError as error:
                raise self.bad(line + data.count(b"\n", 0, error.start), "not UTF-8 text") from None
        return Block(data, line, offset)
