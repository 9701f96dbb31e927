"""A run as its server saw it: counts of both sides, a server that became another one, files that were cut off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llm_locust.analysis.judgement import exit_code
from llm_locust.records import RunFolder, UsageError
from llm_locust.records.summary import RunSummary
from llm_locust.report import merge_run, report_run
from tests.analysis.run_builder import METRICS, RunBuilder

Tell = Callable[[float], dict[str, Any]]


def counted(at: float, requests: int = 120, prompt: int = 2400, output: int = 1320) -> dict[str, Any]:
    """So many more at the end of the minute than before it; the server had lived before."""
    done = min(max(at, 0.0), 60.0) / 60
    counts = {"requests": requests, "prompt_tokens": prompt, "generation_tokens": output}
    return {"running": 2, "waiting": 0, **{name: 7000 + round(count * done) for name, count in counts.items()}}


def merged(tmp_path: Path, tell: Tell = counted, **manifest: Any) -> RunSummary:
    run = RunBuilder(tmp_path, slo={"ttft": 500}, **manifest)
    stage = run.stage(rate=2)
    stage.requests(120)  # each 20 tokens in, 11 out
    stage.scraped(tell)
    return merge_run(run.write()).summary


def agreed(summary: RunSummary) -> str:
    assert summary.agreement is not None
    return summary.agreement.text


def test_client_and_server_agree_over_the_whole_run(tmp_path: Path) -> None:
    found = merged(tmp_path)
    assert agreed(found) == "client and server agree on 120 requests, 2400 prompt tokens and 1320 output tokens"
    assert found.agreement is not None
    assert found.agreement.differences == []


def test_tokens_that_differ_a_little_are_said_with_both_figures(tmp_path: Path) -> None:
    found = merged(tmp_path, lambda at: counted(at, prompt=2420))
    assert agreed(found) == (
        "client and server agree on 120 requests, 2400 prompt tokens (the server counts 2420) and 1320 output tokens"
    )


def test_one_request_too_many_is_named(tmp_path: Path) -> None:
    found = merged(tmp_path, lambda at: counted(at, requests=123))
    assert agreed(found) == "client and server disagree: requests: the client counted 120, the server 123 (+2.50 %)"
    assert found.agreement is not None
    assert [(d.name, d.client, d.server) for d in found.agreement.differences] == [("requests", 120, 123)]


def test_an_unverified_mapping_is_said_to_be(tmp_path: Path) -> None:
    found = merged(tmp_path, lambda at: counted(at) | {"engine": "triton", "verified": False})
    assert agreed(found).endswith("1320 output tokens (unverified mapping)")
    assert (
        "The server's figures were read by a mapping that was not held against a real page of triton."
        in found.limitations
    )


def test_requests_without_an_answer_may_or_may_not_have_been_finished(tmp_path: Path) -> None:
    def summary(parent: Path, requests: int) -> RunSummary:
        run = RunBuilder(parent)
        stage = run.stage(rate=2)
        stage.requests(117)
        stage.requests(3, outcome="timeout", first=0.1)
        stage.scraped(lambda at: counted(at, requests))
        return merge_run(run.write()).summary

    # Tokens are not compared: of the three nobody knows what the server did.
    assert agreed(summary(tmp_path / "a", 117)) == (
        "client and server agree on 117 requests; prompt tokens and output tokens were not compared, since the client does "
        "not know those of every request (3 more got no answer)"
    )
    assert agreed(summary(tmp_path / "b", 120)).startswith(
        "client and server agree on 117 requests (the server counts 120)"
    )
    assert agreed(summary(tmp_path / "c", 121)) == (
        "client and server disagree: requests: the client counted 117, the server 121 (+3.42 %) (3 more got no answer)"
    )


def test_refused_requests_are_not_expected_among_the_finished(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=2)
    stage.requests(110)
    stage.requests(10, outcome="rejected", status=429, first=0.1)
    stage.scraped(lambda at: counted(at, 110, 2200, 1210))
    assert agreed(merge_run(run.write()).summary) == (
        "client and server agree on 110 requests, 2200 prompt tokens and 1210 output tokens"
    )


def test_tokens_that_the_client_did_not_get_from_the_server_are_not_compared(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=2)
    stage.requests(120, output_tokens_source="events")
    stage.scraped(counted)
    assert agreed(merge_run(run.write()).summary) == (
        "client and server agree on 120 requests and 2400 prompt tokens; output tokens were not compared, since the client "
        "does not know those of every request"
    )


def test_a_run_that_died_is_judged_with_what_was_read_and_compares_nothing(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 500}, state="running")
    stage = run.stage(rate=2, end_ns=None, arrivals_end_ns=None)
    stage.requests(80, over=40)
    stage.scraped(counted, until=41)
    folder = RunFolder(run.write())
    with folder.server_csv.open("a") as file:
        file.write("17900000")  # the row that was being written
    found = merge_run(folder.path).summary
    assert agreed(found) == "client and server counts were not compared: a stage has no end"
    assert found.reconciliation.torn_lines == {"server.csv": 1}
    server = found.stages[0].server
    assert server is not None
    assert (server.running_peak, server.waiting_peak) == (2, 0)
    assert found.stages[0].verdict.result == "undetermined"


def test_a_run_without_metrics_says_nothing_of_its_server(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    run.stage(rate=2).requests(120)
    found = merge_run(run.write()).summary
    assert (found.stages[0].server, found.stages[0].device, found.agreement) == (None, None, None)
    assert "The server's own queue was not read: waiting_trend took no part in the verdict." in found.limitations


def test_a_broken_row_is_named_with_its_file_and_line(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=2)
    stage.requests(120)
    stage.scraped(counted)
    folder = RunFolder(run.write())
    lines = folder.server_csv.read_text().splitlines(keepends=True)
    folder.server_csv.write_text("".join([*lines[:3], "soon,and,nowhere\n", *lines[3:]]))
    with pytest.raises(UsageError, match=r"server\.csv, line 4: not a server sample"):
        merge_run(folder.path)


def test_report_takes_over_what_merge_read(tmp_path: Path) -> None:
    before = merged(tmp_path)
    after = report_run(tmp_path / "run-1", {"ttft": 50.0}).summary
    assert after.stages[0].server == before.stages[0].server
    assert after.agreement == before.agreement
    assert after.limits_set == "after"


BEFORE = {"engine": "vLLM", "engine_version": "0.11.0", "max_active_sequences": 8, "kv_cache_size_tokens": 65536}


@pytest.mark.parametrize(
    ("after", "sentence"),
    [
        ({"engine_version": "0.11.1"}, "engine version from '0.11.0' to '0.11.1'"),
        ({"max_active_sequences": 4}, "slots from 8 to 4"),
        ({"kv_cache_size_tokens": 32768}, "KV-cache size in tokens from 65536 to 32768"),
        ({"engine": "SGLang", "max_active_sequences": 4}, "engine from 'vLLM' to 'SGLang'; slots from 8 to 4"),
        ({"context_limit_tokens": 4096}, "context limit from 8192 to 4096"),
        ({"model_id": "b"}, "model from 'a' to 'b'"),
        ({"chat_template_sha256": "cd" * 32}, "chat template from abababababab... to cdcdcdcdcdcd..."),
        ({"prefix_caching": False}, "prefix caching from True to False"),
    ],
)
def test_a_server_that_became_another_one_makes_every_stage_invalid(
    tmp_path: Path, after: dict[str, Any], sentence: str
) -> None:
    start = BEFORE | {
        "context_limit_tokens": 8192, "model_id": "a", "chat_template_sha256": "ab" * 32, "prefix_caching": True,
    }  # fmt: skip
    run = RunBuilder(tmp_path, slo={"ttft": 500}, server_facts_start=start, server_facts_end=start | after)
    run.stage(rate=2).requests(120)
    run.stage(rate=3).requests(180, ttft=900)
    found = merge_run(run.write()).summary
    assert [(stage.verdict.result, stage.verdict.sentence) for stage in found.stages] == [
        ("invalid", f"not the same server from start to end of the run: {sentence}")
    ] * 2
    assert (found.sustained_rate_rps, found.first_failing_rate_rps) == (None, None)
    assert exit_code(found) == 4


@pytest.mark.parametrize(
    "end",
    [
        BEFORE,
        {},  # it was gone, or not asked
        {"engine": "vLLM", "engine_version": None, "kv_cache_size_tokens": 65536.0, "uptime_s": 90},
    ],
)
def test_what_is_the_same_or_was_not_told_twice_is_no_change(tmp_path: Path, end: dict[str, Any]) -> None:
    found = merged(tmp_path, server_facts_start=BEFORE | {"uptime_s": 1}, server_facts_end=end)
    assert found.stages[0].server_changes == []
    assert found.stages[0].verdict.result == "pass"


def test_both_reasons_are_said_when_the_generator_fell_short_too(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, server_facts_start={"engine": "vLLM"}, server_facts_end={"engine": "SGLang"})
    run.stage(rate=2).requests(120, lag=900)
    (stage,) = merge_run(run.write()).summary.stages
    assert stage.verdict.sentence.startswith("generator-limited: dispatch was late")
    assert stage.verdict.sentence.endswith(
        "; not the same server from start to end of the run: engine from 'vLLM' to 'SGLang'"
    )


def test_where_ollamas_model_lies_is_said_and_never_called_kv_usage(tmp_path: Path) -> None:
    def page(at: float) -> dict[str, Any]:
        out = 1_000_000_000 if at > 30 else 0
        held = {"model_bytes": 5_000_000_000, "model_accelerator_bytes": 5_000_000_000 - out}
        return {"engine": "ollama", "verified": False, **held}

    ps = {"size": 5_000_000_000, "size_vram": 5_000_000_000, "context_length": 4096}
    found = merged(tmp_path, page, ollama={"start": None, "end": ps | {"size_vram": 4_000_000_000}})
    assert found.residency == [
        "Ollama after load: 80 % of the model (size_vram 4 of 5 GB) in accelerator memory, loaded with a context of 4096 "
        "tokens",
        "Ollama meanwhile: between 80 % of the model (size_vram 4 of 5 GB) and 100 % of the model (size_vram 5 of 5 GB) in "
        "accelerator memory",
    ]
    server = found.stages[0].server
    assert server is not None
    assert server.kv_cache_peak_pct is None
    assert found.agreement is None  # it counts nothing
    assert not any("mapping" in said for said in found.limitations)
    assert "The server's own queue was not read: waiting_trend took no part in the verdict." in found.limitations
    assert METRICS in server.targets
