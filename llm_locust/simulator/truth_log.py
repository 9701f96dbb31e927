"""The server's own record of each generation request: true times that a client's figures can be compared with."""

from __future__ import annotations

import csv
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from types import TracebackType

from llm_locust.records import UsageError


@dataclass(slots=True)
class TruthRow:
    """One generation request. Times are Unix nanoseconds by a monotonic clock anchored once; ``None`` if not reached."""

    request_id: str
    """The ``X-Request-Id`` header, else empty."""
    t_recv_ns: int
    """Right after the read that completed the request, before any added latency."""
    t_admitted_ns: int | None = None
    """When the engine gave it a slot, by the engine's clock."""
    t_first_ns: int | None = None
    """Immediately before the write that holds the first token."""
    t_last_ns: int | None = None
    """Immediately before the write that holds the last token."""
    t_end_ns: int | None = None
    """After the last byte was written, or when the request was given up."""
    prompt_tokens: int | None = None
    output_tokens: int = 0
    """Tokens written."""
    outcome: str = ""
    """``ok``; ``http_CODE`` of a refusal; ``aborted`` when the client left; ``shutdown``; ``fault NAME`` as asked for."""


TRUTH_COLUMNS = tuple(field.name for field in fields(TruthRow))


class TruthLog:
    """A CSV file of :class:`TruthRow`, each row on disk as soon as its request is over; without a path it is silent."""

    def __init__(self, path: Path | None) -> None:
        try:
            self._file = None if path is None else path.open("w", encoding="utf-8", newline="", buffering=1)
        except OSError as error:
            raise UsageError(f"--log {path}: cannot write it: {error.strerror}") from None
        if self._file is not None:
            csv.writer(self._file, lineterminator="\n").writerow(TRUTH_COLUMNS)

    def __enter__(self) -> TruthLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, row: TruthRow) -> None:
        """Append one row."""
        if self._file is not None:
            csv.writer(self._file, lineterminator="\n").writerow(astuple(row))
