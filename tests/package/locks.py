"""The lock files and ``pyproject.toml``, as the tests of packaging read them."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]

_LINE = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;\\]+)(?: ; (?P<marker>[^\\]+?))? \\")


def distribution(name: str) -> str:
    """A distribution's name in its one normal form."""
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True)
class Locked:
    """One pinned version; a name has several where Pythons differ."""

    name: str
    version: Version
    marker: Marker | None
    hashes: int
    wanted_by: frozenset[str]
    """Who asks for it, ours as ``llm-locust``."""

    def __str__(self) -> str:
        return f"{self.name}=={self.version}" + (f" ; {self.marker}" if self.marker else "")


def locked(file: str) -> list[Locked]:
    """What a lock file pins."""
    found: list[Locked] = []
    for block in re.split(r"\n(?=[A-Za-z0-9])", (ROOT / file).read_text()):
        match = _LINE.match(block)
        if match is None:
            assert block.startswith("#"), f"{file}: what is {block[:80]!r}?"
            continue
        names = re.findall(r"^    #(?: via|  ) ([A-Za-z0-9][A-Za-z0-9._-]*)", block, re.MULTILINE)
        found.append(
            Locked(
                name=distribution(match["name"]),
                version=Version(match["version"]),
                marker=Marker(match["marker"]) if match["marker"] else None,
                hashes=len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", block)),
                wanted_by=frozenset(map(distribution, names)),
            )
        )
    return found


def project() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def asked_for(*extras: str) -> list[Requirement]:
    """What ``pyproject.toml`` asks for: for a run, and with these extras."""
    table = project()
    lists = [table["dependencies"], *(table["optional-dependencies"][extra] for extra in extras)]
    return [Requirement(each) for listed in lists for each in listed]
