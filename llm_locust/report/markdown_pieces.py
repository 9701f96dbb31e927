"""Pieces of Markdown: lists, tables, quantities with their units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llm_locust.analysis.words import NOT_MEASURED, number, percent
from llm_locust.records.summary import Interval
from llm_locust.report.inert import LONGEST_NAME, escape


def rps(value: float | None) -> str:
    """``1.5 req/s``."""
    return f"{number(value)} req/s"


def whole(value: int | None) -> str:
    """A count, ``-`` when it was not measured."""
    return NOT_MEASURED if value is None else str(value)


def interval(found: Interval | None) -> str:
    """`` (95 % interval 93.1 % to 98.4 %)``, nothing when there is none."""
    return "" if found is None else f" (95 % interval {percent(found.low)} to {percent(found.high, up=True)})"


def bullets(lines: Iterable[str]) -> str:
    """A list, an item a line."""
    return "\n".join(f"- {line}" for line in lines)


def escaped(rows: Iterable[Iterable[str]]) -> list[list[str]]:
    """Cells that show their text and do nothing."""
    return [[escape(cell, LONGEST_NAME) for cell in row] for row in rows]


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[bool]) -> str:
    """A table; ``left`` says which columns hold text."""
    lines = [f"| {' | '.join(header)} |", f"|{'|'.join(':--' if side else '--:' for side in left)}|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)
