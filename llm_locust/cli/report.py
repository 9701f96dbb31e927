"""``llm-locust report``: the figures of a merged run once more, by its own limits or by others."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from llm_locust.analysis.judgement import exit_code
from llm_locust.cli.gate_option import gate_option, given_gates
from llm_locust.records import parse_slo
from llm_locust.records.run_folder import require_run
from llm_locust.report import print_reported, report_run
from llm_locust.report.progress import shown_progress


@click.command("report")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--slo",
    metavar="NAME=MS,...",
    help="Other per-request limits in milliseconds, for example ttft=300,tpot=50. They are marked as set after the run and "
    "go to a report of their own.",
)
@gate_option("Other gates, marked likewise")
@click.option("--no-html", is_flag=True, help="Leave out the HTML report and the data of its charts.")
def command(run: Path, slo: str | None, gates: tuple[str, ...], no_html: bool, more: tuple[str, ...]) -> None:
    """Judge the merged run folder RUN again and write its report.

    \b
    Exit status: 0 ran and was judged (a failing top stage is a success: the boundary was found)
                 2 wrong usage, or nothing was sent
                 3 a requirement of the run (--require-rate, --require-pass) is not met
                 4 a stage is invalid or undetermined, or arrivals were lost
    """
    require_run(run)
    held = given_gates(gates, more)
    limits = None if slo is None else parse_slo(slo)
    with shown_progress() as progress:
        reported = report_run(run, limits, held, progress, html=not no_html)
    print_reported(reported, Console())
    sys.exit(exit_code(reported.summary))
