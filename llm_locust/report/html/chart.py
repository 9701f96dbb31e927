"""A chart of the report: its drawing, what it says in words, its legend, and its data as the CSV file beside the report."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from llm_locust.report.inert import LONGEST_NAME, one_line

Cell = str | int | float | None

_BEGINS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Key(NamedTuple):
    """One entry of a legend."""

    label: str
    role: str
    """A colour of :data:`llm_locust.report.html.theme.ROLES`."""
    style: str = "-"
    """A line style of matplotlib, ``area`` or ``dot``."""


class Chart(NamedTuple):
    """One chart with everything that stands around it."""

    name: str
    """Of its CSV file, without the ending; unique in a report."""
    title: str
    caption: str
    """What is drawn, and what to know of it, in a sentence or two."""
    columns: Mapping[str, Sequence[Cell]]
    """Its data by column, all of one length; ``None`` is not measured."""
    svg: Markup | None = None
    """``None``: only the data are given."""
    keys: Sequence[Key] = ()


def csv_text(columns: Mapping[str, Sequence[Cell]]) -> str:
    """The data as a CSV file with a header; an empty cell is not measured.

    Raises:
        ValueError: the columns are not of one length.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in zip(*columns.values(), strict=True))
    return out.getvalue()


def _cell(value: Cell) -> Cell:
    """A text that a spreadsheet would take for a formula is marked as text; numbers are left as they are."""
    if not isinstance(value, str):
        return value
    marked = value.startswith(_BEGINS_A_FORMULA)
    text = one_line(value, LONGEST_NAME)
    return f"'{text}" if marked or text.startswith(_BEGINS_A_FORMULA) else text
