"""``llm-locust options``: what this project adds to Locust's command line (``locust --help`` lists only Locust's own)."""

from __future__ import annotations

import click


@click.command("options")
def command() -> None:
    """List the options that our locustfiles and shapes add to `locust`, with their environment variables."""
    from llm_locust.plugin.options import option_table

    for flag, variable, default, meaning in option_table():
        click.echo(f"{flag}  [{variable}{', default ' + default if default else ''}]")
        click.echo(click.wrap_text(meaning, width=100, initial_indent="    ", subsequent_indent="    "))
    click.echo("\nThey can also stand in locust.conf, or in pyproject.toml under [tool.locust], without the dashes.")
