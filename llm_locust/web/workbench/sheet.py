"""The rows of a worksheet that people fill in, with the columns of a run's worksheet; as CSV and as Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from llm_locust.report.csv_cells import Cell
from llm_locust.report.worksheet import HEADER, Row, rows_csv, rows_markdown
from llm_locust.report.worksheet_columns import GROUPS, Column
from llm_locust.web.workbench.typed import Fields, Refused, is_blank, number, text, whole

MOST_ROWS = 200

NOTE = (
    "Rows as they stand in the workbench. What was typed in by hand is graded transcribed: it is not a test. A blank cell "
    "was not run, or not measured."
)


def _milliseconds(typed: Any) -> float | str:
    if isinstance(typed, str) and typed.strip().lower() == "inf":
        return "inf"
    return number(typed, least=0)


READERS: Mapping[str, Callable[[Any], Any]] = {
    "": text,
    "count": whole,
    "requests": whole,
    "tokens": whole,
    "blocks": whole,
    "ms": _milliseconds,
    "s": partial(number, least=0),
    "GB": partial(number, least=0),
    "req/s": partial(number, least=0),
    "tokens/s": partial(number, least=0),
    "share 0 to 1": partial(number, least=0, most=1),
    "% of blocks": partial(number, least=0, most=100),
}
"""How a cell is read, by the unit of its column."""

_COLUMNS: tuple[tuple[str, str, Column], ...] = tuple(
    (f"{group}: {column.header}", group, column) for group, columns in GROUPS for column in columns
)


def columns() -> list[dict[str, Any]]:
    """Every column for the page: its key, group, name, unit and the field of the record that holds the same."""
    return [
        {"key": key, "group": group, "name": column.name, "unit": column.unit, "field": column.field}
        for key, group, column in _COLUMNS
    ]


def sheet_csv(document: Mapping[str, Any]) -> dict[str, str]:
    """The posted rows as a CSV file.

    Raises:
        Refused: a cell is wrong, named as ``row 2, observations: TTFT P95 [ms]``.
    """
    return {"file": "worksheet.csv", "text": rows_csv(_rows(document))}


def sheet_markdown(document: Mapping[str, Any]) -> dict[str, str]:
    """The posted rows as a Markdown file; see :func:`sheet_csv`."""
    blocks = ["# Worksheet", NOTE, *rows_markdown(_rows(document))]
    return {"file": "worksheet.md", "text": "\n\n".join(blocks) + "\n"}


def rows_of_file(raw: str) -> list[dict[str, str]]:
    """The rows of a run's ``worksheet.csv`` by column; blank cells are left out."""
    table = csv.DictReader(io.StringIO(raw))
    return [
        {key: cell for key, cell in row.items() if key in HEADER and isinstance(cell, str) and cell} for row in table
    ][:MOST_ROWS]


def _rows(document: Mapping[str, Any]) -> list[Row]:
    given = document.get("rows")
    if not isinstance(given, list) or not all(isinstance(row, dict) for row in given):
        raise Refused({"rows": "post a list of rows, each an object of cells by column"})
    if len(given) > MOST_ROWS:
        raise Refused({"rows": f"{len(given)} are too many: a worksheet has at most {MOST_ROWS}"})
    wrong: dict[str, str] = {}
    rows = []
    for place, cells in enumerate(given, start=1):
        fields = Fields(cells, HEADER)
        values: list[Cell] = [fields.read(key, _reader(column)) for key, _, column in _COLUMNS]
        run, test = fields.read("run", text), fields.read("test", text)
        if test is None and any(not is_blank(cell) for cell in cells.values()):
            fields.refuse("test", "name the test of this row")
        wrong |= {f"row {place}, {key}": message for key, message in fields.wrong.items()}
        if test is not None:
            rows.append(Row(run or "", test, values))
    if wrong:
        raise Refused(wrong)
    return rows


def _reader(column: Column) -> Callable[[Any], Any]:
    def read(typed: Any) -> Any:
        if isinstance(typed, bool):
            typed = "yes" if typed else "no"
        return READERS[column.unit](typed)

    return read
