"""Facts typed in after a run: written into its folder, taken in by the next merge, refused where the server differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llm_locust.records import RunFolder, UsageError
from llm_locust.records.facts import read_facts
from llm_locust.report import merge_run, report_run
from llm_locust.web.workbench.remerge import options_of_the_last
from tests.analysis.run_builder import RunBuilder
from tests.web.workbench.asking import refused, told

SAID = {"engine_version": "0.11.0", "context_limit_tokens": "8192"}
STATED = {"owner": "Nobody", "cuda": "12.8"}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    run = RunBuilder(tmp_path, slo={"ttft": 500}, model="m", facts=STATED, server_facts_start=SAID)
    run.stage(rate=2).requests(120, over=60)
    run.write()
    merge_run(run.folder.path)
    return run.folder


def record(folder: RunFolder) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder.records_dir / "stage-0-round-0.json").read_bytes())
    return found


def test_what_is_typed_fills_blanks_of_the_records_and_corrects_what_was_stated(folder: RunFolder) -> None:
    assert (record(folder)["owner"], record(folder)["cpu"]) == ("Nobody", None)
    found = told("facts", folder=folder.path, owner='A "team" \\ of ours', cpu="EPYC", ram_gb="768", retest_when="a\nb")
    assert (found["known"], found["file"]) == (4, str(folder.facts))
    assert read_facts(folder.facts).values == {
        "owner": 'A "team" \\ of ours', "cpu": "EPYC", "ram_gb": 768, "retest_when": ["a", "b"],
    }  # fmt: skip
    merge_run(folder.path)
    now = record(folder)
    assert (now["owner"], now["cpu"], now["ram_gb"], now["cuda"]) == ('A "team" \\ of ours', "EPYC", 768.0, "12.8")
    assert (now["engine_version"], now["retest_when"][-2:]) == ("0.11.0", ["a", "b"])
    assert "EPYC" in folder.worksheet_csv.read_text()
    told("facts", folder=folder.path)  # all blank again
    report_run(folder.path)
    assert "EPYC" not in folder.worksheet_csv.read_text()


def test_a_contradiction_with_the_server_is_refused_with_both_values(folder: RunFolder) -> None:
    assert refused("facts", folder=folder.path, engine_version="0.10.0", cpu="EPYC") == {
        "engine_version": "engine_version is '0.10.0', but the server said '0.11.0': correct it, or leave it blank"
    }
    assert not folder.facts.exists()
    before = record(folder)
    folder.facts.write_text('\nengine_version = "0.10.0"\n')  # by somebody with an editor
    with pytest.raises(
        UsageError, match=r"facts\.toml, line 2: engine_version is '0\.10\.0', but the server said '0\.11\.0'"
    ):
        merge_run(folder.path)
    assert record(folder) == before


@pytest.mark.parametrize(
    ("fields", "messages"),
    [
        ({"ram_gb": "1,5"}, {"ram_gb": "has a comma"}),
        ({"replicas": "0"}, {"replicas": "replicas is 0, which it cannot be: leave it blank if it is not known"}),
        ({"environment": "500 users"}, {"environment": "states a number of users"}),
        ({"ttft_p95_ms": "5"}, {"ttft_p95_ms": "there is no such field"}),
        ({"weights_sha256": "abc"}, {"weights_sha256": "write text, e.g."}),
    ],
)
def test_what_is_no_fact_is_refused_by_field(
    folder: RunFolder, fields: dict[str, str], messages: dict[str, str]
) -> None:
    found = refused("facts", folder=folder.path, **fields)
    assert list(found) == list(messages)
    assert all(message in found[name] for name, message in messages.items())
    assert not folder.facts.exists()


def test_the_page_opens_with_records_worksheet_and_who_said_what(folder: RunFolder) -> None:
    told("facts", folder=folder.path, cpu="EPYC")
    run = told("opening", folder=folder.path)["run"]
    assert (run["run_id"], [one["label"] for one in run["records"]]) == ("run-1", ["open 2/s poisson"])
    assert run["records"][0]["fields"]["measured_requests"] == "120"
    assert "evictions" not in run["records"][0]["fields"]
    assert run["worksheet"][0]["traffic shape: offered rate [req/s]"] == "2"
    assert run["facts"] == {
        "typed": {"cpu": "EPYC"},
        "stated": STATED,
        "said": {"model_id": "m", "engine_version": "0.11.0", "context_limit_tokens": "8192"},
        "problem": None,
    }


def test_a_facts_file_that_cannot_be_read_is_told_and_the_page_still_opens(folder: RunFolder) -> None:
    folder.facts.write_text("owner = ?")
    facts = told("opening", folder=folder.path)["run"]["facts"]
    assert "not TOML" in facts["problem"]
    assert facts["typed"] == {}


def test_a_folder_that_is_no_run_is_a_problem_and_not_a_crash(tmp_path: Path) -> None:
    found = told("opening", folder=tmp_path)
    assert found["run"] is None
    assert "is not a run folder" in found["problem"]
    assert told("opening")["problem"] is None
    assert "no judged run" in refused("facts", owner="a")["request"]


def test_a_merge_reads_again_what_the_last_one_read_from_elsewhere(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "here", slo={"ttft": 500})
    run.stage(rate=2).requests(60, over=60)
    run.write()
    other = tmp_path / "there"
    other.mkdir()
    (file,) = run.folder.request_files()
    file.rename(other / file.name)
    merge_run(run.folder.path, [other])
    assert options_of_the_last(run.folder) == ["--from", str(other)]
    (other / file.name).unlink()
    with pytest.raises(UsageError, match="which is not there now: run llm-locust merge"):
        options_of_the_last(run.folder)
