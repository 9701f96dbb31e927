"""Commands that a page shows are run, or their options at least are those of the real parsers.

The README and the tutorial are run, block by block, each page in a folder of its own, against one synthetic engine. To keep
that short, and by these rules only, a command is changed before it is run:

* times: ``--stage-time 60`` becomes ``--stage-time 2``, whatever it was; a run of stages gets
  ``--warmup-time 1 --cooldown 0.5``;
* what stands for something of the reader's: ``runs/RUN`` is the newest run folder, port 8000 that of the synthetic engine,
  ``--model NAME`` is left out;
* a server that a page starts in the background is held against its parser and not started a second time; so is a command
  that shows only a part of itself (``locust ... --mix traffic.toml``).

A run that short may be too short to be judged, so that 3 and 4 are good exit codes of whatever judges; no other command may
fail. The same command on two pages is run once.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from llm_locust.records.exit_codes import JUDGED
from llm_locust.simulator.process import running
from tests.docs.pages import DOCS, READMES, ROOT, Block, blocks, headings, markdown_pages
from tests.docs.parsers import check_command

RUN = [*READMES[:1], DOCS / "tutorial.md"]
"""Pages whose commands are run. (The Chinese README has those of the English one: that is another test.)"""

NOT_RUN, BACKGROUND, FILE = "not run: ", "in the background", "file: "

JUDGING = re.compile(r"^(?:locust|llm-locust (?:merge|report|gate))\b")

PAGES = [page for page in markdown_pages() if page.name != "CHANGELOG.md"]


def _id(of: Path | Block) -> str:
    return of.where if isinstance(of, Block) else str(of.relative_to(ROOT))


def _shell(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language == "shell"]


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_commands_stand_in_blocks_that_are_tested(page: Path) -> None:
    for block in blocks(page):
        assert block.language, f"{block.where}: a block without a language; text is one"
        assert block.language not in ("sh", "bash", "console", "zsh"), (
            f"{block.where}: call it shell, or it is not tested"
        )
        if block.language == "shell" and block.marker:
            assert block.marker.startswith(NOT_RUN) or block.marker == BACKGROUND, f"{block.where}: {block.marker}?"
            assert block.marker != NOT_RUN.strip(), f"{block.where}: why is it not run?"


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_every_option_of_a_command_exists(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = page.is_relative_to(ROOT / "locustfiles")  # its commands name the files that lie beside it
    monkeypatch.chdir(page.parent if beside else tmp_path)  # a locust.conf of the developer's is none of a page's
    for block in _shell(page):
        for command in block.commands:
            try:
                check_command(command, ROOT)
            except AssertionError as wrong:
                pytest.fail(f"{block.where}: {wrong}")


@pytest.mark.parametrize(
    "command",
    [
        "locust -f a.py --rats 1",
        "llm-locust merge runs/RUN --form DIR",
        "llm-locust mrege runs/RUN",
        "make dmo",
        "locusst -f a.py",
        "llm-locust paths && llm-locust report runs/RUN --slow ttft=1",
    ],
)
def test_a_wrong_command_would_be_noticed(command: str) -> None:
    with pytest.raises(AssertionError):
        check_command(command, ROOT)


def test_both_readmes_have_the_same_headings_and_commands() -> None:
    if len(READMES) == 1:
        assert not (ROOT / "README.zh-CN.md").exists()
        return
    english, chinese = READMES
    assert [level for level, _ in headings(chinese)] == [level for level, _ in headings(english)]
    ours = [(block.marker, block.text) for block in _shell(english)]
    theirs = [(block.marker, block.text) for block in _shell(chinese)]
    assert theirs == ours


# --- the commands of the README and the tutorial, run ---------------------------------------------------------------


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    """One synthetic engine for every page: the tutorial's, so that its rates mean what it says."""
    with running(slots=8, decode_ms=20, prefill_tps=8000) as server:
        yield server.base_url.rpartition(":")[2]


@pytest.fixture(scope="module")
def done() -> dict[str, Path]:
    """Commands that have been run, and the folder of the page that they were run for."""
    return {}


@pytest.mark.process
@pytest.mark.parametrize("page", RUN, ids=_id)
def test_the_commands_of_a_page_run(
    page: Path, engine: str, done: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp(page.stem.lower())
    if page.parent == ROOT:  # it speaks of a checkout
        for name in ("locustfiles", "shapes", "docs"):
            (home / name).symlink_to(ROOT / name)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LOCUST", "LLM_LOCUST", "OPENAI"))}
    environment |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "120"}
    environment["LOCUST_LLM_NO_HTML"] = "true"  # some seconds of drawing for each run
    for block in _shell(page):
        if block.marker.startswith(NOT_RUN) or block.marker == BACKGROUND:
            continue
        for command in block.commands:
            if " ... " in command:
                continue
            short = shortened(command, engine, home)
            if short in done:
                if (earlier := done[short] / "runs").is_dir() and not (home / "runs").exists():
                    (home / "runs").symlink_to(earlier)  # what the command would have left
                continue
            done[short] = home
            ran = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", short],
                cwd=home, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            allowed = JUDGED if JUDGING.match(short) else {0}
            assert ran.returncode in allowed, f"{block.where}: {short}\n{ran.stdout[-2000:]}\n{ran.stderr[-2000:]}"
            assert "Traceback" not in ran.stderr, f"{block.where}: {short}\n{ran.stderr[-2000:]}"


def shortened(command: str, port: str, home: Path) -> str:
    """A command as it is run here; the rules stand above."""
    command = command.replace("127.0.0.1:8000", f"127.0.0.1:{port}").replace(" --model NAME", "")
    if "runs/RUN" in command:
        newest = max((home / "runs").iterdir(), key=lambda folder: folder.stat().st_mtime_ns)
        command = re.sub(r"runs/RUN\b", f"runs/{newest.name}", command)
    if command.startswith("locust "):
        command = re.sub(r"--stage-time[ =]\S+", "--stage-time 2", command)
        command = re.sub(r"--(?:warmup-time|cooldown)[ =]\S+", "", command)
        command += " --warmup-time 1" + (" --cooldown 0.5" if "--stage-time" in command else "")
    return " ".join(command.split()) if "'" not in command and '"' not in command else command


@pytest.mark.parametrize(
    ("shown", "run"),
    [
        (
            "locust -f a.py --stage-time 5m --warmup-time 20 --host http://127.0.0.1:8000 --model NAME",
            "locust -f a.py --stage-time 2 --host http://127.0.0.1:81 --warmup-time 1 --cooldown 0.5",
        ),
        ("llm-locust report runs/RUN --slo ttft=300", "llm-locust report runs/newest --slo ttft=300"),
        ("make demo", "make demo"),
    ],
)
def test_a_command_is_changed_by_these_rules_only(shown: str, run: str, tmp_path: Path) -> None:
    (tmp_path / "runs" / "newest").mkdir(parents=True)
    assert shortened(shown, "81", tmp_path) == run
