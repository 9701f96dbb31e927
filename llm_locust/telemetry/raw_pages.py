"""The metrics pages of a run as they came: one gzip file for each address, one gzip member for each page.

So a page is whole or not there, ``zcat`` shows them all, and a process that is killed loses the page that it was writing. A
line before each page says when its first byte came::

    # llm-locust page at_ns=1700000000000000001 target=http://127.0.0.1:8000/metrics

A page of vLLM (57 kB) takes 7.5 kB: at one a second 27 MB an hour, for each address.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from llm_locust.records import UsageError

SUFFIX = ".txt.gz"

_LEVEL = 1
"""A tenth of a millisecond for a page of vLLM; zlib's own choice of level saves 16 % more and takes five times as long."""
_GZIP = 16 + zlib.MAX_WBITS
_HEAD = re.compile(rb"# llm-locust page at_ns=(\d+) target=(\S+)\n")


class RawPage(NamedTuple):
    """A page as it came."""

    at_ns: int
    """When its first byte came, Unix nanoseconds on the master's clock."""
    target: str
    body: bytes


class RawPages:
    """Appends the pages of one address.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by close()
        self._end = os.fstat(self._file.fileno()).st_size

    def append(self, page: RawPage) -> None:
        """Write it through to the file.

        Raises:
            OSError: the disk is full or gone; the file ends with the page before.
        """
        head = f"# llm-locust page at_ns={page.at_ns} target={page.target}\n".encode()
        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
        member = packer.compress(head + page.body) + packer.flush()
        left = memoryview(member)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError:
            os.truncate(self._file.fileno(), self._end)
            raise
        self._end += len(member)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_raw_pages(path: Path) -> Iterator[RawPage]:
    """The pages of one file, in order; a last one that was never finished is left out.

    Raises:
        UsageError: it cannot be read, or is no such file.
    """
    try:
        packed = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    while packed:
        unpacker = zlib.decompressobj(_GZIP)
        try:
            text = unpacker.decompress(packed)
        except zlib.error as error:
            raise UsageError(f"{path}: not a file of raw pages: {error}") from None
        if not unpacker.eof:
            return
        head = _HEAD.match(text)
        if head is None:
            raise UsageError(f"{path}: not a file of raw pages: a page without its head")
        yield RawPage(int(head[1]), head[2].decode(), text[head.end() :])
        packed = unpacker.unused_data


def file_names(targets: Sequence[str]) -> dict[str, str]:
    """A file name for each address: ``127.0.0.1-8000-metrics.txt.gz``."""
    names: dict[str, str] = {}
    for target in targets:
        plain = re.sub(r"[^A-Za-z0-9._]+", "-", target.partition("://")[2]).strip("-.")[:100] or "page"
        taken = set(names.values())
        tries = (f"{plain}{'' if k == 1 else f'-{k}'}{SUFFIX}" for k in range(1, len(targets) + 2))
        names[target] = next(name for name in tries if name not in taken)
    return names
