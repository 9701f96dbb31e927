"""``llm-locust merge``: raw files to one table, figures and a report."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from llm_locust.analysis.judgement import exit_code
from llm_locust.records.run_folder import require_run
from llm_locust.report import merge_run, print_reported
from llm_locust.report.progress import shown_progress


@click.command("merge")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--from",
    "others",
    multiple=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="A folder with worker files copied from another machine: a run folder, or one of worker-*.csv. Repeatable.",
)
@click.option(
    "--telemetry",
    multiple=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="What llm-locust telemetry wrote on the machine under test: its memory, GPUs and processes. Repeatable.",
)
@click.option(
    "--metrics-map",
    metavar="FILE.toml",
    type=click.Path(path_type=Path),
    help="Read the metrics pages that the run kept (raw_metrics/) once more by this mapping. It is kept as "
    "RUN/metrics-map.toml, for every later merge and report.",
)
@click.option("--no-html", is_flag=True, help="Leave out report.html and the data of its charts (charts/*.csv).")
def command(
    run: Path, others: tuple[Path, ...], telemetry: tuple[Path, ...], metrics_map: Path | None, no_html: bool
) -> None:
    """Merge the raw files of the run folder RUN, judge every stage and write requests.csv, summary.json and the reports.

    It can be repeated at any time; the raw files stay as they are. What a person knows of the server may be added in
    RUN/facts.toml (llm-locust facts --template): it fills what is blank, corrects what --facts said, and is refused where
    the server itself said something else.

    \b
    Exit status: 0 ran and was judged (a failing top stage is a success: the boundary was found)
                 2 wrong usage, or nothing was sent
                 3 a requirement of the run (--require-rate, --require-pass) is not met
                 4 a stage is invalid or undetermined, or arrivals were lost
    """
    require_run(run)
    with shown_progress() as progress:
        reported = merge_run(run, others, progress, telemetry, html=not no_html, metrics_map=metrics_map)
    print_reported(reported, Console())
    sys.exit(exit_code(reported.summary))
