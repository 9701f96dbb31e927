"""``llm-locust options``: what this project adds to Locust's command line (``locust --help`` lists only Locust's own)."""

from __future__ import annotations

import click


@click.command("options")
def command() -> None:
    """List the options that our locustfiles and shapes add to `locust`, with their environment variables."""
    from llm_locust.plugin.options import OPTIONS

    for option in OPTIONS:
        default = f", default {option.default}" if option.default is not None else ""
        value = f"[{option.metavar}]" if option.alone is not None else option.metavar or ""
        click.echo(f"{option.flag} {value}".rstrip() + f"  [{option.variable}{default}]")
        click.echo(click.wrap_text(option.meaning, width=100, initial_indent="    ", subsequent_indent="    "))
    click.echo("\nThey can also stand in locust.conf, or in pyproject.toml under [tool.locust], without the dashes.")
