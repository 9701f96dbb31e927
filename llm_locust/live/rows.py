"""Rows of ended requests out of the CSV lines that workers ship: only the columns that a live picture needs.

At 500 requests a second with a hundred gaps each this is the most work that the picture is; so cells are taken by place,
and the gaps become numbers all at once.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from operator import itemgetter

import msgspec
import numpy as np
import numpy.typing as npt

from llm_locust.records.request import COLUMNS

Gaps = npt.NDArray[np.float64]


class Row(msgspec.Struct, frozen=True, gc=False):
    """One request that has ended. The names, units and meanings are those of the record."""

    stage: int
    phase: str
    worker: int
    user: str
    slice: str | None
    outcome: str
    status: str | None
    quality: str | None
    gaps: str
    """Microseconds, as they stand in the cell."""
    planned_ns: int | None
    dispatched_ns: int | None
    sent_ns: int | None
    first_output_ns: int | None
    last_output_ns: int | None
    complete_ns: int | None
    end_ns: int | None
    output_tokens: int | None
    max_gap_ns: int | None
    first_coalesced: int | None


_TEXTS = ("stage", "phase", "worker", "user", "slice", "outcome", "status", "quality", "gaps_us")
_NUMBERS = (
    "planned_ns", "dispatched_ns", "sent_ns", "first_output_ns", "last_output_ns", "complete_ns", "end_ns",
    "output_tokens", "max_gap_ns", "first_coalesced",
)  # fmt: skip

_texts = itemgetter(*map(COLUMNS.index, _TEXTS))
_numbers = itemgetter(*map(COLUMNS.index, _NUMBERS))


def read_rows(lines: str) -> Iterator[Row | None]:
    """The rows of CSV lines without a header, one by one; ``None`` for a line that is no row."""
    for cells in csv.reader(io.StringIO(lines, newline="")):
        try:
            stage, phase, worker, user, slice_, outcome, status, quality, gaps = _texts(cells)
            numbers = [int(cell) if cell else None for cell in _numbers(cells)]
            yield Row(
                int(stage),
                phase,
                int(worker),
                user,
                slice_ or None,
                outcome,
                status or None,
                quality or None,
                gaps,
                *numbers,
            )
        except (ValueError, IndexError):
            yield None


def gaps_ms(cell: str) -> Gaps:
    """The gaps of a cell, in milliseconds.

    Raises:
        ValueError: it holds something else than integers.
    """
    found: Gaps = np.fromstring(cell, np.int64, sep=" ") / 1000
    if len(found) != cell.count(" ") + 1:
        raise ValueError(f"not gaps: {cell[:40]}")
    return found
