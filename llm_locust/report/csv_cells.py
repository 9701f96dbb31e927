"""Cells of CSV files that people open in a spreadsheet: text from elsewhere must not become a formula there."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from llm_locust.records.text import inert_cell

Cell = str | int | float | bool | None


def csv_text(rows: Iterable[Sequence[Cell]]) -> str:
    """Rows as CSV: null is an empty cell, booleans are yes and no, numbers keep every digit, text is made inert."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_written(cell) for cell in row] for row in rows)
    return text.getvalue()


def _written(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return inert_cell(cell) if isinstance(cell, str) else repr(cell).removesuffix(".0")
