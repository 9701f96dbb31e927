"""``llm-locust gate --release`` as a pipeline meets it: run folders in; exit codes, reasons and the envelope out."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from llm_locust.cli.gate import command as gate
from llm_locust.records import Manifest, RunFolder, UsageError
from llm_locust.records.device_sample import DeviceSample
from llm_locust.records.envelope import Envelope
from llm_locust.report import merge_run
from tests.analysis.run_builder import NS_PER_MS, RunBuilder
from tests.evidence.by_hand import FACTS
from tests.release.by_hand import GATES


def run_gate(*arguments: object) -> Result:
    return CliRunner().invoke(gate, [str(argument) for argument in arguments], catch_exceptions=False)


def build(parent: Path, **changes: Any) -> Path:
    """Three rounds of 4 req/s, 400 requests each of 1 s and 11 tokens; a server and a GPU that were watched."""
    given: dict[str, Any] = {
        "slo": {"ttft": 500.0},
        "gates": GATES,
        "facts": FACTS,
        "model": "Qwen/Qwen3-8B",
        "versions": {"llm-locust": "0.1.0", "engine": "vLLM", "engine_version": "0.11.0"},
        "options": {"price_per_hour": "3.6"},
    }
    run = RunBuilder(parent, **(given | changes))
    for round_ in range(3):
        stage = run.stage(rate=4, window=100, round=round_, stage=0)
        stage.requests(400)
        stage.scraped(lambda at: {"running": 4, "waiting": 0, "kv_usage_max": 0.3, "kv_usage_mean": 0.3})
        run.devices += [
            DeviceSample(
                at_ns=stage.window_start_ns + second * 1000 * NS_PER_MS, kind="gpu", gpu=0, name="NVIDIA H100 80GB HBM3",
                memory_kind="vram", memory_used_bytes=71_500_000_000, memory_total_bytes=80_000_000_000,
            )
            for second in range(1, 100)
        ]  # fmt: skip
    path = run.write()
    merge_run(path)
    return path


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def folder(merged: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(merged, tmp_path / merged.name))


def test_a_release_writes_the_envelope_and_its_page_and_exits_0(folder: Path) -> None:
    result = run_gate("--release", folder)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    # 4 requests a second of 11 tokens are 44, of which those at the window's edges lack a little: 3.6 / (44 x 3600) x 1e6.
    found = Envelope.load(folder / "envelope.json")
    assert found.cost_per_million_good_tokens == pytest.approx(3.6 / (44 * 3600) * 1e6, rel=0.01)
    assert (found.max_rate_rps, found.max_concurrency) == (4.0, 4)
    assert found.points[0].rounds[0].peak_memory_gb == 71.5
    assert lines[-4] == "Released: all 14 requirements are met."
    assert lines[-3].startswith("At most 4 req/s (poisson), 4 requests in flight, 22.8")
    assert lines[-2:] == [f"Envelope: {folder / 'envelope.json'}", f"To read: {folder / 'envelope.md'}"]
    assert (folder / "envelope.md").read_text().startswith("# Release envelope: Qwen/Qwen3-8B on 1 x NVIDIA H100")


def test_another_release_says_that_it_takes_the_place_of_the_first(folder: Path) -> None:
    run_gate("--release", folder)
    before = Envelope.load(folder / "envelope.json").released_at
    result = run_gate("--release", folder, "--price-per-hour", 7.2)
    assert f"envelope.json, in place of one that was released at {before}" in result.output
    assert Envelope.load(folder / "envelope.json").price_set == "after"


def test_the_envelope_may_go_elsewhere(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "qwen.json"
    assert run_gate("--release", folder, "--envelope", path).exit_code == 0
    assert (path.exists(), path.with_suffix(".md").exists(), (folder / "envelope.json").exists()) == (True, True, False)


def test_a_run_on_the_simulator_is_refused_and_leaves_an_older_envelope_as_it_is(folder: Path) -> None:
    run_gate("--release", folder)
    before = (folder / "envelope.json").read_bytes()
    manifest = Manifest.load(RunFolder(folder).manifest)
    manifest.synthetic_engine = True
    manifest.save(RunFolder(folder).manifest)
    merge_run(folder)
    result = run_gate("--release", folder)
    assert result.exit_code == 3
    assert "Refused: 1 of 14 requirements is not met: grade." in result.output
    assert "found: protocol-only: the engine is synthetic" in result.output
    assert "No envelope was written." in result.output
    assert "and is left as it was." in result.output
    assert (folder / "envelope.json").read_bytes() == before


def test_a_manifest_that_was_changed_after_the_merge_is_told_by_its_records(folder: Path) -> None:
    manifest = Manifest.load(RunFolder(folder).manifest)
    manifest.facts["owner"] = "Somebody else"
    manifest.save(RunFolder(folder).manifest)
    result = run_gate("--release", folder)
    assert result.exit_code == 3
    assert "Refused: 1 of 14 requirements is not met: records." in result.output


def test_gates_given_now_never_earn_a_release(folder: Path) -> None:
    with pytest.raises(UsageError, match="--gate with --release: gates set after the run never earn a release"):
        run_gate("--release", folder, "--gate", "ttft_p95<=1000")


def test_junit_and_markdown_tell_of_the_requirements(folder: Path, tmp_path: Path) -> None:
    junit, markdown = tmp_path / "junit.xml", tmp_path / "release.md"
    assert run_gate("--release", folder, "--junit", junit, "--markdown", markdown, "--require-rate", 8).exit_code == 3
    root = ET.parse(junit).getroot()
    assert {name: root.get(name) for name in ("tests", "failures", "skipped")} == {
        "tests": "15",
        "failures": "1",
        "skipped": "0",
    }
    (failed,) = [case.get("name") for case in root.iter("testcase") if case.find("failure") is not None]
    assert failed == "required: a sustained rate of at least 8 req/s"
    text = markdown.read_text()
    assert text.startswith("### Release of run-1\n\n**Refused: 1 of 15 requirements is not met: required.**")
    assert "- ❌ not met: **required**: a sustained rate of at least 8 req/s; found: it was not" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--envelope", "x.json"], "--envelope goes with --release"),
        (["--price-per-hour", "2"], "--price-per-hour goes with --release"),
        (["--release", "--envelope", "x.yaml"], "write a name that ends in .json"),
        (["--release", "nowhere"], "nowhere is not a run folder"),
        (["."], "several runs go with --release"),
    ],
)
def test_what_does_not_go_together_is_said(merged: Path, arguments: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        run_gate(merged, *arguments)


def test_where_nothing_can_be_written_is_named(merged: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        run_gate("--release", merged, "--envelope", tmp_path / "nowhere" / "envelope.json")
