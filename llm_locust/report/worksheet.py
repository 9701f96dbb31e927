"""The worksheet: a row per stage and burst, from the fixed conditions to the decision, as CSV and as Markdown.

What was not run, and what was not measured, is a blank cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from llm_locust.analysis.evidence import evidence_record
from llm_locust.analysis.judgement import SYNTHETIC
from llm_locust.analysis.points import point_summary, points
from llm_locust.analysis.words import number, with_round
from llm_locust.records import Manifest
from llm_locust.records.facts import NO_FACTS, Facts
from llm_locust.records.summary import PointSummary, RunSummary
from llm_locust.report.csv_cells import Cell, csv_text
from llm_locust.report.inert import LONGEST_NAME, LONGEST_SENTENCE, escape
from llm_locust.report.markdown_pieces import table
from llm_locust.report.worksheet_columns import GROUPS, Column, Line


def worksheet_lines(manifest: Manifest, summary: RunSummary, facts: Facts = NO_FACTS) -> list[Line]:
    """The rows: every stage of the run, and the burst at the sustained rate where none was tested.

    Args:
        manifest: The run's manifest.
        summary: The judged run.
        facts: What a person knows of the server.

    Raises:
        UsageError: a fact contradicts what the server said.
    """
    planned_here = manifest.stages if manifest.transcribed is None else []
    runs = {(stage.spec.stage, stage.spec.round): stage for stage in planned_here}
    rounds: dict[int, PointSummary] = {}
    for point in points(summary.stages):
        rounds |= dict.fromkeys(map(id, point.stages), point_summary(point))
    lines = []
    for stage in summary.stages:
        ran = stage.verdict.result != "not_run"
        lines.append(
            Line(
                name=with_round(stage.label, stage.round),
                summary=summary,
                manifest=manifest,
                stage=stage,
                record=evidence_record(manifest, summary, stage, facts) if ran else None,
                run=runs.get((stage.stage, stage.round)),
                point=rounds[id(stage)],
            )
        )
    boundary = summary.boundary
    if boundary is not None and boundary.last_pass_rps is not None and boundary.burst is None:
        rate = boundary.last_pass_rps
        lines.append(Line(f"burst or trace of {number(rate)} req/s", summary, manifest, not_run_rate_rps=rate))
    return lines


HEADER: tuple[str, ...] = (
    "run",
    "test",
    *(f"{group}: {column.header}" for group, columns in GROUPS for column in columns),
)
"""The first line of the CSV, its cells with group and unit (``traffic shape: offered rate [req/s]``)."""


class Row(NamedTuple):
    """One row as values."""

    run: str
    test: str
    cells: list[Cell]
    """In the order of the columns of all groups."""


def _row(line: Line) -> Row:
    return Row(line.summary.run_id, line.name, [column.cell(line) for _, columns in GROUPS for column in columns])


def worksheet_csv(lines: list[Line]) -> str:
    """One header line, then a line per row."""
    return rows_csv(map(_row, lines))


def rows_csv(rows: Iterable[Row]) -> str:
    """The same of any rows."""
    return csv_text([HEADER, *([row.run, row.test, *row.cells] for row in rows)])


def worksheet_markdown(summary: RunSummary, lines: list[Line]) -> str:
    """A table for each group, a row per stage."""
    blocks = [f"# Worksheet of run {escape(summary.run_id, LONGEST_NAME)}"]
    if summary.synthetic_engine:
        blocks.append(f"> **{SYNTHETIC}**")
    blocks.append("A blank cell was not run, or not measured. worksheet.csv holds the same rows, every digit kept.")
    return "\n\n".join([*blocks, *rows_markdown(list(map(_row, lines)))]) + "\n"


def rows_markdown(rows: Sequence[Row]) -> list[str]:
    """Heading and table of each group, a row per test."""
    blocks, at = [], 0
    for group, columns in GROUPS:
        blocks += [f"## {group[0].upper()}{group[1:]}", _table(columns, rows, at)]
        at += len(columns)
    return blocks


def _table(columns: tuple[Column, ...], rows: Sequence[Row], at: int) -> str:
    shown = [[escape(row.test, LONGEST_NAME), *map(_shown, row.cells[at : at + len(columns)])] for row in rows]
    left = [True, *(not column.unit for column in columns)]
    return table(["test", *(escape(column.header) for column in columns)], shown, left)


def _shown(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return escape(cell if isinstance(cell, str) else number(cell), LONGEST_SENTENCE)
