"""Findings as they are shown: in the report with all that shows them, in the terminal a line each, three at most."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from llm_locust.records.diagnosis import Finding
from llm_locust.records.summary import RunSummary
from llm_locust.report import merge_run, print_reported, report_run
from llm_locust.report.findings import finding_blocks, finding_lines
from llm_locust.report.run import Reported
from tests.analysis.run_builder import RunBuilder


def buffered(tmp_path: Path) -> RunBuilder:
    run = RunBuilder(tmp_path, slo={"ttft": 500})
    run.stage(rate=2).requests(120, ttft=300, e2e=300)
    return run


def finding(title: str = "Something is slow", **fields: object) -> Finding:
    known: dict[str, object] = {
        "rule": "r",
        "title": title,
        "where": "decode",
        "confidence": "possible",
        "evidence": ["1 of 2 was slow"],
        "vary_next": ["Wait", "Then look"],
    }
    return Finding(**(known | fields))  # type: ignore[arg-type]


def test_the_report_names_evidence_rows_and_what_to_vary_next(tmp_path: Path) -> None:
    text = merge_run(buffered(tmp_path).write()).report.read_text()
    section = text[text.index("## Diagnosis") : text.index("## Stages")]
    assert [line for line in section.splitlines() if line][2:] == [
        "### Replies came at one instant instead of token by token",
        "- Where: network, shown (open 2/s poisson)",
        "- 120 of 120 replies of two tokens and more (100 %) had one receive time, 11 tokens at P50",
        "- Requests that show it (10 of 120), by index: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9",
        "- Vary next: Ask the server directly, past every proxy and gateway, with the same workload",
        "- Vary next: Then switch buffering off in the proxy alone (nginx: proxy\\_buffering off, or X-Accel-Buffering: no)",
    ]


def test_a_run_without_findings_has_no_such_section(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    run.stage(rate=2).requests(120)
    assert "Diagnosis" not in merge_run(run.write()).report.read_text()


def test_moments_are_told_in_utc(tmp_path: Path) -> None:
    summary = merge_run(buffered(tmp_path).write()).summary
    summary.findings = [finding(samples_ns=[1_790_000_000_123_456_789])]
    assert "Samples that show it, UTC: 2026-09-21 14:13:20.123" in "\n".join(finding_blocks(summary))


def test_the_terminal_shows_three_and_says_that_there_are_more(tmp_path: Path) -> None:
    reported = merge_run(buffered(tmp_path).write())
    reported.summary.findings = [finding(f"[red]T{k}") for k in range(5)]
    out = io.StringIO()
    print_reported(Reported(reported.summary, reported.report), Console(file=out, width=400))
    shown = [line for line in out.getvalue().splitlines() if "inding" in line]
    assert shown == [
        *(f"Finding (possible, decode): [red]T{k}: 1 of 2 was slow" for k in range(3)),
        "2 more findings in the report",
    ]


def test_three_findings_need_no_more(tmp_path: Path) -> None:
    summary = merge_run(buffered(tmp_path).write()).summary
    summary.findings = [finding(f"T{k}") for k in range(3)]
    assert len(finding_lines(summary)) == 3


def test_text_from_a_server_in_a_finding_is_inert(tmp_path: Path) -> None:
    summary = merge_run(buffered(tmp_path).write()).summary
    summary.findings = [finding("T", evidence=["\x1b[2J<script>\n# all is well"])]
    assert "\x1b" not in finding_lines(summary)[0]
    text = "\n".join(finding_blocks(summary))
    assert r"\<script>" in text
    assert "\n# all" not in text


def test_findings_are_in_the_summary_and_are_found_again_later(tmp_path: Path) -> None:
    run = buffered(tmp_path)
    made = merge_run(run.write()).summary.findings
    assert [found.rule for found in made] == ["buffered_stream"]
    assert RunSummary.load(run.folder.summary).findings == made
    assert report_run(run.folder.path).summary.findings == made
    assert report_run(run.folder.path, {"ttft": 200.0}).summary.findings == made
