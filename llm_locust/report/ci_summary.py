"""A short Markdown summary for the page of a CI run: the verdict, a row per stage and slice, what failed, first findings."""

from __future__ import annotations

from llm_locust.analysis.gates import gate_text
from llm_locust.analysis.words import NOT_MEASURED, number, percent
from llm_locust.records.summary import FailingDimension, RunSummary, StageSummary
from llm_locust.report.findings import finding_lines
from llm_locust.report.inert import LONGEST_NAME, LONGEST_SENTENCE, escape
from llm_locust.report.junit import stage_title
from llm_locust.report.markdown_pieces import bullets
from llm_locust.report.server_lines import capitalised

_MARK = {"pass": "✅", "fail": "❌", "invalid": "⚠️", "undetermined": "❔", "not_run": "▫️"}
_MET = {True: "✅ met", False: "❌ not met", None: "❔ cannot be told"}


def render_ci_summary(summary: RunSummary) -> str:
    """The summary of a run. Text from elsewhere is inert."""
    blocks = [f"### Load test {escape(summary.run_id, LONGEST_NAME)}", f"**{escape(summary.verdict)}**"]
    if summary.requirements:
        after = {"before": "", "after": " (set after the run)"}
        blocks.append(
            "\n".join(f"- {_MET[r.met]}: {escape(r.text, LONGEST_NAME)}{after[r.set_]}" for r in summary.requirements)
        )
    if summary.stages:
        lines = ["| stage | result | measured | attained | errors | what failed |", "|:--|:--|--:|--:|--:|:--|"]
        for stage in summary.stages:
            lines += _rows(stage)
        blocks.append("\n".join(lines))
        undetermined = [
            f"- {escape(stage_title(stage), LONGEST_NAME)}: {escape(stage.verdict.sentence, LONGEST_SENTENCE)}"
            for stage in summary.stages
            if stage.verdict.result in ("invalid", "undetermined")
        ]
        blocks += ["\n".join(undetermined)] if undetermined else []
        gates = dict.fromkeys(gate_text(gate) for stage in summary.stages for gate in stage.verdict.gates)
        when = {"before": "fixed before load", "after": "set after the run"}[summary.gates_set]
        how = when if summary.gates else "defaults, not chosen for this run"
        blocks.append(f"Gates ({how}): {escape('; '.join(gates), LONGEST_SENTENCE)}")
    if found := finding_lines(summary):
        blocks.append(bullets(escape(line, LONGEST_SENTENCE) for line in found))
    if summary.agreement is not None:
        blocks.append(f"{escape(capitalised(summary.agreement.text), LONGEST_SENTENCE)}.")
    if summary.knee is not None:
        blocks.append(f"Knee of the closed-loop sweep: {escape(summary.knee.sentence, LONGEST_SENTENCE)}")
    return "\n\n".join(blocks) + "\n"


def _rows(stage: StageSummary) -> list[str]:
    strength = f" ({stage.verdict.strength})" if stage.verdict.strength else ""
    rows = [
        _row(
            escape(stage_title(stage), LONGEST_NAME),
            f"{_MARK[stage.verdict.result]} {stage.verdict.result}{strength}",
            str(stage.measured),
            percent(stage.attainment),
            percent(stage.error_rate, up=True),
            _dimensions(stage.verdict.failing_dimensions),
        )
    ]
    rows += [
        _row(
            f"└ {escape(of.name, LONGEST_NAME)}",
            f"{_MARK[of.result]} {of.result}" if of.result else NOT_MEASURED,
            number(of.measured),
            percent(of.attainment),
            percent(of.error_rate, up=True),
            _dimensions(of.failing_dimensions),
        )
        for of in stage.slices
    ]
    return rows


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _dimensions(found: list[FailingDimension]) -> str:
    return escape("; ".join(f"{d.name}: {d.detail}" for d in found), LONGEST_SENTENCE)
