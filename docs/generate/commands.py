"""``commands.md``: the ``llm-locust`` command, subcommand by subcommand."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

import click

from docs.generate.markdown import code, page, section, table, text


def commands_page() -> str:
    """Every subcommand with its arguments, options and exit status."""
    from llm_locust.cli import llm_locust

    context = click.Context(llm_locust, info_name="llm-locust")
    found = dict(walk(llm_locust, context, "llm-locust"))
    head = table(
        ("command", "what it does"),
        ((f"[`{name}`](#{name.replace(' ', '-')})", text(_first(c))) for name, c in found.items()),
    )
    return page(
        "The `llm-locust` command",
        "Load is run by `locust`; this command judges, inspects and prepares. Every subcommand has `--help`. Wrong usage "
        "ends with exit status 2 and one sentence on standard error.",
        head,
        *(_section(name, command) for name, command in found.items()),
    )


def walk(command: click.Command, context: click.Context, name: str) -> Iterator[tuple[str, click.Command]]:
    """Every command that is no group, by its whole name."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    for sub in command.list_commands(context):
        found = command.get_command(context, sub)
        assert found is not None
        yield from walk(found, click.Context(found, context, sub), f"{name} {sub}")


def _first(command: click.Command) -> str:
    return (command.help or "").strip().split("\n\n")[0]


def _section(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    rows = [_row(parameter, context) for parameter in command.params if isinstance(parameter, click.Option)]
    return section(
        f"{name}",
        f"```text\n{usage}\n```",
        *map(_paragraph, re.split(r"\n\s*\n", (command.help or "").strip())),
        table(("option", "what it says", "default"), rows) if rows else "",
    )


def _paragraph(said: str) -> str:
    """A paragraph of a help text; one that is to keep its lines (``\\b``) as a block."""
    if said.lstrip().startswith("\b"):
        kept = textwrap.dedent(said.lstrip().removeprefix("\b").strip("\n"))
        return "```text\n" + "\n".join(line.rstrip() for line in kept.splitlines()) + "\n```"
    return text(said)


def _row(option: click.Option, context: click.Context) -> tuple[str, str, str]:
    both = [*option.opts, *option.secondary_opts]
    value = "" if option.is_flag else f" {option.make_metavar(context)}"
    default = option.default if option.show_default else None
    if callable(default) or type(default).__name__ == "Sentinel" or default in (None, (), False, ""):
        shown = "required" if option.required else ""
    elif isinstance(default, bool):
        shown = code(both[0] if default else both[-1])
    else:
        shown = code(f"{default:g}" if isinstance(default, float) else str(default))
    return code(" / ".join(both) + value), text(option.help), shown
