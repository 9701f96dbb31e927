"""Commands of a page, held against the parsers that would read them; nothing is started."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
from locust.argument_parser import get_parser

import llm_locust.plugin  # noqa: F401 - its import registers the options
from llm_locust.cli import llm_locust as commands

OF_OTHERS = frozenset(
    {
        ".", "cat", "cd", "cp", "curl", "cut", "docker", "export", "git", "kill", "kubectl", "llama-server", "ls",
        "mkdir", "nginx", "nvidia-smi", "ollama", "pip", "pipx", "python", "python3", "sed", "ssh", "sudo", "ulimit",
        "vllm",
    }
)  # fmt: skip
"""Commands of other people, of which only the name is known here."""


def check_command(line: str, root: Path) -> None:
    """Hold one line against the parser of its command.

    Raises:
        AssertionError: no such command, option or target; what the parser said is in the message.
    """
    for inner in re.findall(r"\$\(([^()]*)\)", line):
        check_command(inner, root)
    for words in _parts(line):
        name, *arguments = words
        if name == "locust":
            _check_locust(arguments, line)
        elif name == "llm-locust":
            _check_click(arguments, line)
        elif name == "make":
            _check_make(arguments, root, line)
        else:
            assert name in OF_OTHERS, f"{line}: who is {name}?"


def _parts(line: str) -> list[list[str]]:
    """The commands of a line in words, without variables before them, redirections, and ``...`` for what is left out."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    found: list[list[str]] = [[]]
    redirected = False
    for word in lexer:
        if set(word) <= set("|&;()"):
            found.append([])
        elif set(word) <= set("<>"):
            redirected = True
        elif redirected:
            redirected = False
        elif word != "..." and not (not found[-1] and re.match(r"[A-Z_]+=", word)):
            found[-1].append(word)
    return [words for words in found if words]


def _check_locust(arguments: list[str], line: str) -> None:
    parser = get_parser(default_config_files=[])
    try:
        parser.parse_args(arguments, env_vars={})
    except SystemExit as end:
        if end.code:
            raise AssertionError(f"{line}: locust's parser refuses it") from None


def _check_click(arguments: list[str], line: str) -> None:
    command: click.Command = commands
    context = click.Context(commands, info_name="llm-locust")
    while isinstance(command, click.Group) and arguments and not arguments[0].startswith("-"):
        found = command.get_command(context, arguments[0])
        assert found is not None, f"{line}: no subcommand {arguments[0]}"
        command, arguments = found, arguments[1:]
        context = click.Context(command, parent=context, info_name=command.name)
    try:
        command.make_parser(context).parse_args(list(arguments))
    except click.UsageError as error:
        raise AssertionError(f"{line}: {error.format_message()}") from None


def _check_make(arguments: list[str], root: Path, line: str) -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for word in arguments:
        assert "=" in word or word in targets, f"{line}: no target {word}"
