"""The result in the terminal: the ladder, what ails each stage that did not pass, the verdict, where the report is."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from llm_locust.analysis.verdict import needs_words
from llm_locust.analysis.words import number, with_round
from llm_locust.records import format_slo
from llm_locust.records.summary import RunSummary, StageSummary
from llm_locust.report.findings import finding_lines
from llm_locust.report.inert import LONGEST_NAME, LONGEST_SENTENCE, one_line, shell_word
from llm_locust.report.ladder import COLUMNS, FEW_NOTE, has_marks, missing_file, requirement_lines
from llm_locust.report.markdown_details import cold_line, drift_line
from llm_locust.report.run import Reported
from llm_locust.report.server_lines import capitalised, run_lines, terminal_lines

WIDE = 96
"""Terminal columns that all columns of the ladder need."""

_STYLE = {"pass": "green", "fail": "red", "invalid": "yellow", "undetermined": "yellow"}
"""Colour only repeats what the word says; without a terminal rich leaves it out."""


def print_reported(reported: Reported, console: Console) -> None:
    """Print a judged run. Text that may come from elsewhere is neither read as markup nor sent to the terminal as it is."""
    summary = reported.summary
    columns = tuple(c for c in COLUMNS if console.width >= WIDE or not c.wide)
    if summary.stages:
        console.print(_ladder(summary, console))
        notes = [FEW_NOTE] if has_marks(summary.stages, columns) else []
        if any(stage.mode == "closed" for stage in summary.stages):
            notes.append("C=n is a closed loop that keeps n requests in flight")
        for note in notes:
            console.print(Text(note), soft_wrap=False)
    for stage in summary.stages:
        strength = f" ({stage.verdict.strength})" if stage.verdict.strength else ""
        line = Text(f"{one_line(with_round(stage.label, stage.round), LONGEST_NAME)}: ")
        line.append(f"{stage.verdict.result}{strength}", style=_STYLE.get(stage.verdict.result, ""))
        line.append(f" - {one_line(stage.verdict.sentence, LONGEST_SENTENCE)}")
        console.print(line)
        for detail in _details(stage):
            console.print(Text(f"  {detail}"))
        for said in terminal_lines(stage):
            console.print(Text(f"  {one_line(said, LONGEST_SENTENCE)}"))
    console.print()
    if summary.state != "complete" or summary.state_reason is not None:
        reason = f" ({one_line(summary.state_reason, LONGEST_NAME)})" if summary.state_reason else ""
        console.print(Text(f"State of the run: {summary.state}{reason}"))
    limits = format_slo(summary.slo) or "none chosen"
    after = ", set after the run" if summary.limits_set == "after" else ""
    console.print(Text(f"Limits in ms: {limits}{after}"))
    if summary.gates:
        gates_after = ", set after the run" if summary.gates_set == "after" else ""
        console.print(Text(f"Gates: {one_line('; '.join(summary.gates), LONGEST_SENTENCE)}{gates_after}"))
    for worker in summary.reconciliation.workers_without_file:
        console.print(Text(missing_file(worker), style="yellow"))
    for name in summary.reconciliation.torn_lines:
        console.print(Text(f"{one_line(name, LONGEST_NAME)}: its unterminated last line was dropped"))
    for said in run_lines(summary):
        differs = summary.agreement is not None and summary.agreement.differences and said == summary.agreement.text
        console.print(Text(capitalised(one_line(said, LONGEST_SENTENCE)), style="yellow" if differs else ""))
    for found in finding_lines(summary):
        console.print(Text(found))
    console.print(Text(one_line(summary.verdict), style="bold"))
    if summary.knee is not None:
        console.print(Text(f"Knee: {one_line(summary.knee.sentence, LONGEST_SENTENCE)}"))
        for warning in summary.knee.warnings:
            console.print(Text(f"  {one_line(warning, LONGEST_NAME)}", style="yellow"))
    for required in requirement_lines(summary):
        console.print(Text(required))
    # A path is for copying: it is not broken over lines.
    for name, file in (("Report", reported.report), ("For a browser", reported.html)):
        if file is not None:
            path = str(file)
            console.print(Text(f"{name}: {path if path.isprintable() else shell_word(path)}"), soft_wrap=True)


def _details(stage: StageSummary) -> list[str]:
    """What else is worth a line under a stage's verdict."""
    found = [f"slice {one_line(of.name, LONGEST_NAME)}: {of.result}" for of in stage.slices if of.result is not None]
    needs = needs_words(stage.verdict.requests_needed, stage.verdict.seconds_needed, stage.measured)
    if needs is not None:
        found.append(needs)
    if stage.littles_law is not None and stage.littles_law.note is not None:
        found.append(stage.littles_law.note)
    if stage.cold is not None and stage.cold.cold:
        found.append(cold_line(stage.cold))
    if (drifted := drift_line(stage)) is not None:
        found.append(drifted)
    if stage.cost_per_million_good_tokens is not None:
        found.append(f"cost: {number(stage.cost_per_million_good_tokens)} per million good output tokens")
    return found


def _ladder(summary: RunSummary, console: Console) -> Table:
    columns = [column for column in COLUMNS if console.width >= WIDE or not column.wide]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(
            Text(f"{column.name}\n{column.unit}"), justify="left" if column.text else "right", no_wrap=True
        )
    for stage in summary.stages:
        table.add_row(
            *(
                Text(column.cell(stage), style=_STYLE.get(stage.verdict.result, "") if column.name == "result" else "")
                for column in columns
            )
        )
    return table
