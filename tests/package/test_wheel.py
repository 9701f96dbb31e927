"""What `pip install llm-locust` gives: built as it is released, installed where there is nothing else, and run there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from llm_locust.records import Manifest, RunFolder
from llm_locust.records.summary import RunSummary
from llm_locust.simulator.options import READY_PREFIX
from tests.e2e.conftest import clean_environment
from tests.package.locks import ROOT, distribution, locked

pytestmark = [pytest.mark.process, pytest.mark.package]

IN_TREE = {
    "llm_locust": "llm_locust",
    "shapes": "llm_locust/bundled/shapes",
    "locustfiles": "llm_locust/bundled/locustfiles",
}
"""Folders of the source tree, and where the wheel has them."""


def run(*command: str | Path, folder: Path, seconds: float = 120) -> subprocess.CompletedProcess[str]:
    """A command in a folder of the test's own, without anything of this process's Python."""
    ours = ("PYTHON", "VIRTUAL_ENV", "COVERAGE")
    environment = {k: v for k, v in clean_environment().items() if not k.startswith(ours)}
    words = [str(word) for word in command]
    return subprocess.run(
        words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds
    )


def checked(*command: str | Path, folder: Path, seconds: float = 120) -> str:
    done = run(*command, folder=folder, seconds=seconds)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@dataclass(frozen=True)
class Built:
    wheel: Path
    sdist: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The sdist, and the wheel made from it, as `make package` makes them."""
    folder = tmp_path_factory.mktemp("dist")
    checked(sys.executable, "-m", "build", "--outdir", folder, ROOT, folder=folder, seconds=300)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Built(wheel, sdist)


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel in it and what the wheel itself asks for, in the versions of the lock file."""

    environment: Path
    home: Path
    """An empty folder to work in."""

    def command(self, name: str) -> Path:
        return self.environment / "bin" / name

    def pip(self, *words: str | Path) -> str:
        """The environment has no pip; this process's own works on it."""
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", self.command("python")]
        return checked(*pip, *words, folder=self.home, seconds=400)


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("clean")
    it = Installed(folder / "env", folder / "home")
    it.home.mkdir()
    venv.create(it.environment, symlinks=True)
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(map(str, locked("requirements.lock"))))
    words = ["--quiet", "--constraint", constraints, built.wheel]
    uv = [sys.executable, "-m", "uv", "pip", "install", "--python", it.command("python")]
    if run(*uv, *words, folder=it.home, seconds=400).returncode != 0:
        # uv is many times faster, but it may not be here, or not know the index that pip was told of
        it.pip("install", "--no-compile", *words)
    return it


@contextmanager
def serving(installed: Installed) -> Iterator[str]:
    """The installed synthetic engine, on a free port."""
    command = [str(installed.command("llm-locust")), "simulate", "--port", "0", "--decode-ms", "10"]
    server = subprocess.Popen(command, cwd=installed.home, env=clean_environment(), stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line.startswith(READY_PREFIX)
        yield line.removeprefix(READY_PREFIX).strip()
    finally:
        server.terminate()
        server.communicate(timeout=20)


# --- the files ---------------------------------------------------------------------------------------------------------


def test_the_wheel_holds_every_file_of_the_package_and_nothing_beside_it(built: Built) -> None:
    expected = {
        f"{there}/{path.relative_to(ROOT / here).as_posix()}"
        for here, there in IN_TREE.items()
        for path in (ROOT / here).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }
    with zipfile.ZipFile(built.wheel) as wheel:
        names = set(wheel.namelist())
    packed = {name for name in names if ".dist-info/" not in name}
    assert packed == expected
    for needed in ("py.typed", "records/evidence.schema.json", "report/html/report.html.j2", "report/html/report.css",
                   "telemetry/metrics/engines/vllm.toml", "bundled/shapes/rate_ladder.py",
                   "bundled/locustfiles/chat.py", "bundled/locustfiles/comparisons/README.md"):  # fmt: skip
        assert f"llm_locust/{needed}" in packed
    assert {name.split("/")[0] for name in names} == {
        "llm_locust",
        built.wheel.name.rsplit("-py3", 1)[0] + ".dist-info",
    }


def test_the_sdist_can_be_built_and_tested_from(built: Built) -> None:
    with tarfile.open(built.sdist) as sdist:
        top = {name.split("/", 2)[1] for name in sdist.getnames() if "/" in name}
    assert {"llm_locust", "shapes", "locustfiles", "tests", "benchmarks", "pyproject.toml", "requirements.lock",
            "requirements-dev.lock", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md",
            "Makefile"} <= top  # fmt: skip
    assert not {"runs", ".ci", ".git", ".venv", "dist"} & top


def test_the_licence_goes_along(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        (metadata,) = (name for name in wheel.namelist() if name.endswith("dist-info/METADATA"))
        said = wheel.read(metadata).decode()
        licence = wheel.read(metadata.removesuffix("METADATA") + "licenses/LICENSE").decode()
    assert "\nLicense-Expression: Apache-2.0\n" in said
    assert licence == (ROOT / "LICENSE").read_text()


# --- the clean environment ---------------------------------------------------------------------------------------------


def test_a_plain_install_brings_what_a_run_needs_and_no_more(installed: Installed) -> None:
    there = {distribution(each["name"]) for each in json.loads(installed.pip("list", "--format", "json"))}
    allowed = {each.name for each in locked("requirements.lock")} | {"llm-locust"}
    assert there <= allowed
    assert {"locust", "pandas", "matplotlib", "jsonschema"} <= there
    assert not {"mypy", "ruff", "hypothesis", "playwright", "pre-commit", "uv", "tokenizers", "xllamacpp"} & there
    installed.pip("check")


def test_it_runs_from_where_it_was_installed(installed: Installed) -> None:
    where = "import llm_locust, sys; print(llm_locust.__file__); print(*sys.path, sep='\\n')"
    module, *path = checked(installed.command("python"), "-c", where, folder=installed.home).split()
    assert Path(module).is_relative_to(installed.environment)
    assert not [entry for entry in path if Path(entry).is_relative_to(ROOT)]
    alone = "import importlib.util as u; print(u.find_spec('shapes'), u.find_spec('locustfiles'), u.find_spec('tests'))"
    assert checked(installed.command("python"), "-c", alone, folder=installed.home).split() == ["None"] * 3


def test_the_command_says_its_version_and_where_its_files_are(built: Built, installed: Installed) -> None:
    version = built.wheel.name.split("-")[1]
    llm_locust = installed.command("llm-locust")
    assert version in checked(llm_locust, "--version", folder=installed.home)
    for folder in _bundled(installed).values():
        assert folder.is_relative_to(installed.environment)
        assert list(folder.glob("*.py"))


def _bundled(installed: Installed) -> dict[str, Path]:
    told = checked(installed.command("llm-locust"), "paths", folder=installed.home)
    found = dict(re.findall(r"^(locustfiles|shapes) +(.+)$", told, re.MULTILINE))
    return {name: Path(path) for name, path in found.items()}


def test_every_command_can_be_asked_what_it_does(installed: Installed) -> None:
    """Each subcommand's module with all that it imports at once, and its help."""
    code = (
        "from click.testing import CliRunner; from llm_locust.cli import COMMANDS, llm_locust\n"
        "for name in COMMANDS:\n"
        "    done = CliRunner().invoke(llm_locust, [name, '--help']); assert done.exit_code == 0, (name, done.output)\n"
    )
    checked(installed.command("python"), "-c", code, folder=installed.home)


# --- a run -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ran:
    preview: str
    done: subprocess.CompletedProcess[str]
    folder: RunFolder


@pytest.fixture(scope="module")
def ran(installed: Installed) -> Ran:
    """The bundled chat user and rate ladder against the installed synthetic engine: first dry, then for real."""
    bundled = _bundled(installed)
    files = f"{bundled['locustfiles'] / 'chat.py'},{bundled['shapes'] / 'rate_ladder.py'}"
    locust: list[str | Path] = [installed.command("locust"), "-f", files, "--headless"]
    with serving(installed) as url:
        options = ["--host", url, "--rates", "8", "--requests", "24", "--warmup-time", "0.5", "--cooldown", "0.5",
                   "--max-tokens", "4", "--slo", "ttft=8000"]  # fmt: skip
        preview = checked(*locust, *options, "--dry-run", folder=installed.home)
        assert not (installed.home / "runs").exists()
        done = run(*locust, *options, folder=installed.home)
    assert done.returncode in (0, 4), done.stderr  # 4: a busy machine; it was judged all the same
    (folder,) = (installed.home / "runs").iterdir()
    return Ran(preview, done, RunFolder(folder))


def test_a_dry_run_shows_the_stage_and_leaves_nothing(ran: Ran) -> None:
    for word in ("8", "24", "P95"):
        assert word in ran.preview


def test_the_bundled_files_make_a_run_that_is_merged_judged_and_reported(ran: Ran) -> None:
    assert Manifest.load(ran.folder.manifest).state == "complete"
    (stage,) = RunSummary.load(ran.folder.summary).stages
    assert stage.measured == 24
    for name in ("requests.csv", "report.html", "report.md", "worksheet.csv"):
        assert (ran.folder.path / name).stat().st_size > 0
    assert list((ran.folder.path / "records").glob("*.json"))


def test_nothing_of_the_source_tree_was_used(ran: Ran) -> None:
    for path in ran.folder.path.rglob("*.json"):
        assert str(ROOT) not in path.read_text()
    assert str(ROOT) not in ran.done.stdout + ran.done.stderr


def test_all_that_follows_a_run_can_be_made_again(installed: Installed, ran: Ran) -> None:
    llm_locust, run_folder = installed.command("llm-locust"), ran.folder.path
    ran.folder.summary.unlink()
    merged = run(llm_locust, "merge", run_folder, folder=installed.home)
    assert merged.returncode in (0, 4), merged.stderr
    assert ran.folder.summary.exists()
    checked(llm_locust, "validate", run_folder, folder=installed.home)
