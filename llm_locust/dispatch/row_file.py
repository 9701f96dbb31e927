"""A CSV file that grows by whole rows, even on a disk that is full."""

from __future__ import annotations

import os
from pathlib import Path

RESERVE_BYTES = 2_000_000
"""Set aside beside the rows while all is well, and given up when the disk is full: what was in flight then still fits."""


class RowFile:
    """Appends lines; after a failed write the file ends with the last whole one, and what did not fit is tried again."""

    def __init__(self, path: Path, header: str) -> None:
        """Open or create the file.

        Raises:
            OSError: it cannot be written.
        """
        self.path = path
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by close()
        self._end = os.fstat(self._file.fileno()).st_size
        self._waiting = b"" if self._end else header.encode()
        self._reserve = path.with_name(path.name + ".reserve")
        self.append("")
        self._set_aside()

    def append(self, lines: str) -> None:
        """Write the lines, and any that did not fit before, through to the file.

        Raises:
            OSError: the disk is full or gone; nothing is lost, the next call tries again.
        """
        self._waiting += lines.encode()
        if not self._waiting:
            return
        try:
            self._write()
        except OSError:
            if not self._reserve.exists():
                raise
            self._reserve.unlink()
            self._write()
            raise  # the rows are safe, but whoever writes must know that the disk is full

    def close(self) -> None:
        """Give the reserve back and close the file."""
        try:
            self.append("")
        except OSError:
            pass
        finally:
            self._reserve.unlink(missing_ok=True)
            self._file.close()

    def _write(self) -> None:
        data = memoryview(self._waiting)
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError:
            os.truncate(self._file.fileno(), self._end)
            raise
        self._end += len(self._waiting)
        self._waiting = b""

    def _set_aside(self) -> None:
        try:
            with open(self._reserve, "wb") as reserve:
                os.posix_fallocate(reserve.fileno(), 0, RESERVE_BYTES)
        except (OSError, AttributeError):
            self._reserve.unlink(missing_ok=True)
