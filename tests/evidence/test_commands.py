"""``llm-locust validate`` and ``llm-locust facts`` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from llm_locust.analysis.evidence_files import write_records
from llm_locust.cli.facts import command as facts
from llm_locust.cli.validate import command as validate
from llm_locust.records import RunFolder, UsageError
from llm_locust.records.evidence_schema import schema_text
from llm_locust.records.facts import FACT_NAMES, template
from tests.evidence.by_hand import document, manifest, stage, summary


def run(*arguments: object) -> Result:
    return CliRunner().invoke(validate, [str(argument) for argument in arguments])


def file(folder: Path, name: str = "record.json", **changes: object) -> Path:
    path = folder / name
    path.write_bytes(msgspec.json.encode(document(**changes)))
    return path


def test_valid_records_exit_0(tmp_path: Path) -> None:
    result = run(file(tmp_path))
    assert (result.exit_code, result.output) == (0, "1 of 1 record valid\n")


def test_a_violation_is_named_with_file_field_value_and_rule_and_exits_4(tmp_path: Path) -> None:
    good, bad = file(tmp_path), file(tmp_path, "bad.json", ttft_p50_ms=900.0, lost=None, not_sent=143)
    result = run(good, bad)
    assert result.exit_code == 4
    assert result.output == (
        f"{bad}: ttft_p50_ms = 900.0: ttft_p50_ms <= ttft_p95_ms, which is 800.0\n1 of 2 records valid\n"
    )


def test_a_run_folder_stands_for_its_records(tmp_path: Path) -> None:
    write_records(RunFolder(tmp_path), manifest(rounds=2), summary(stage(), stage(round=1)))
    assert run(tmp_path).output == "2 of 2 records valid\n"
    assert run(tmp_path / "records").output == "2 of 2 records valid\n"
    assert run(tmp_path, tmp_path / "records" / "stage-0-round-0.json").output == "2 of 2 records valid\n"


@pytest.mark.parametrize(("raw", "rule"), [(b"{", "a record is JSON: "), (b"[1]", "[1]: a record is one JSON object")])
def test_what_is_no_record_at_all_is_not_valid(tmp_path: Path, raw: bytes, rule: str) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(raw)
    result = run(path)
    assert result.exit_code == 4
    assert rule in result.output


def test_a_terminal_is_shown_what_a_file_holds_and_does_not_obey_it(tmp_path: Path) -> None:
    path = file(tmp_path, owner="500 users\x1b[2J\x9b" + "x" * 200)
    result = run(path)
    assert result.exit_code == 4
    assert all(character.isprintable() or character == "\n" for character in result.output)
    assert max(map(len, result.output.splitlines())) < len(str(path)) + 250


@pytest.mark.parametrize("arguments", [(), ("missing.json",)])
def test_nothing_to_check_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    assert isinstance(run(*arguments).exception, UsageError)


def test_a_folder_without_records_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").touch()
    error = run(tmp_path).exception
    assert isinstance(error, UsageError)
    assert f"run llm-locust merge {tmp_path} first" in str(error)


def test_a_folder_that_is_no_run_folder_is_not_to_be_merged(tmp_path: Path) -> None:
    (tmp_path / "20260101-000000-0000").mkdir()
    (tmp_path / "20260101-000000-0000" / "manifest.json").touch()
    error = run(tmp_path).exception
    assert isinstance(error, UsageError)
    assert f"{tmp_path / '20260101-000000-0000'} is the newest in it" in str(error)


def test_a_file_that_is_no_json_is_named_once(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.touch()
    assert f"{path}: a record is JSON: " in run(path).output


def test_the_schema_can_be_had() -> None:
    assert run("--schema").output == schema_text()
    assert json.loads(schema_text())["title"] == "Evidence record, schema 1.1"


def test_the_template_is_printed_and_can_be_checked(tmp_path: Path) -> None:
    printed = CliRunner().invoke(facts, ["--template"])
    assert (printed.exit_code, printed.output) == (0, template())
    path = tmp_path / "facts.toml"
    path.write_text(printed.output.replace('owner = ""', 'owner = "us"').replace('cuda = ""', 'cuda = "12.8"'))
    checked = CliRunner().invoke(facts, [str(path)])
    assert checked.exit_code == 0
    lines = checked.output.splitlines()
    assert lines[0] == f"{path}: 2 of {len(FACT_NAMES)} facts known"
    assert lines[-1] == "The record, not known: evidence_location, retest_when"


def test_a_facts_file_that_cannot_be_used_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "facts.toml"
    path.write_text("ownr = 'us'")
    error = CliRunner().invoke(facts, [str(path)]).exception
    assert isinstance(error, UsageError)
    assert str(error) == f"{path}, line 1: ownr is not a fact; did you mean owner?"


@pytest.mark.parametrize("arguments", [[], ["--template", "facts.toml"]])
def test_facts_wants_a_file_or_the_template(arguments: list[str]) -> None:
    assert isinstance(CliRunner().invoke(facts, arguments).exception, UsageError)
