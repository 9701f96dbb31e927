"""``llm-locust facts``: what no client can see of a server, in a file that a person fills in."""

from __future__ import annotations

from pathlib import Path

import click

from llm_locust.records import UsageError
from llm_locust.records.facts import FACT_NAMES, GROUPS, Facts, read_facts, template


@click.command("facts")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--template", "blank", is_flag=True, help="Print a file to fill in: every fact, what it is, an example.")
def command(file: Path | None, blank: bool) -> None:
    """Check the facts file FILE, or print one to fill in.

    Facts are what a client cannot see of the server: revision of the weights, data types, driver, hardware, who answers
    for the result. They stand in the evidence records of a run; without them a record is no more than partial.

    \b
    Exit status: 0 the file can be used
                 2 it cannot; every line that is wrong is named
    """
    if blank == (file is not None):
        raise UsageError("give a facts file to check, or --template for one to fill in (> facts.toml)")
    if file is None:
        click.echo(template(), nl=False)
    else:
        click.echo(known_and_blank(read_facts(file)))


def known_and_blank(facts: Facts) -> str:
    """How many facts are known, and the blank ones by group."""
    lines = [f"{facts.source}: {len(facts.values)} of {len(FACT_NAMES)} facts known"]
    for heading, names in GROUPS.items():
        blanks = [name for name in names if name not in facts.values]
        if blanks:
            lines.append(f"{heading}, not known: {', '.join(blanks)}")
    return "\n".join(lines)
