"""``llm-locust compare``: runs side by side, with differences, their confidence intervals, and a refusal where due."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec
from rich.console import Console

from llm_locust.records import UsageError
from llm_locust.records.run_folder import require_run
from llm_locust.report.compare import compare_folders
from llm_locust.report.comparison import print_comparison, render_comparison
from llm_locust.report.progress import shown_progress


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN_A RUN_B [RUN_C]...")
@click.option(
    "--allow",
    multiple=True,
    metavar="NAME",
    help="A setting that may differ beside the one that is compared, by the name that the refusal gives. Repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print it as Markdown.")
def command(runs: tuple[Path, ...], allow: tuple[str, ...], as_json: bool, as_markdown: bool) -> None:
    """Hold merged run folders against the first of them: latencies, attainment, goodput, errors, throughput, cache hits.

    Each difference has its 95 % confidence interval; where that holds 0, no difference is shown. The runs must have been
    made alike but for one thing, which is then what is compared: anything else that differs is named and refused, unless
    it is allowed by name.

    \b
    Exit status: 0 compared
                 2 wrong usage, or the runs differ in more than one thing
    """
    for run in runs:
        require_run(run)
    if as_json and as_markdown:
        raise UsageError("--json and --markdown: choose one")
    with shown_progress() as progress:
        comparison = compare_folders(runs, allow, progress)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(comparison), indent=2))
    elif as_markdown:
        click.echo(render_comparison(comparison), nl=False)
    else:
        print_comparison(comparison, Console())
