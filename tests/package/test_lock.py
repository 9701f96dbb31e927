"""The lock files are those of `pyproject.toml`: judged by what stands in them, without asking any index."""

from __future__ import annotations

import re

import pytest
from packaging.requirements import Requirement

from tests.package.locks import ROOT, Locked, asked_for, distribution, locked, project

LOCKS = {"requirements.lock": (), "requirements-dev.lock": ("dev", "docs", "tokenizers")}
"""The files, and the extras that each takes in."""

PYTHONS = [f"3.{minor}" for minor in range(11, 15)]
PLATFORMS = ["linux", "darwin"]


def chosen(locked_versions: list[Locked], python: str, platform: str) -> dict[str, Locked]:
    """What of a lock file is installed on one Python and system."""
    there = {"python_full_version": f"{python}.1", "python_version": python, "sys_platform": platform, "extra": ""}
    found: dict[str, Locked] = {}
    for each in locked_versions:
        if each.marker is None or each.marker.evaluate(there):
            assert each.name not in found, f"{each.name} is pinned twice for Python {python} on {platform}"
            found[each.name] = each
    return found


@pytest.mark.parametrize("file", LOCKS)
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_requirement_is_met_on_every_python(file: str, python: str, platform: str) -> None:
    pinned = chosen(locked(file), python, platform)
    wrong = [
        f"{wanted}: {file} has {pinned[distribution(wanted.name)].version if distribution(wanted.name) in pinned else None}"
        for wanted in asked_for(*LOCKS[file])
        if not _met(wanted, pinned)
    ]
    assert not wrong, f"run `make lock`: {wrong}"


def _met(wanted: Requirement, pinned: dict[str, Locked]) -> bool:
    found = pinned.get(distribution(wanted.name))
    return found is not None and wanted.specifier.contains(found.version, prereleases=True)


@pytest.mark.parametrize("file", LOCKS)
def test_nothing_stays_that_nobody_asks_for_any_more(file: str) -> None:
    pinned = locked(file)
    ours = {each.name for each in pinned if "llm-locust" in each.wanted_by}
    assert ours == {distribution(wanted.name) for wanted in asked_for(*LOCKS[file])}, "run `make lock`"
    names = {each.name for each in pinned}
    assert {each.name for each in pinned if not each.wanted_by & (names | {"llm-locust"})} == set()


@pytest.mark.parametrize("file", LOCKS)
def test_it_can_be_installed_from_any_index_and_only_unchanged(file: str) -> None:
    text = (ROOT / file).read_text()
    assert "://" not in text
    assert not re.search(r"^(-|--)", text, re.MULTILINE)
    assert all(each.hashes for each in locked(file))


def test_what_is_tested_is_what_runs() -> None:
    tested = {(each.name, each.version) for each in locked("requirements-dev.lock")}
    assert {(each.name, each.version) for each in locked("requirements.lock")} <= tested


def test_the_pythons_locked_for_are_those_we_say_we_run_on() -> None:
    said = re.findall(r"Programming Language :: Python :: (3\.\d+)", "\n".join(project()["classifiers"]))
    assert said == PYTHONS
    assert project()["requires-python"] == f">={PYTHONS[0]}"
