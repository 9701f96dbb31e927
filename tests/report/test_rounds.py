"""The second repetition of a stage is round 2 wherever a person reads of it, and 1 in the files for programs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from rich.console import Console

from llm_locust.report import merge_run, print_reported
from llm_locust.report.ci_summary import render_ci_summary
from llm_locust.report.junit import junit_xml
from tests.analysis.run_builder import RunBuilder


def test_the_second_round_is_called_round_2_by_everything_that_is_read(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 500})
    for k in range(2):
        run.stage(rate=2, window=20, stage=0, round=k).requests(40)
    reported = merge_run(run.write(), html=True)
    out = io.StringIO()
    print_reported(reported, Console(file=out, width=200))
    label = reported.summary.stages[1].label
    table = [line.split()[:2] for line in out.getvalue().splitlines()]
    assert ["2", "r2"] in table
    assert f"\n{label}, round 2: " in out.getvalue()
    assert f"### {label}, round 2: " in reported.report.read_text()
    with run.folder.worksheet_csv.open(newline="") as file:
        assert [f"{label}, round 2" in row for row in csv.reader(file) if label in " ".join(row)].count(True) == 1
    assert f"{label}, round 2" in junit_xml(reported.summary).decode()
    assert f"{label}, round 2" in render_ci_summary(reported.summary)
    assert reported.html is not None
    page = reported.html.read_text()
    assert f"{label}, round 2" in page
    for text in (out.getvalue(), reported.report.read_text(), page, run.folder.worksheet_md.read_text()):
        assert "round 1" not in text
        assert " r1 " not in text
    assert [stage["round"] for stage in json.loads(run.folder.summary.read_text())["stages"]] == [0, 1]
    assert (run.folder.records_dir / "stage-0-round-1.json").exists()
