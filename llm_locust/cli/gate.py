"""``llm-locust gate``: hold a judged run to requirements, for a pipeline that goes by exit codes."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from llm_locust.records import Requirements, RunFolder, UsageError
from llm_locust.records.summary import RunSummary


@click.command("gate")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--require-rate", type=click.FloatRange(min=0, min_open=True), help="A rate of at least this was sustained."
)
@click.option("--require-pass", is_flag=True, help="Every stage passed.")
def command(run: Path, require_rate: float | None, require_pass: bool) -> None:
    """Say whether the judged run folder RUN meets its requirements: its own, or those given here (set after the run).

    \b
    Exit status: 0 every requirement is met
                 2 wrong usage, nothing was required, or nothing was sent
                 3 a requirement is not met
                 4 work was lost, or what decides is invalid or undetermined
    """
    from llm_locust.analysis.judgement import exit_code, judge_requirements, points
    from llm_locust.report.ladder import requirement_lines

    summary = RunSummary.load(RunFolder(run).summary)
    asked = Requirements(rate_rps=require_rate, every_stage=require_pass)
    if asked != Requirements():
        summary.requirements = judge_requirements(points(summary.stages), asked, "after")
    if not summary.requirements:
        raise UsageError("nothing is required: the run had no --require-rate or --require-pass, and none is given here")
    for line in requirement_lines(summary):
        click.echo(line)
    click.echo(summary.verdict)
    sys.exit(exit_code(summary))
