"""The requests in a JSONL log, read from the file by row number: a log of any size, and one request of it in memory."""

from __future__ import annotations

import os
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from llm_locust.records import UsageError


class LoggedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One line of one's own log. Other keys are left alone."""

    timestamp: msgspec.Raw
    """Seconds as a number, or an ISO 8601 date and time as text."""
    messages: list[dict[str, Any]] | None = None
    prompt: str | None = None
    """Either this or ``messages``."""
    max_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    session: str | int | None = None
    slice: str | None = None
    prefix_group: str | None = None
    id: str | int | None = None


DECODER = msgspec.json.Decoder(LoggedRequest)


class LogLines:
    """Where each row's line is in the file. The file is opened when first asked, and stays open."""

    def __init__(
        self,
        path: str,
        version: tuple[int, int],
        offset: npt.NDArray[np.int64],
        length: npt.NDArray[np.int32],
    ) -> None:
        """Remember the places.

        Args:
            version: Size and time of change of the file that the places are in.
            offset: Bytes, per row.
            length: Bytes, per row.
        """
        self._path = path
        self._version = version
        self.offset = offset
        self.length = length
        self._descriptor: int | None = None

    def request(self, row: int) -> LoggedRequest:
        """The request of a row.

        Raises:
            UsageError: the file is gone, or was changed since the trace was read.
        """
        if self._descriptor is None:
            self._descriptor = self._open()
        # A read at a place of its own: forked processes share the file's position.
        raw = os.pread(self._descriptor, int(self.length[row]), int(self.offset[row]))
        return DECODER.decode(raw)

    def close(self) -> None:
        """Close the file; it is opened again when asked."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.close()

    def _open(self) -> int:
        try:
            descriptor = os.open(self._path, os.O_RDONLY)
        except OSError as error:
            raise UsageError(f"{self._path}: cannot be read again: {error.strerror}") from None
        status = os.fstat(descriptor)
        if (status.st_size, status.st_mtime_ns) != self._version:
            os.close(descriptor)
            raise UsageError(f"{self._path} was changed after the trace had been read: start again")
        return descriptor
