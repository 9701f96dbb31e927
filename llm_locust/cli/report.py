"""``llm-locust report``: the figures of a merged run once more, by its own limits or by others."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from llm_locust.analysis.judgement import exit_code
from llm_locust.records import parse_slo
from llm_locust.report import print_reported, report_run


@click.command("report")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--slo",
    metavar="NAME=MS,...",
    help="Other per-request limits in milliseconds, for example ttft=300,tpot=50. They are marked as set after the run and "
    "go to a report of their own.",
)
def command(run: Path, slo: str | None) -> None:
    """Judge the merged run folder RUN again and write its report.

    \b
    Exit status: 0 ran and was judged (a failing top stage is a success: the boundary was found)
                 2 wrong usage, or nothing was sent
                 3 a requirement of the run (--require-rate, --require-pass) is not met
                 4 a stage is invalid or undetermined, or arrivals were lost
    """
    reported = report_run(run, None if slo is None else parse_slo(slo))
    print_reported(reported, Console())
    sys.exit(exit_code(reported.summary))
