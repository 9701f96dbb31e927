"""A chart of the report: its drawing, what it says in words, its legend, and its data as the CSV file beside the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from llm_locust.report.csv_cells import csv_text

Cell = str | int | float | None


class Key(NamedTuple):
    """One entry of a legend."""

    label: str
    role: str
    """A colour of :data:`llm_locust.report.html.theme.ROLES`."""
    style: str = "-"
    """A line style of matplotlib, ``area``, ``dot`` or ``cross``."""


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


def csv_of(columns: Mapping[str, Sequence[Cell]]) -> str:
    """The data as a CSV file with a header; an empty cell is not measured.

    Raises:
        ValueError: the columns are not of one length.
    """
    return csv_text([list(columns), *zip(*columns.values(), strict=True)])
