"""``llm-locust gate``: hold a judged run to gates and requirements, for a pipeline that goes by exit codes."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from llm_locust.records import Manifest, Requirements, RunFolder, UsageError
from llm_locust.records.gates import parse_gate, parse_gates
from llm_locust.records.summary import RunSummary


@click.command("gate")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--gate",
    "gates",
    multiple=True,
    metavar="GATE",
    help="What a stage must hold to pass instead of what the run was started with: ttft_p95<=1000, faq:attainment>=0.99, "
    "http_503=0, or a TOML file of them. Several may follow one --gate.",
)
@click.argument("more_gates", nargs=-1, metavar="")
@click.option(
    "--require-rate", type=click.FloatRange(min=0, min_open=True), help="A rate of at least this was sustained."
)
@click.option("--require-pass", is_flag=True, help="Every stage passed (so it is when nothing else is required).")
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), help="Write the verdicts as JUnit XML.")
@click.option(
    "--markdown", type=click.Path(path_type=Path, dir_okay=False), help="Write a summary for the page of a CI run."
)
def command(
    run: Path,
    gates: tuple[str, ...],
    more_gates: tuple[str, ...],
    require_rate: float | None,
    require_pass: bool,
    junit: Path | None,
    markdown: Path | None,
) -> None:
    """Say stage by stage and slice by slice whether the merged run folder RUN holds its gates and its requirements.

    They are its own, fixed before load, or those given here, which count as set after the run. With no requirement of
    either kind every stage must pass.

    \b
    Exit status: 0 every requirement is met
                 2 wrong usage, or nothing was sent
                 3 a requirement is not met
                 4 work was lost, or what decides is invalid or undetermined
    """
    from llm_locust.analysis.judgement import conclude, exit_code
    from llm_locust.report.ci_summary import render_ci_summary
    from llm_locust.report.gate_lines import gate_lines
    from llm_locust.report.junit import junit_xml

    if more_gates and not gates:
        raise UsageError(f"unexpected argument {more_gates[0]!r}: gates follow --gate")
    folder = RunFolder(run)
    summary = RunSummary.load(folder.summary)
    given = parse_gates([*gates, *more_gates])
    asked = Requirements(rate_rps=require_rate, every_stage=require_pass)
    own = Manifest.load(folder.manifest).requirements
    chosen_here = asked != Requirements() or own == Requirements()
    if asked == Requirements():
        asked = own if own != Requirements() else Requirements(every_stage=True)
    summary = conclude(
        summary,
        given or [parse_gate(text) for text in summary.gates],
        "after" if given else summary.gates_set,
        asked,
        "after" if chosen_here else "before",
    )
    if junit is not None:
        _write(junit, junit_xml(summary))
    if markdown is not None:
        _write(markdown, render_ci_summary(summary).encode())
    for line in gate_lines(summary):
        click.echo(line)
    sys.exit(exit_code(summary))


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
