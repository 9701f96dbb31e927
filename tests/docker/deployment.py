"""The files in docker/, read as Compose, Docker and Locust read them."""

from __future__ import annotations

import re
import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from locust.argument_parser import get_empty_argument_parser, setup_parser_arguments

from llm_locust.plugin.option_table import add_options

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"

_VARIABLE = re.compile(r"\$\{(\w+)(?:(:-|:\?)([^}]*))?\}")


def variables_in(text: str) -> set[str]:
    return {found[1] for found in _VARIABLE.finditer(text)}


def interpolated(text: str, values: Mapping[str, str]) -> str:
    """With Compose's variables replaced, in the two forms that are used here: a default, and required."""

    def value(found: re.Match[str]) -> str:
        name, form, rest = found.groups()
        if values.get(name):
            return values[name]
        if form == ":?":
            raise KeyError(f"{name}: {rest}")
        return rest or ""

    return _VARIABLE.sub(value, text)


def env_example() -> dict[str, str]:
    lines = (DOCKER / ".env.example").read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def compose(values: Mapping[str, str] | None = None) -> dict[str, Any]:
    """compose.yml with the values of .env.example, or others."""
    text = (DOCKER / "compose.yml").read_text("utf-8")
    found: dict[str, Any] = yaml.safe_load(interpolated(text, env_example() if values is None else values))
    return found


class Instruction:
    """One instruction of a Dockerfile, and the stage that it stands in."""

    def __init__(self, stage: int, word: str, rest: str) -> None:
        self.stage = stage
        self.word = word
        self.rest = rest


def dockerfile() -> list[Instruction]:
    text = (DOCKER / "Dockerfile").read_text("utf-8")
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    found: list[Instruction] = []
    stage = -1
    for line in filter(str.strip, lines.replace("\\\n", " ").splitlines()):
        word, _, rest = line.strip().partition(" ")
        stage += word == "FROM"
        found.append(Instruction(stage, word, " ".join(rest.split())))
    return found


def image_environment() -> dict[str, str]:
    """What the image sets for every container."""
    last = max(one.stage for one in dockerfile())
    pairs = [shlex.split(one.rest) for one in dockerfile() if one.word == "ENV" and one.stage == last]
    return dict(pair.split("=", 1) for words in pairs for pair in words)


def locust_options(
    arguments: Sequence[str], environment: Mapping[str, str] | None = None, conf: str | None = None
) -> Namespace:
    """The options of a locust command, through Locust's parser and ours; an unknown one ends the test."""
    parser = get_empty_argument_parser(default_config_files=[])
    setup_parser_arguments(parser)
    add_options(parser)
    found: Namespace = parser.parse_args(
        args=list(arguments), env_vars=dict(environment or {}), config_file_contents=conf
    )
    return found
