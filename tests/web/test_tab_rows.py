"""The rows of the tab: which there are, what stands in them, and what does not."""

from __future__ import annotations

import csv
import io

import pytest

from llm_locust.live.snapshot import StageView
from llm_locust.report.csv_cells import csv_text
from llm_locust.web.tab_rows import COLUMNS, MOST_ROWS, csv_rows, table_rows
from tests.live.made_up import group, snapshot, stage


def table_of(*stages: StageView) -> list[dict[str, str]]:
    return table_rows(snapshot(stages=list(stages)))


def file_of(*stages: StageView) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_text(csv_rows(snapshot(stages=list(stages)))))))


def test_a_stage_has_a_row_for_all_its_requests_and_one_for_each_slice_and_user_class() -> None:
    groups = [group(), group("faq"), group("long"), group(None, "A"), group(None, "B"), group("faq", "A")]
    rows = table_of(stage(groups=groups))
    assert [(row["slice"], row["user_class"]) for row in rows] == [
        ("all slices", "all users"), ("faq", "all users"), ("long", "all users"),
        ("all slices", "A"), ("all slices", "B"), ("faq", "A"),
    ]  # fmt: skip


def test_the_only_user_class_is_not_told_twice() -> None:
    rows = table_of(stage(groups=[group(), group(None, "ChatUser")]))
    assert [(row["slice"], row["user_class"]) for row in rows] == [("all slices", "ChatUser")]


def test_a_row_shows_percentiles_goodput_attainment_outcomes_and_the_generator() -> None:
    (row,) = table_of(stage(groups=[group()]))
    assert row["stage"] == "2 req/s"
    assert row["state"] == "window, 10 s left"
    assert row["measured"] == "100"
    assert row["goodput"] == "1.8"
    assert row["attained"] == "90 %"
    assert row["ttft"].replace("\u00a0", " ") == "120 / 240 / 360"
    assert row["client_wait"].replace("\u00a0", " ") == "0.4 / 0.8 / 1.2"
    assert row["outcomes"] == "96 ok, 3 timeout, 1 rejected"
    assert row["generator"] == "keeps up"


def test_what_is_not_measured_is_a_dash_in_the_table_and_empty_in_the_file_never_0() -> None:
    empty = stage(groups=[group(good=None, attainment=None, goodput_rps=None, latencies={})])
    (row,), (line,) = table_of(empty), file_of(empty)
    assert {row[key] for key in ("goodput", "attained", "ttft", "tpot", "itl", "e2e", "client_wait")} == {"–"}
    assert {line[name] for name in ("good", "attainment", "goodput_rps", "ttft_count", "ttft_p50_ms")} == {""}


def test_a_measured_0_is_a_0() -> None:
    none_good = stage(groups=[group(good=0, attainment=0.0, goodput_rps=0.0)])
    (row,), (line,) = table_of(none_good), file_of(none_good)
    assert (row["goodput"], row["attained"]) == ("0", "0 %")
    assert (line["good"], line["attainment"], line["goodput_rps"]) == ("0", "0", "0")


def test_a_stage_without_a_measured_request_has_a_row_all_the_same() -> None:
    (row,) = table_of(stage(groups=[], phase="warm-up", left_s=3.4))
    assert (row["state"], row["measured"]) == ("warm-up, 3 s left", "–")
    assert len(file_of(stage(groups=[]))) == 1


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"result": "fail", "phase": "done"}, "fail"),
        ({"phase": "draining", "left_s": None}, "draining"),
        ({"phase": "cool-down", "left_s": 28.6}, "cool-down, at most 29 s left"),
        ({"phase": "preparing", "left_s": 0.2}, "preparing"),
        ({"phase": "draining", "interrupted": "stopped from the web page"}, "draining: stopped from the web page"),
    ],
)
def test_the_state_is_the_result_once_there_is_one_and_the_phase_until_then(
    changes: dict[str, object], state: str
) -> None:
    assert table_of(stage(**changes))[0]["state"] == state


def test_a_browser_gets_so_many_rows_of_the_newest_stages_and_the_file_has_all() -> None:
    groups = [group(f"slice {k}") for k in range(MOST_ROWS - 2)]
    stages = [stage(k, float(k + 1), groups=[group(), *groups]) for k in range(3)]
    rows = table_of(*stages)
    assert len(rows) == MOST_ROWS
    assert [row["stage"] for row in rows[:2]] == ["2 req/s", "3 req/s"]
    assert len(file_of(*stages)) == 3 * (MOST_ROWS - 1)


def test_the_file_has_every_figure_under_a_name_with_its_unit() -> None:
    line = file_of(stage(groups=[group()]))[0]
    assert line["run_id"] == "20261130-040000-ab12"
    assert (line["rate_rps"], line["measured"], line["ok"], line["good"]) == ("2", "100", "96", "90")
    assert (line["tpot_p50_ms"], line["tpot_p95_ms"], line["tpot_p99_ms"]) == ("21", "42", "63")
    assert (line["itl_count"], line["dispatch_lag_p99_ms"]) == ("9000", "1.2000000000000002")
    assert (line["generator_keeps_up"], line["status_counts"]) == ("yes", "99 200, 1 429")


def test_a_name_that_is_a_formula_stays_text_in_the_file() -> None:
    assert file_of(stage(groups=[group("=1+1"), group("b")]))[0]["slice"] == "'=1+1"


def test_every_cell_of_the_table_is_text_under_a_key_of_its_own() -> None:
    (row,) = table_of(stage(groups=[group()]))
    assert list(row) == [column.key for column in COLUMNS]
    assert all(isinstance(cell, str) for cell in row.values())
