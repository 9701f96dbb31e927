"""Result files of vLLM's bench, AIPerf and GuideLLM as run folders: rows, what the tools printed, what is not known.

``files/`` holds real results of 20 requests each against a server that sends its first token after 50 ms and 20 tokens 10 ms
apart; fields that nobody reads were left out, values are as the tools wrote them.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from llm_locust.analysis.evidence_rules import violations
from llm_locust.analysis.imported import FORMATS, read_result
from llm_locust.analysis.imported.base import failure
from llm_locust.analysis.merged_file import read_merged
from llm_locust.cli import llm_locust
from llm_locust.records import Manifest, Outcome, RunFolder, UsageError
from llm_locust.records.evidence import EvidenceRecord
from llm_locust.report import merge_run, report_run
from llm_locust.report.imported import import_file
from llm_locust.report.run import Reported

FILES = Path(__file__).with_name("files")
VLLM, AIPERF, GUIDELLM = FILES / "vllm_bench.json", FILES / "profile_export.jsonl", FILES / "benchmarks.json"
ALL = {"vllm": VLLM, "aiperf": AIPERF, "guidellm": GUIDELLM}


def imported(tmp_path: Path, path: Path, **options: Any) -> Reported:
    return import_file(path, out=tmp_path / "run", **options)


def changed(tmp_path: Path, path: Path, change: Callable[[Any], None]) -> Path:
    """A copy of a JSON file with a change; the other tool's companion file comes along."""
    value = json.loads(path.read_bytes())
    change(value)
    copy = tmp_path / path.name
    copy.write_text(json.dumps(value))
    return copy


def aiperf(
    tmp_path: Path,
    change_lines: Callable[[list[Any]], None] = lambda _: None,
    change_summary: Callable[[Any], None] = lambda _: None,
) -> Path:
    lines = [json.loads(line) for line in AIPERF.read_text().splitlines()]
    change_lines(lines)
    copy = tmp_path / AIPERF.name
    copy.write_text("".join(json.dumps(line) + "\n" for line in lines))
    changed(tmp_path, FILES / "profile_export_aiperf.json", change_summary)
    return copy


def column(folder: Path, name: str) -> list[float]:
    rows, _ = read_merged(RunFolder(folder).merged)
    return [float(value) for value in rows[name]]


# The figures


@pytest.mark.parametrize("path", ALL.values(), ids=ALL)
def test_the_tool_is_found_by_what_the_file_holds(path: Path, tmp_path: Path) -> None:
    nameless = tmp_path / "x.txt"
    shutil.copy(path, nameless)
    shutil.copy(FILES / "profile_export_aiperf.json", tmp_path / "x_aiperf.json")
    run = read_result(nameless, nameless.read_bytes())
    assert (
        run.tool
        == {"vllm": "vLLM bench", "aiperf": "AIPerf", "guidellm": "GuideLLM"}[
            next(name for name, known in ALL.items() if known == path)
        ]
    )


def test_what_vllm_printed_comes_out_of_the_rows(tmp_path: Path) -> None:
    imported(tmp_path, VLLM)
    printed = json.loads(VLLM.read_bytes())
    for name, key in (("ttft_ms", "ttft"), ("tpot_ms", "tpot"), ("e2e_ms", "e2el")):
        values = column(tmp_path / "run", name)
        assert len(values) == 20
        assert np.percentile(values, 50) == pytest.approx(printed[f"median_{key}_ms"], abs=1e-5)
        assert np.percentile(values, 99) == pytest.approx(printed[f"p99_{key}_ms"], abs=1e-5)
        assert np.mean(values) == pytest.approx(printed[f"mean_{key}_ms"], abs=1e-5)


def test_what_aiperf_printed_comes_out_of_the_rows(tmp_path: Path) -> None:
    imported(tmp_path, AIPERF)
    printed = json.loads((FILES / "profile_export_aiperf.json").read_bytes())
    for name, key in (("ttft_ms", "time_to_first_token"), ("e2e_ms", "request_latency")):
        values = column(tmp_path / "run", name)
        for at in (50, 95, 99):
            assert np.percentile(values, at) == pytest.approx(printed[key][f"p{at}"], abs=1e-5)


def test_what_guidellm_printed_comes_out_of_the_rows(tmp_path: Path) -> None:
    reported = imported(tmp_path, GUIDELLM)
    metrics = json.loads(GUIDELLM.read_bytes())["benchmarks"][0]["metrics"]
    told = metrics["time_to_first_token_ms"]["successful"]["percentiles"]
    for at in (50, 95, 99):
        found = reported.summary.stages[0].percentiles[f"ttft_p{at}_ms"].value
        # Its rank at 50 % is one above the nearest.
        assert found == pytest.approx(told[f"p{at}"], abs=1e-4 if at > 50 else 0.05)
    values = column(tmp_path / "run", "tpot_ms")
    assert np.mean(values) == pytest.approx(metrics["inter_token_latency_ms"]["successful"]["mean"], abs=1e-4)


@pytest.mark.parametrize("path", ALL.values(), ids=ALL)
def test_a_file_that_adds_up_is_not_contradicted(path: Path, tmp_path: Path) -> None:
    manifest = Manifest.load(RunFolder(imported(tmp_path, path).report.parent).manifest)
    assert manifest.transcribed is not None
    assert [said for said in manifest.transcribed.lacks if "prints" in said] == []


def test_a_printed_figure_that_does_not_follow_from_the_rows_is_named(tmp_path: Path) -> None:
    def flatter(result: Any) -> None:
        result["p99_ttft_ms"] = 20.0

    summary = imported(tmp_path, changed(tmp_path, VLLM, flatter)).summary
    assert "The file prints TTFT P99 20 ms, but its rows give 52.3578 ms." in summary.limitations


def test_goodput_is_judged_request_by_request(tmp_path: Path) -> None:
    stage = imported(tmp_path, VLLM, slo={"ttft": 52.0, "tpot": 20.0}).summary.stages[0]
    over = sum(ttft > 0.052 for ttft in json.loads(VLLM.read_bytes())["ttfts"])
    assert (stage.measured, stage.good_requests) == (20, 20 - over)
    assert stage.seconds_method == "first_sent_to_last_end"


@pytest.mark.parametrize(("path", "source"), [(VLLM, "tokenizer"), (AIPERF, "usage"), (GUIDELLM, "tokenizer")], ids=ALL)
def test_tokens_are_the_servers_only_where_the_file_says_so(path: Path, source: str, tmp_path: Path) -> None:
    stage = imported(tmp_path, path).summary.stages[0]
    assert stage.token_sources == {source: 20}
    assert (stage.prompt_tokens, stage.output_tokens) == (100, 400)


def test_without_a_usage_report_aiperf_counts_by_its_tokenizer(tmp_path: Path) -> None:
    def forget(lines: list[Any]) -> None:
        for line in lines[:5]:
            del line["metrics"]["usage_completion_tokens"]

    summary = imported(tmp_path, aiperf(tmp_path, forget)).summary
    assert summary.stages[0].token_sources == {"usage": 15, "tokenizer": 5}
    assert summary.stages[0].output_tokens == 15 * 20 + 5 * 66
    assert any("of 5 requests were counted by AIPerf's tokenizer" in said for said in summary.limitations)


# What is not known


@pytest.mark.parametrize("path", [VLLM, AIPERF], ids=["vllm", "aiperf"])
def test_what_the_file_does_not_say_is_null(path: Path, tmp_path: Path) -> None:
    folder = RunFolder(imported(tmp_path, path).report.parent)
    with folder.merged.open() as file:
        for row in csv.DictReader(file):
            for name in (
                "planned_ns",
                "dispatched_ns",
                "client_wait_ms",
                "cap_wait_ms",
                "clock",
                "finish_reason",
                "status",
            ):
                assert row[name] == ""


def test_guidellm_tells_planned_times_and_no_gaps(tmp_path: Path) -> None:
    stage = imported(tmp_path, GUIDELLM).summary.stages[0]
    assert stage.percentiles["client_wait_p95_ms"].n == 20
    assert stage.percentiles["cap_wait_p95_ms"].n == 0
    assert stage.percentiles["itl_p95_ms"].n == 0


@pytest.mark.parametrize("path", ALL.values(), ids=ALL)
def test_the_record_is_transcribed_and_valid(path: Path, tmp_path: Path) -> None:
    folder = RunFolder(imported(tmp_path, path, slo={"ttft": 500.0}).report.parent)
    (file,) = folder.records_dir.glob("*.json")
    record = EvidenceRecord.load(file)
    assert violations(json.loads(file.read_bytes())) == []
    assert (record.evidence_grade, record.result, record.generator) == ("transcribed", "undetermined", None)
    assert (record.workload_sha256, record.dispatched, record.drain_policy) == (None, None, None)
    assert record.gates_set == "after"
    assert record.attainment == 1.0


@pytest.mark.parametrize("path", ALL.values(), ids=ALL)
def test_no_stage_of_another_tool_passes_or_fails_and_its_generator_is_not_blamed(path: Path, tmp_path: Path) -> None:
    summary = imported(tmp_path, path, slo={"ttft": 1.0}).summary
    verdict = summary.stages[0].verdict
    assert verdict.result == "undetermined"
    assert "by its rows it fails: ttft: 20 of 20 over 1 ms" in verdict.sentence
    assert "generator_limited" not in [found.rule for found in summary.findings]
    assert summary.limits_set == "after"


def test_it_stays_transcribed_when_it_is_judged_again(tmp_path: Path) -> None:
    folder = imported(tmp_path, VLLM).report.parent
    before = RunFolder(folder).summary.read_bytes()
    assert merge_run(folder).summary.limits_set == "after"
    assert RunFolder(folder).summary.read_bytes() == before
    again = report_run(folder, {"ttft": 500.0})
    assert again.report.name == "report-slo-ttft500.md"
    assert again.summary.stages[0].verdict.result == "undetermined"


def test_the_worksheet_of_an_import_says_what_was_not_planned_here(tmp_path: Path) -> None:
    folder = RunFolder(imported(tmp_path, VLLM).report.parent)
    with folder.worksheet_csv.open() as file:
        (row,) = csv.DictReader(file)
    assert row["traffic shape: offered rate [req/s]"] == "10"
    assert row["traffic shape: warm-up [s]"] == ""
    assert row["traffic shape: deadline [s]"] == ""
    assert row["decision: evidence grade"] == "transcribed"


# The load


@pytest.mark.parametrize("path", ALL.values(), ids=ALL)
def test_an_open_rate_is_one(path: Path, tmp_path: Path) -> None:
    stage = imported(tmp_path, path).summary.stages[0]
    assert (stage.mode, stage.rate_rps, stage.arrivals, stage.concurrency) == ("open", 10.0, "poisson", None)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"request_rate": "inf", "max_concurrency": 4}, ("closed", None, 4)),
        ({"request_rate": "inf"}, ("closed", None, 20)),
        ({"burstiness": 0.25}, ("open", "gamma:cv=2", None)),
    ],
)
def test_the_loads_of_vllm(tmp_path: Path, change: dict[str, Any], expected: tuple[Any, ...]) -> None:
    stage = imported(tmp_path, changed(tmp_path, VLLM, lambda result: result.update(change))).summary.stages[0]
    assert (stage.mode, stage.arrivals, stage.concurrency) == expected


def test_a_cap_beside_a_rate_is_the_clients_cap(tmp_path: Path) -> None:
    path = changed(tmp_path, VLLM, lambda result: result.update(max_concurrency=7))
    assert imported(tmp_path, path).summary.max_in_flight == 7


def test_the_loads_of_aiperf(tmp_path: Path) -> None:
    def closed(summary: Any) -> None:
        summary["input_config"]["phases"] = [{"kind": "profiling", "type": "concurrency", "concurrency": 8}]

    stage = imported(tmp_path, aiperf(tmp_path, change_summary=closed)).summary.stages[0]
    assert (stage.mode, stage.concurrency) == ("closed", 8)


def test_each_benchmark_of_guidellm_is_a_stage(tmp_path: Path) -> None:
    def sweep(whole: Any) -> None:
        second = json.loads(json.dumps(whole["benchmarks"][0]))
        second["config"]["strategy"] = {"type_": "concurrent", "streams": 3}
        whole["benchmarks"].append(second)

    stages = imported(tmp_path, changed(tmp_path, GUIDELLM, sweep)).summary.stages
    assert [(stage.mode, stage.rate_rps, stage.concurrency) for stage in stages] == [
        ("open", 10.0, None),
        ("closed", None, 3),
    ]
    assert [stage.percentiles["client_wait_p95_ms"].n for stage in stages] == [20, 0]


def test_a_warm_up_of_aiperf_is_not_measured(tmp_path: Path) -> None:
    def warm(lines: list[Any]) -> None:
        for line in lines[:4]:
            line["metadata"]["benchmark_phase"] = "warmup"

    stage = imported(tmp_path, aiperf(tmp_path, warm)).summary.stages[0]
    assert (stage.measured, stage.warmup_requests) == (16, 4)


# Failures


@pytest.mark.parametrize(
    ("text", "status", "expected"),
    [
        ("Service Unavailable", None, (Outcome.REJECTED, 503, True)),
        ("Too Many Requests", None, (Outcome.REJECTED, 429, True)),
        ("Internal Server Error", None, (Outcome.HTTP_ERROR, 500, True)),
        ("CUDA out of memory", 500, (Outcome.OOM, 500, True)),
        ("Server error '502 Bad Gateway' for url 'http://x'", None, (Outcome.HTTP_ERROR, 502, True)),
        ("RequestCancellationError: Request was cancelled after 0.000 seconds", 499, (Outcome.CANCELLED, None, True)),
        ("Traceback (most recent call last):\n  File x, line 503\nTimeoutError\n", None, (Outcome.TIMEOUT, None, True)),
        ("aiohttp.ClientConnectorError: Cannot connect to host", None, (Outcome.CONNECT_ERROR, None, True)),
        ("aiohttp.ServerDisconnectedError", None, (Outcome.CONNECTION_LOST, None, True)),
        ("Never received a valid chunk", None, (Outcome.STREAM_ERROR, None, False)),
        ("", None, (Outcome.STREAM_ERROR, None, False)),
    ],
)
def test_a_failure_is_what_its_status_or_its_text_says(
    text: str, status: int | None, expected: tuple[Any, ...]
) -> None:
    found = failure(text, status)
    assert (found.outcome, found.status, found.told) == expected


def test_failed_requests_of_vllm_stay_in_the_denominator(tmp_path: Path) -> None:
    def fail(result: Any) -> None:
        for k, text in enumerate(("Service Unavailable", "Traceback:\nWhatever: =1+1")):
            result["errors"][k], result["ttfts"][k], result["output_lens"][k] = text, 0.0, 0
            result["itls"][k], result["latencies"][k] = [], 0.0

    reported = imported(tmp_path, changed(tmp_path, VLLM, fail), slo={"ttft": 500.0})
    stage = reported.summary.stages[0]
    assert stage.outcomes == {"ok": 18, "rejected": 1, "stream_error": 1}
    assert (stage.attainment, stage.error_rate) == (0.9, 0.1)
    assert (
        "2 requests failed; of what kind is read from vLLM bench's texts; 1 say nothing of it and stand as stream_error."
        in (reported.summary.limitations)
    )


def test_failed_and_cancelled_requests_of_aiperf(tmp_path: Path) -> None:
    def fail(lines: list[Any]) -> None:
        lines[0] |= {
            "metrics": {},
            "error": {"code": 503, "type": "HTTPError", "message": "busy, api_key=sk-123456789"},
        }
        lines[1] |= {"metrics": {}, "error": {"code": 499, "type": "RequestCancellationError", "message": "cancelled"}}
        lines[1]["metadata"]["was_cancelled"] = True

    reported = imported(tmp_path, aiperf(tmp_path, fail))
    assert reported.summary.stages[0].outcomes == {"ok": 18, "rejected": 1, "cancelled": 1}
    assert "sk-123456789" not in RunFolder(reported.report.parent).merged.read_text()


def test_failed_and_unfinished_requests_of_guidellm(tmp_path: Path) -> None:
    def fail(whole: Any) -> None:
        benchmark = whole["benchmarks"][0]
        kept = benchmark["requests"]
        kept["errored"], kept["incomplete"] = [kept["successful"].pop()], [kept["successful"].pop()]
        kept["errored"][0]["info"]["error"] = "ReadTimeout"
        benchmark["metrics"]["request_totals"] = {"successful": 18, "errored": 1, "incomplete": 1}

    stage = imported(tmp_path, changed(tmp_path, GUIDELLM, fail)).summary.stages[0]
    assert stage.outcomes == {"ok": 18, "timeout": 1, "cancelled": 1}


# Bad files


def refused(tmp_path: Path, path: Path, **options: Any) -> str:
    with pytest.raises(UsageError) as error:
        imported(tmp_path, path, **options)
    assert not (tmp_path / "run").exists()
    return str(error.value).removeprefix(f"{path}").removeprefix(": ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("hello", "not JSON: Expecting value: line 1 column 1 (char 0)"),
        ('{"a": 1}', "of no tool that is known here; known are vllm ("),
        ("[1, 2]", "of no tool that is known here; known are vllm ("),
        ('{"a": 1}\n{"a"', ", line 2: not JSON: "),
        ("[" * 100_000, "not JSON: "),
        ('{"benchmarks": [], "metadata": {"guidellm_version": "1"}}', "it holds no benchmark"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    assert refused(tmp_path, path).startswith(message)


def test_a_result_without_its_details_says_how_to_get_them(tmp_path: Path) -> None:
    def plain(result: Any) -> None:
        for name in ("ttfts", "itls", "errors", "input_lens", "output_lens", "start_times"):
            del result[name]

    assert refused(tmp_path, changed(tmp_path, VLLM, plain)) == (
        "a result of vLLM bench, but without input_lens, output_lens, ttfts, itls, errors, start_times: run the bench with "
        "--save-result --save-detailed (start_times needs a version that writes them)"
    )


def test_lists_of_different_lengths_are_named(tmp_path: Path) -> None:
    path = changed(tmp_path, VLLM, lambda result: result["ttfts"].pop())
    assert "its lists are not of one length: input_lens 20, output_lens 20, ttfts 19" in refused(tmp_path, path)


def test_a_field_of_another_type_is_named(tmp_path: Path) -> None:
    path = changed(tmp_path, VLLM, lambda result: result["ttfts"].__setitem__(3, "soon"))
    assert refused(tmp_path, path).endswith("at `$.ttfts[3]`")


def test_a_ramp_is_no_test_point(tmp_path: Path) -> None:
    path = changed(tmp_path, VLLM, lambda result: result.update(ramp_up_strategy="linear"))
    assert "ramp_up_strategy" in refused(tmp_path, path)


def test_the_line_of_a_bad_request_is_named(tmp_path: Path) -> None:
    path = aiperf(tmp_path, lambda lines: lines[6]["metadata"].pop("request_end_ns"))
    assert refused(tmp_path, path).startswith(", line 7: not a request of AIPerf as this version reads it: ")


def test_an_export_without_its_summary_says_what_to_put_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "alone.jsonl"
    shutil.copy(AIPERF, path)
    assert refused(tmp_path, path).endswith("put alone_aiperf.json beside it")


def test_the_summary_alone_is_not_the_export(tmp_path: Path) -> None:
    assert "give the profile_export.jsonl beside it" in refused(tmp_path, FILES / "profile_export_aiperf.json")


def test_a_sample_of_the_requests_is_refused(tmp_path: Path) -> None:
    path = changed(tmp_path, GUIDELLM, lambda whole: whole["benchmarks"][0]["requests"]["successful"].pop())
    assert "it holds 19 of 20 successful requests" in refused(tmp_path, path)


def test_a_format_that_the_file_is_not_of_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, VLLM, format_name="guidellm").startswith("not a file of GuideLLM: benchmarks.json")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert refused(tmp_path, tmp_path / "none.json") == "cannot be read: No such file or directory"


# The command


def test_a_folder_of_another_run_is_not_touched(tmp_path: Path) -> None:
    imported(tmp_path, VLLM)
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match="it holds another run"):
        imported(tmp_path, GUIDELLM)
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before
    assert imported(tmp_path, VLLM).summary.stages[0].measured == 20


def test_a_folder_with_other_files_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="it is not empty"):
        imported(tmp_path, VLLM)


def test_the_command_makes_a_folder_named_after_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(llm_locust, ["import", str(VLLM), "--slo", "ttft=52"])
    assert done.exit_code == 0, done.output
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("vllm_bench-")
    assert {path.name for path in folder.iterdir()} >= {
        "manifest.json", "requests", "requests.csv", "records", "summary.json", "report.md", "worksheet.csv", "worksheet.md",
    }  # fmt: skip
    assert "undetermined" in done.output


def test_the_help_lists_the_formats() -> None:
    shown = CliRunner().invoke(llm_locust, ["import", "--help"]).output
    assert all(name in shown for name in FORMATS)


def test_credentials_of_an_address_are_left_out(tmp_path: Path) -> None:
    def secret(whole: Any) -> None:
        whole["benchmarks"][0]["config"]["backend"]["target"] = "https://me:hush@host:8443/v1?key=hush"

    assert imported(tmp_path, changed(tmp_path, GUIDELLM, secret)).summary.host == "https://host:8443"
