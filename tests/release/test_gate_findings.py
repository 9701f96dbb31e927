"""``llm-locust gate`` names what the figures point to: the first findings, in a line each."""

from __future__ import annotations

from llm_locust.records.diagnosis import Finding
from llm_locust.report.ci_summary import render_ci_summary
from llm_locust.report.gate_lines import gate_lines
from tests.evidence.by_hand import stage, summary


def finding(title: str) -> Finding:
    return Finding(
        rule="queue",
        title=title,
        where="server queue",
        confidence="likely",
        evidence=["P95 of the queue is 800 ms of a TTFT of 1000 ms"],
        vary_next=["--rates"],
    )


def test_the_first_findings_stand_before_the_requirements_and_in_the_summary_for_ci() -> None:
    found = summary(stage(), findings=[finding(f"Requests wait <{k}>") for k in range(4)])
    line = "Finding (likely, server queue): Requests wait <0>: P95 of the queue is 800 ms of a TTFT of 1000 ms"
    lines = gate_lines(found)
    at = lines.index(line)
    assert lines[at + 3] == "1 more finding in the report"
    assert lines[-1] == found.verdict
    text = render_ci_summary(found)
    assert "- Finding (likely, server queue): Requests wait \\<0>: P95 of the queue" in text
    assert "- 1 more finding in the report" in text


def test_a_run_without_findings_has_no_line_of_them() -> None:
    assert not any("inding" in line for line in [*gate_lines(summary(stage())), render_ci_summary(summary(stage()))])
