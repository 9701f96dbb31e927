"""``llm-locust paths``: where the locustfiles and shapes are that came with the installation."""

from __future__ import annotations

from pathlib import Path

import click

import llm_locust
from llm_locust.bundled_files import bundled

__all__ = ["bundled", "command"]


@click.command("paths")
def command() -> None:
    """Print the folders of the locustfiles, shapes and matrices that came along, to use or to copy and edit."""
    for folder in ("locustfiles", "shapes"):
        click.echo(f"{folder:12} {bundled(folder)}")
    click.echo(f"{'matrices':12} {Path(llm_locust.__file__).parent / 'matrix' / 'configs'}")
