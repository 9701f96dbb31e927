"""``llm-locust paths``: where the locustfiles, shapes and matrices are that came with the installation."""

from __future__ import annotations

import click

from llm_locust.bundled_files import bundled
from llm_locust.matrix.config import CONFIGS


@click.command("paths")
def command() -> None:
    """Print the folders of the locustfiles, shapes and matrices that came along, to use or to copy and edit."""
    for folder in ("locustfiles", "shapes"):
        click.echo(f"{folder:12} {bundled(folder)}")
    click.echo(f"{'matrices':12} {CONFIGS}")
