"""What ``llm-locust gate`` prints: a line per stage and slice, one per gate that does not hold, then findings and
requirements."""

from __future__ import annotations

from llm_locust.analysis.gates import gate_text
from llm_locust.analysis.server_gates import value_text
from llm_locust.analysis.verdict import needs_words
from llm_locust.records.summary import Gate, RunSummary, StageSummary
from llm_locust.report.findings import finding_lines
from llm_locust.report.inert import LONGEST_NAME, LONGEST_SENTENCE, one_line
from llm_locust.report.junit import stage_title
from llm_locust.report.ladder import requirement_lines
from llm_locust.report.server_lines import capitalised


def gate_lines(summary: RunSummary) -> list[str]:
    """Plain lines; text from elsewhere is inert."""
    lines: list[str] = []
    for stage in summary.stages:
        lines += _stage_lines(stage)
    if summary.gates and summary.gates_set == "after":
        lines.append("The gates were set after the run.")
    if summary.agreement is not None:
        lines.append(one_line(capitalised(summary.agreement.text), LONGEST_SENTENCE))
    lines += finding_lines(summary)
    lines += requirement_lines(summary)
    lines.append(one_line(summary.verdict))
    return lines


def _stage_lines(stage: StageSummary) -> list[str]:
    verdict = stage.verdict
    strength = f" ({verdict.strength})" if verdict.strength else ""
    title = one_line(stage_title(stage), LONGEST_NAME)
    lines = [f"{title}: {verdict.result}{strength} - {one_line(verdict.sentence, LONGEST_SENTENCE)}"]
    lines += [_gate_line(gate, stage) for gate in verdict.gates if gate.applicable and gate.passed is not True]
    lines += [f"  slice {one_line(of.name, LONGEST_NAME)}: {of.result}" for of in stage.slices if of.result is not None]
    needs = needs_words(verdict.requests_needed, verdict.seconds_needed, stage.measured)
    return [*lines, *([f"  {needs}"] if needs else [])]


def _gate_line(gate: Gate, stage: StageSummary) -> str:
    text = one_line(gate_text(gate), LONGEST_NAME)
    if gate.passed is None:
        return f"  ? {text}: {one_line(gate.reason or 'not measured', LONGEST_SENTENCE)}"
    return f"  x {text}: it is {value_text(gate, stage)}"
