"""The worksheet that people fill in: the columns of a run's worksheet, cells that are read or refused, inert exports."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from llm_locust.report import merge_run
from llm_locust.report.worksheet import HEADER
from llm_locust.report.worksheet_columns import GROUPS
from llm_locust.web.workbench.sheet import MOST_ROWS, READERS, columns, rows_of_file
from tests.report.test_worksheet import a_run
from tests.web.workbench.asking import COMMA, refused, told, unit

TTFT = "observations: TTFT P95 [ms]"


def exported(*rows: dict[str, object]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(told("worksheet/csv", rows=list(rows))["text"])))


def test_every_unit_of_a_column_has_a_reader() -> None:
    assert {column.unit for _, of in GROUPS for column in of} == set(READERS)
    assert [column["key"] for column in columns()] == list(HEADER[2:])


def test_the_rows_of_a_run_come_out_as_they_went_in(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    merge_run(run.write())
    text = run.folder.worksheet_csv.read_text()
    assert told("worksheet/csv", rows=rows_of_file(text))["text"] == text


def test_blank_is_an_empty_cell_and_0_is_0() -> None:
    (row,) = exported({"test": "a", TTFT: "", "observations: lost [requests]": "0", "observations: drain [s]": "2.50"})
    assert (row[TTFT], row["observations: lost [requests]"], row["observations: drain [s]"]) == ("", "0", "2.5")


def test_text_becomes_no_formula_and_no_markup() -> None:
    (row,) = exported({"test": "=1+1", "decision: owner": "@SUM(A1)", "run": "-1"})
    assert (row["test"], row["decision: owner"], row["run"]) == ("'=1+1", "'@SUM(A1)", "'-1")
    text = told("worksheet/markdown", rows=[{"test": "a|b <img> [x](y)", "decision: owner": "two\nlines"}])["text"]
    assert "a\\|b \\<img> \\[x\\](y)" in text
    assert "two lines" in text
    assert "graded transcribed: it is not a test" in text


def test_wrong_cells_are_named_by_row_and_column() -> None:
    attainment = "decision: attainment [share 0 to 1]"
    assert refused("worksheet/csv", rows=[{"test": "a"}, {TTFT: "1,5", attainment: "95 %", "what": "x"}]) == {
        "row 2, what": "there is no such field",
        f"row 2, {TTFT}": f"'1,5' {COMMA}",
        f"row 2, {attainment}": unit("95 %", "95"),
        "row 2, test": "name the test of this row",
    }
    assert "out of range" in refused("worksheet/csv", rows=[{"test": "a", attainment: "95"}])[f"row 1, {attainment}"]


def test_a_row_with_nothing_in_it_is_left_out_and_an_infinite_percentile_stays() -> None:
    assert [row[TTFT] for row in exported({}, {"test": "a", TTFT: "inf"})] == ["inf"]


def test_too_many_rows_and_what_are_no_rows_are_refused() -> None:
    assert refused("worksheet/csv", rows=[{}] * (MOST_ROWS + 1)) == {
        "rows": "201 are too many: a worksheet has at most 200"
    }
    for rows in (None, {}, ["x"], "x", [[]]):
        assert list(refused("worksheet/markdown", rows=rows)) == ["rows"]
