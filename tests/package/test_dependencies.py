"""Every dependency is declared, used, and has its reason in CONTRIBUTING.md."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement

from tests.package.locks import ROOT, asked_for, distribution, project

COMES_WITH = {"markupsafe": "jinja2", "werkzeug": "flask", "greenlet": "gevent", "flask_login": "locust"}
"""Modules that another package's own interface is written in, so that it cannot be without them."""

TYPES_ONLY = {"_typeshed"}
"""What type checkers bring along."""


@cache
def imported_by(*folders: str) -> dict[str, Path]:
    """Modules from outside that the code of these folders imports, each with a file that does."""
    ours = {"llm_locust", "tests", "benchmarks", "shapes", "locustfiles", "docs"} | TYPES_ONLY
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    names.append(node.module)
                for top in {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) - ours:
                    found.setdefault(top, path.relative_to(ROOT))
    return found


_PROVIDED_BY = cache(packages_distributions)


def distributions_of(module: str) -> set[str]:
    return {distribution(name) for name in _PROVIDED_BY().get(COMES_WITH.get(module, module), [module])}


def names(requirements: list[Requirement]) -> set[str]:
    return {distribution(each.name) for each in requirements}


def test_what_a_run_imports_is_declared() -> None:
    declared = names(asked_for("tokenizers", "llama"))
    undeclared = {
        module: str(path)
        for module, path in imported_by("llm_locust", "shapes", "locustfiles").items()
        if not distributions_of(module) & declared
    }
    assert undeclared == {}, "add them to pyproject.toml and to the table in CONTRIBUTING.md"


def test_what_is_declared_for_a_run_is_imported() -> None:
    used = set[str]().union(*map(distributions_of, imported_by("llm_locust", "shapes", "locustfiles")))
    assert names(asked_for()) <= used


def test_what_tests_and_benchmarks_import_is_declared() -> None:
    declared = names(asked_for(*project()["optional-dependencies"]))
    undeclared = {
        module: str(path)
        for module, path in imported_by("tests", "benchmarks").items()
        if not distributions_of(module) & declared
    }
    assert undeclared == {}


def test_every_dependency_has_its_reason() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition("## Dependencies")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?P<packages>[^|]+) \| (?P<reason>[^|]+) \|$", section, re.MULTILINE)
    told = {
        distribution(name.strip()): reason.strip()
        for packages, reason in rows
        if packages.strip() not in ("package", "---")
        for name in packages.split(",")
    }
    everything = names(asked_for(*project()["optional-dependencies"])) | {
        distribution(Requirement(each).name)
        for each in re.findall(r'requires = \["([^"]+)"\]', (ROOT / "pyproject.toml").read_text())
    }
    assert set(told) == everything
    assert all(len(reason) > 10 for reason in told.values())
