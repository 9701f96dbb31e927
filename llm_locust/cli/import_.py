"""``llm-locust import``: another load tester's result file as a run folder."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from llm_locust.analysis.imported import FORMATS
from llm_locust.records import parse_slo

_FORMAT_LIST = "\b\nFormats:\n" + "\n".join(f"  {of.name:<9} {of.about}" for of in FORMATS.values())


@click.command("import", epilog=_FORMAT_LIST)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--format", "format_name", type=click.Choice(list(FORMATS)), help="Default: as its content suggests.")
@click.option(
    "--slo",
    metavar="LIMITS",
    help="Per-request limits in milliseconds to judge its requests by, for example ttft=500,tpot=50; marked as set after "
    "the run.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The run folder to make. Default: runs/ and the file's name with the beginning of its SHA-256.",
)
def command(file: Path, format_name: str | None, slo: str | None, out: Path | None) -> None:
    """Make a run folder of FILE, the result of another load tester, and write its report, worksheet and records.

    Each request becomes a row, figures and limits are those of this project. What the file does not say stays empty and is
    listed. Nobody saw how the other tool kept to its plan, so no stage passes or fails; records are graded transcribed.

    \b
    Exit status: 0 imported
                 2 the file cannot be used, or the folder holds another run
    """
    from llm_locust.report import print_reported
    from llm_locust.report.imported import import_file

    reported = import_file(file, format_name, parse_slo(slo), out)
    print_reported(reported, Console())
