"""The ``llm-locust`` command: thin, one file per subcommand; each registers itself in ``COMMANDS`` below."""

from __future__ import annotations

import difflib
import errno
import importlib
import keyword
import sys

import click

from llm_locust.records import ExitCode, UsageError

COMMANDS = (
    "compare",
    "decode",
    "demo",
    "facts",
    "gate",
    "import",
    "kv",
    "llama",
    "matrix",
    "merge",
    "options",
    "paths",
    "report",
    "simulate",
    "size",
    "smoke",
    "telemetry",
    "trace",
    "validate",
    "workload",
)
"""Subcommands: module ``llm_locust.cli.<name>`` (``import_`` for the keyword) with a click command of the same name,
imported only when asked for."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            near = difflib.get_close_matches(name, COMMANDS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(self.list_commands(ctx))}"
            ctx.fail(f"No such command {name!r}; {hint}")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name.replace("-", "_")
        module = importlib.import_module(f"llm_locust.cli.{name}")
        command: click.Command = module.command
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="llm-locust")
def llm_locust() -> None:
    """Judge and inspect LLM load tests; the load itself is run by `locust`."""


def main() -> None:
    """Entry point of the ``llm-locust`` command; it ends with an :class:`~llm_locust.records.ExitCode`."""
    try:
        llm_locust(prog_name="llm-locust")
    except UsageError as error:
        click.echo(f"llm-locust: {error}", err=True)
        sys.exit(ExitCode.USAGE)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        where = f"{error.filename}: " if error.filename else ""
        click.echo(
            f"llm-locust: {where}the disk is full. What was written before is whole: make room and run the command again",
            err=True,
        )
        sys.exit(ExitCode.CRASH)
