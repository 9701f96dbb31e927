"""``llm-locust merge`` and ``llm-locust report`` as a user meets them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from llm_locust.cli.merge import command as merge
from llm_locust.cli.report import command as report
from llm_locust.records import RunFolder, UsageError
from llm_locust.records.summary import RunSummary
from llm_locust.report import Reported, merge_run, print_reported, report_run
from tests.analysis.run_builder import RunBuilder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run = RunBuilder(tmp_path, slo={"ttft": 500, "tpot": 200})
    first = run.stage(rate=2)
    first.requests(117, ttft=300, e2e=1000 / 3)
    first.requests(3, ttft=700, first=0.01, tokens=7)
    run.stage(rate=6).requests(90, ttft=700)
    run.stage(concurrency=8).requests(50, ttft=100.1)
    return run.write()


def printed(reported: Reported, width: int) -> str:
    out = io.StringIO()
    print_reported(reported, Console(file=out, width=width))
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 100])
def test_the_table_fits_its_terminal_and_is_plain_text(folder: Path, width: int) -> None:
    text = printed(merge_run(folder), width)
    assert "\x1b" not in text
    assert "…" not in text
    table = text.split("\n\n")[0].splitlines()
    assert max(map(len, table)) <= width
    assert table[0].split()[:3] == ["offered", "measured", "done" if width == 100 else "good"]
    assert [line.split()[-1] for line in table[3:6]] == ["pass", "fail", "pass"]
    assert [line.split()[0] for line in table[3:6]] == ["2", "6", "C=8"]


def test_the_verdict_and_the_report_are_named(folder: Path) -> None:
    text = " ".join(printed(merge_run(folder), 80).split())
    assert (
        "Sustained 2 req/s (candidate): attainment 97.5 %; first failing rate 6 req/s, on ttft (90 of 90 over 500 ms)"
        in text
    )
    assert f"Report: {folder / 'report.md'}" in text
    assert "Limits in ms: ttft=500,tpot=200" in text


def test_merge_exits_0_when_the_top_stage_fails(folder: Path) -> None:
    result = CliRunner().invoke(merge, [str(folder)])
    assert result.exit_code == 0, result.output
    assert RunFolder(folder).merged.exists()
    assert RunSummary.load(RunFolder(folder).summary).sustained_rate_rps == 2.0


def test_merge_exits_4_when_arrivals_were_lost_and_0_with_the_other_machines_files(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, workers=2)
    stage = run.stage(rate=2)
    for k in range(120):
        stage.request(k / 2, worker=k % 2)
    folder = run.write()
    away = tmp_path / "away"
    away.mkdir()
    RunFolder(folder).worker_csv(1).rename(away / "worker-1.csv")
    assert CliRunner().invoke(merge, [str(folder)]).exit_code == 4
    assert CliRunner().invoke(merge, [str(folder), "--from", str(away)]).exit_code == 0


def test_merge_exits_2_when_nothing_was_sent(tmp_path: Path) -> None:
    assert CliRunner().invoke(merge, [str(RunBuilder(tmp_path).write())]).exit_code == 2


def test_a_folder_that_is_no_run_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a run folder"):
        merge_run(tmp_path)


def test_report_before_merge_says_what_to_do(folder: Path) -> None:
    with pytest.raises(UsageError, match="run llm-locust merge"):
        report_run(folder)


def test_report_computes_from_the_merged_table_what_merge_computed(folder: Path) -> None:
    merged = merge_run(folder)
    before = merged.report.read_bytes(), RunFolder(folder).summary.read_bytes()
    again = report_run(folder)
    assert again == merged
    assert (again.report.read_bytes(), RunFolder(folder).summary.read_bytes()) == before


def test_other_limits_are_marked_as_set_after_and_leave_the_runs_own_judgement_alone(folder: Path) -> None:
    merge_run(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    result = CliRunner().invoke(report, [str(folder), "--slo", "ttft=800"])
    assert result.exit_code == 0, result.output
    assert "set after the run" in result.output
    after = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert {name: after[name] for name in before} == before
    assert sorted(after.keys() - before.keys()) == [
        "report-slo-ttft800.html",
        "report-slo-ttft800.md",
        "summary-slo-ttft800.json",
        "worksheet-slo-ttft800.csv",
        "worksheet-slo-ttft800.md",
    ]
    summary = RunSummary.load(folder / "summary-slo-ttft800.json")
    assert summary.limits_set == "after"
    assert summary.first_failing_rate_rps is None
    assert any("set after the run" in limitation for limitation in summary.limitations)
    assert "set **after the run**" in (folder / "report-slo-ttft800.md").read_text()


def test_the_runs_own_limits_given_again_are_still_set_before(folder: Path) -> None:
    merge_run(folder)
    reported = report_run(folder, {"tpot": 200.0, "ttft": 500.0})
    assert reported.summary.limits_set == "before"
    assert reported.report == RunFolder(folder).report_md


def test_a_summary_survives_the_disk_with_its_infinities(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=1)
    stage.requests(10)
    stage.requests(10, outcome="timeout", first=0.1)
    summary = merge_run(run.write()).summary
    loaded = RunSummary.load(run.folder.summary)
    assert loaded == summary
    assert loaded.stages[0].percentiles["e2e_p95_ms_all"].value == "inf"
    assert loaded.stages[0].goodput_rps is None
