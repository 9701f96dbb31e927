"""``llm-locust gate`` as a pipeline meets it: exit codes, JUnit XML, a summary for the page."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from llm_locust.cli.gate import command as gate
from llm_locust.cli.report import command as report
from llm_locust.records import Requirements, RunFolder, UsageError
from llm_locust.records.summary import RunSummary
from llm_locust.report import merge_run
from tests.analysis.run_builder import RunBuilder


def run_gate(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(gate, [str(folder), *arguments], catch_exceptions=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One rate that holds its limits, and one that does not."""
    run = RunBuilder(tmp_path, slo={"ttft": 500})
    first = run.stage(rate=2)
    first.requests(100, ttft=300, slice="faq")
    first.requests(20, ttft=400, slice="long", first=0.1)
    run.stage(rate=6).requests(90, ttft=700)
    path = run.write()
    merge_run(path)
    return path


def test_without_requirements_every_stage_must_pass(folder: Path) -> None:
    result = run_gate(folder)
    assert result.exit_code == 3
    assert "Required (set after the run): every stage passes: NOT met" in result.output
    assert "open 6/s poisson: fail (signed) - ttft: 90 of 90 over 500 ms" in result.output
    assert "  x attainment >= 0.95: it is 0" in result.output


def test_a_required_rate_decides_alone(folder: Path) -> None:
    assert run_gate(folder, "--require-rate", "2").exit_code == 0
    assert run_gate(folder, "--require-rate", "6").exit_code == 3


def test_requirements_of_the_run_are_its_own(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 500}, requirements=Requirements(rate_rps=2.0))
    run.stage(rate=2).requests(120)
    run.stage(rate=6).requests(90, ttft=700)
    path = run.write()
    merge_run(path)
    result = run_gate(path)
    assert result.exit_code == 0
    assert "Required: a sustained rate of at least 2 req/s: met" in result.output


def test_gates_given_here_judge_anew_and_are_said_to_be_set_after(folder: Path) -> None:
    before = RunFolder(folder).summary.read_bytes()
    result = run_gate(folder, "--gate", "ttft_p95<=1000", "error_rate<=0.5")
    assert result.exit_code == 0, result.output
    assert "The gates were set after the run." in result.output
    assert RunFolder(folder).summary.read_bytes() == before


def test_a_slice_fails_by_its_own_gate(folder: Path) -> None:
    result = run_gate(folder, "--gate", "ttft_p95<=1000", "--gate", "long:ttft_p95<=350")
    assert result.exit_code == 3
    assert "long:ttft_p95: 400 ms, over 350 ms" in result.output
    assert "  slice long: fail" in result.output


def test_what_cannot_be_told_exits_with_4(folder: Path) -> None:
    result = run_gate(folder, "--gate", "waiting_trend=flat", "--require-rate", "2")
    assert result.exit_code == 4
    assert "  ? waiting_trend = flat: the server's queue was not read" in result.output


def test_gates_from_a_file(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "gates.toml"
    path.write_text('gates = ["ttft_p95<=1000"]\n[slices.faq]\ngates = ["ttft_p95<=350"]\n')
    assert run_gate(folder, "--gate", str(path), "--require-rate", "2").exit_code == 0


def test_a_stray_argument_is_no_gate(folder: Path) -> None:
    with pytest.raises(UsageError, match="unexpected argument 'oom=0': gates follow --gate"):
        run_gate(folder, "oom=0")


def test_a_run_that_was_not_merged_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="run llm-locust merge"):
        run_gate(RunBuilder(tmp_path).write())


def junit(folder: Path, tmp_path: Path, *arguments: str) -> ET.Element:
    path = tmp_path / "junit.xml"
    run_gate(folder, "--junit", str(path), *arguments)
    return ET.parse(path).getroot()


def test_junit_has_a_case_per_stage_and_gate(folder: Path, tmp_path: Path) -> None:
    root = junit(folder, tmp_path)
    assert [suite.get("name") for suite in root] == ["open 2/s poisson", "open 6/s poisson", "requirements"]
    cases = {(case.get("classname"), case.get("name")): [child.tag for child in case] for case in root.iter("testcase")}
    assert cases == {
        ("llm-locust.open 2/s poisson", "attainment >= 0.95"): ["system-out"],
        ("llm-locust.open 2/s poisson", "error_rate <= 0.01"): ["system-out"],
        ("llm-locust.open 2/s poisson", "oom = 0"): ["system-out"],
        ("llm-locust.open 2/s poisson", "in_flight_trend = flat"): ["system-out"],
        ("llm-locust.open 6/s poisson", "attainment >= 0.95"): ["failure"],
        ("llm-locust.open 6/s poisson", "error_rate <= 0.01"): ["system-out"],
        ("llm-locust.open 6/s poisson", "oom = 0"): ["system-out"],
        ("llm-locust.open 6/s poisson", "in_flight_trend = flat"): ["system-out"],
        ("llm-locust.requirements", "every stage passes"): ["failure"],
    }
    counts = {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "9", "failures": "2", "errors": "0", "skipped": "0"}
    failure = root.find(".//testsuite[@name='open 6/s poisson']/testcase/failure")
    assert failure is not None
    assert failure.get("message") == "attainment is 0 (signed)"
    assert failure.text == "ttft: 90 of 90 over 500 ms"


def test_junit_skips_what_cannot_be_told_and_calls_an_invalid_stage_an_error(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 500})
    run.stage(rate=2).requests(120, lag=80)
    run.stage(rate=4).requests(240, tokens=None, first=0.01)
    run.stage(rate=8, interrupted="Ctrl-C").requests(240)
    path = run.write()
    merge_run(path)
    root = junit(path, tmp_path, "--gate", "ttft_p95<=400", "queue_p95<=300")
    kinds = [
        {case.get("name"): [child.tag for child in case] for case in suite}
        for suite in root
        if suite.get("name") != "requirements"
    ]
    assert set(map(tuple, kinds[0].values())) == {("error",)}
    assert kinds[1] == {
        "ttft_p95 <= 400": ["system-out"],
        "queue_p95 <= 300": ["skipped"],
        "oom = 0": ["system-out"],
        "in_flight_trend = flat": ["system-out"],
    }
    assert set(map(tuple, kinds[2].values())) == {("skipped",)}


def test_text_of_a_server_cannot_break_the_xml(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 500})
    run.stage(rate=2, interrupted="\x1b[31m]]> <failure/> & \x00 \ufffe").requests(60, slice="a<b>&\x07")
    path = run.write()
    merge_run(path)
    root = junit(path, tmp_path, "--gate", "*:ttft_p95<=400")
    assert {child.tag for case in root.iter("testcase") for child in case} == {"skipped"}
    names = [case.get("name") for case in root.iter("testcase")]
    assert "a<b>& :ttft_p95 <= 400" in names


def test_the_markdown_summary_has_the_verdict_and_a_row_per_stage_and_slice(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    run_gate(folder, "--markdown", str(path), "--gate", "long:ttft_p95<=350")
    text = path.read_text()
    assert text.startswith("### Load test run-1\n\n**")
    assert "| open 2/s poisson | ❌ fail (signed) | 120 | 100 % | 0 % | long:ttft\\_p95: 400 ms, over 350 ms |" in text
    assert "| └ faq | - | 100 | 100 % | 0 % |  |" in text
    assert "| └ long | ❌ fail | 20 | 100 % | 0 % | long:ttft\\_p95: 400 ms, over 350 ms |" in text
    assert "Gates (set after the run): long:ttft\\_p95 \\<= 350" in text


def test_a_file_that_cannot_be_written_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        run_gate(folder, "--junit", str(tmp_path / "nowhere" / "junit.xml"))


def test_report_with_other_gates_goes_to_files_of_its_own(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    result = CliRunner().invoke(report, [str(folder), "--gate", "ttft_p95<=1000"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "Gates: ttft_p95<=1000, set after the run" in result.output
    after = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert {name: after[name] for name in before} == before
    (name,) = [name for name in after.keys() - before.keys() if name.startswith("summary-gates-")]
    assert RunSummary.load(folder / name).gates_set == "after"
    assert json.loads(after[name])["gates"] == ["ttft_p95<=1000"]


def test_a_summary_of_the_merge_judged_again_by_its_own_gates_is_the_same(folder: Path) -> None:
    from llm_locust.analysis.judgement import conclude

    summary = RunSummary.load(RunFolder(folder).summary)
    assert conclude(summary, []) == summary
