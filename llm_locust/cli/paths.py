"""``llm-locust paths``: where the locustfiles and shapes are that came with the installation."""

from __future__ import annotations

from pathlib import Path

import click

import llm_locust


def bundled(folder: str) -> Path:
    """``locustfiles`` or ``shapes``: inside an installed package, or beside it in a checkout."""
    package = Path(llm_locust.__file__).parent
    installed = package / "bundled" / folder
    return installed if installed.is_dir() else package.parent / folder


@click.command("paths")
def command() -> None:
    """Print the folders of the locustfiles and shapes that came along, to use or to copy and edit."""
    for folder in ("locustfiles", "shapes"):
        click.echo(f"{folder:12} {bundled(folder)}")
