"""Grades of scenarios, and what stands where nothing was run."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import msgspec
import pytest

from llm_locust.matrix.config import MatrixConfig, parse_config
from llm_locust.matrix.ledger import State, UnitState
from llm_locust.matrix.plan_files import write_plan
from llm_locust.matrix.results import Row, grade_rounds, read_results
from llm_locust.matrix.results_files import results_csv, results_markdown, write_results
from llm_locust.records import UsageError
from llm_locust.records.evidence import EvidenceRecord, Grade
from tests.matrix.test_config import SMALL


@pytest.fixture
def config() -> MatrixConfig:
    return parse_config(SMALL, "m.toml", Path())


def record(grade: Grade = "performance", version: str = "1.2.3", reasons: tuple[str, ...] = ()) -> EvidenceRecord:
    return EvidenceRecord(
        test_id="t", tested_at="2026-01-01", engine="E", engine_version=version, evidence_grade=grade,
        evidence_grade_reasons=list(reasons),
    )  # fmt: skip


def test_three_rounds_of_the_pinned_version_are_performance(config: MatrixConfig) -> None:
    assert grade_rounds([record()] * 3, config, same_workload=True) == ("performance", [])


@pytest.mark.parametrize(
    ("records", "same", "reasons"),
    [
        ([record(version="1.2.4")] * 3, True, ["the engine is E 1.2.4, not E 1.2.3"]),
        ([record(version="1.2.3+cu129")] * 3, True, ["the engine is E 1.2.3+cu129, not E 1.2.3"]),
        ([record()] * 2, True, ["2 of 3 rounds were run"]),
        ([record()] * 3, False, ["what was sent is not what the first setting was sent: their digests differ"]),
        ([record(), record("partial", reasons=("a", "b")), record("partial", reasons=("a",))], True, ["a", "b"]),
    ],
)
def test_a_scenario_is_as_weak_as_its_weakest_round_and_as_the_matrix(
    config: MatrixConfig, records: list[EvidenceRecord], same: bool, reasons: list[str]
) -> None:
    assert grade_rounds(records, config, same_workload=same) == ("partial", reasons)


def test_nothing_from_the_simulator_is_ever_performance(config: MatrixConfig) -> None:
    assert grade_rounds([record("protocol-only")] * 3, config, same_workload=True)[0] == "protocol-only"
    assert grade_rounds([record()] * 3, config, same_workload=True, smoke=True)[0] == "protocol-only"


@pytest.fixture
def nothing_done() -> State:
    units = {
        "off.short": UnitState(status="failed", reason="locust ended with exit code 2: | no | *model*"),
        "on.short": UnitState(),
    }
    return State(made_by="x", mode="run", config={}, units=units, engines={"on": "port 8000 is taken"})


def test_what_was_not_run_says_why_and_has_no_figures(
    config: MatrixConfig, nothing_done: State, tmp_path: Path
) -> None:
    results = read_results(config, nothing_done, tmp_path)
    assert [(row.scenario, row.status, row.result, row.measured) for row in results.rows] == [
        ("off.short.c1", "not_run", "not_run", None),
        ("off.short.c4", "not_run", "not_run", None),
        ("on.short.c1", "not_run", "not_run", None),
        ("on.short.c4", "not_run", "not_run", None),
    ]
    assert results.rows[0].reason == "locust ended with exit code 2: | no | *model*"
    assert results.rows[2].reason == "the engine did not start: port 8000 is taken"
    assert not results.complete
    assert results.comparisons == []
    text = results_markdown(results)
    assert "0 of 4 scenarios were run" in text
    assert "- off.short.c1, off.short.c4: locust ended with exit code 2: \\| no \\| \\*model\\*" in text
    assert "| off | short | 1 | not run |" in text


def test_the_csv_has_a_line_per_scenario_and_blanks_for_what_was_not_measured(
    config: MatrixConfig, nothing_done: State, tmp_path: Path
) -> None:
    rows = list(csv.DictReader(io.StringIO(results_csv(read_results(config, nothing_done, tmp_path)))))
    assert [row["scenario"] for row in rows] == ["off.short.c1", "off.short.c4", "on.short.c1", "on.short.c4"]
    assert {row["measured"] for row in rows} == {row["ttft_p95_ms"] for row in rows} == {""}
    assert rows[0]["status"] == "not_run"


def test_figures_stand_in_every_file_and_a_percentile_that_is_the_maximum_is_marked(
    config: MatrixConfig, nothing_done: State, tmp_path: Path
) -> None:
    results = read_results(config, nothing_done, tmp_path)
    results.rows[0] = Row(
        scenario="off.short.c1", variant="off", prompts="short", concurrency=1, status="measured", result="pass",
        evidence_grade="partial", grade_reasons=["the device was not sampled"], rounds=3, measured=60, error_rate=0.0,
        figures={"ttft_p50_ms": 12.5, "ttft_p95_ms": 20.0}, at_maximum=["ttft_p95_ms"], workload_sha256="ab" * 32,
    )  # fmt: skip
    results.rows[2] = msgspec.structs.replace(
        results.rows[0], scenario="on.short.c1", variant="on", workload_sha256="cd" * 32
    )
    write_results(results, tmp_path)
    text = (tmp_path / "matrix.md").read_text()
    assert "| off | short | 1 | pass | partial | 3 | 60 | 0 % |  |  | 12.5 | 20* |" in text
    assert "- the device was not sampled (all)" in text
    assert "settings were sent different prompts, so they cannot be compared" in text
    assert json.loads((tmp_path / "matrix.json").read_text())["rows"][0]["figures"]["ttft_p95_ms"] == 20.0


def test_a_plan_says_what_is_still_to_be_filled_in_and_why_prefixes_are_shared(tmp_path: Path) -> None:
    from llm_locust.matrix.config import read_config

    paths = write_plan(read_config("vllm"), "dry-run", tmp_path)
    assert [path.name for path in paths] == ["plan.json", "plan.md", "servers.sh", "locust.sh", "vllm_bench.sh"]
    text = (tmp_path / "plan.md").read_text()
    assert "**36 scenarios** (dry-run)" in text
    assert "Prompts share prefixes in every setting, the baseline too" in text
    assert "values.model is still to be filled in: \\<MODEL>" in text
    assert "flags of vLLM's bench were looked up in the source of 0.25.1." in text
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert len(plan["scenarios"]) == 36
    assert len(plan["runs"]) == 12
    assert (tmp_path / "vllm_bench.sh").read_text().count("vllm bench serve") == 36 * 3


def test_flags_of_a_bench_of_another_version_are_said_to_be_unverified(tmp_path: Path) -> None:
    from llm_locust.matrix.config import read_config

    config = read_config("vllm")
    config = msgspec.structs.replace(config, engine=msgspec.structs.replace(config.engine, version="0.33.0"))
    write_plan(config, "dry-run", tmp_path)
    assert "for 0.33.0 they are unverified" in (tmp_path / "plan.md").read_text()


def test_a_facts_file_that_contradicts_a_setting_is_refused_by_its_line(config: MatrixConfig, tmp_path: Path) -> None:
    facts = tmp_path / "facts.toml"
    facts.write_text('owner = "me"\nprefix_caching = true\n')
    axis = config.axis[0]
    off, on = (
        msgspec.structs.replace(setting, facts={"prefix_caching": setting.name == "on"}) for setting in axis.settings
    )
    config = msgspec.structs.replace(config, facts=str(facts), axis=[msgspec.structs.replace(axis, settings=[on])])
    write_plan(config, "dry-run", tmp_path / "out")
    assert (tmp_path / "out" / "facts" / "on.toml").read_text() == 'owner = "me"\nprefix_caching = true\n'
    config = msgspec.structs.replace(config, axis=[msgspec.structs.replace(axis, settings=[off])])
    with pytest.raises(UsageError, match="line 2: prefix_caching is True, but False with the settings off"):
        write_plan(config, "dry-run", tmp_path / "out")


def test_a_plan_of_an_edited_matrix_removes_what_only_the_earlier_one_wrote(tmp_path: Path) -> None:
    from llm_locust.matrix.config import read_config

    write_plan(read_config("vllm"), "dry-run", tmp_path)
    mine = tmp_path / "mixes" / "mine.toml"
    mine.write_text("")
    before = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert {Path("vllm_bench.sh"), Path("mixes/mixed.toml"), Path("facts/baseline.toml")} <= before
    write_plan(read_config("llama_cpp"), "dry-run", tmp_path)
    write_plan(read_config("llama_cpp"), "dry-run", tmp_path / "alone")
    after = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    alone = {path.relative_to("alone") for path in after if path.parts[0] == "alone"}
    assert {path for path in after if path.parts[0] != "alone"} == {*alone, Path("mixes/mine.toml")}


def test_a_plan_that_names_files_outside_its_folder_removes_none_of_them(tmp_path: Path) -> None:
    from llm_locust.matrix.config import read_config

    outside = tmp_path / "outside"
    outside.write_text("")
    (tmp_path / "plan").mkdir()
    (tmp_path / "plan" / "plan.json").write_text(json.dumps({"files": ["../outside", str(outside)]}))
    write_plan(read_config("vllm"), "dry-run", tmp_path / "plan")
    assert outside.exists()
    (tmp_path / "plan" / "plan.json").write_text("{}")
    with pytest.raises(UsageError, match=r"plan\.json there is no plan of this version: give another folder"):
        write_plan(read_config("vllm"), "dry-run", tmp_path / "plan")


def test_the_size_of_a_plan_and_what_is_missing_is_said() -> None:
    from llm_locust.matrix.config import read_config
    from llm_locust.matrix.plan_files import plan_summary

    config = read_config("vllm")
    first, *missing = plan_summary(config)
    requests = 3 * (1 + 4 + 16) * (config.load.requests_per_slot or 0) * 12
    assert first.startswith("36 scenarios in 12 locust runs, 3 starts of ")
    assert f"3 rounds: {requests:,} measured requests, and 108 warm-ups" in first
    assert "still to be filled in: values.model = '<MODEL>'" in missing
