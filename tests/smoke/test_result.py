"""What a smoke test prints, and the code that it exits with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from llm_locust.report import merge_run
from llm_locust.smoke.figures import SmokeFigures
from llm_locust.smoke.printing import as_json, text_lines
from llm_locust.smoke.result import Check, CheckResult, SmokeResult, failed, not_applicable, passed, undecided
from tests.analysis.run_builder import RunBuilder

NAMES = [
    "success", "failed", "request_throughput_rps", "output_token_throughput_per_s", "goodput_requests",
    "request_goodput_rps", "ttft_p95_ms", "tpot_p95_ms", "e2e_p95_ms",
]  # fmt: skip


def result(*checks: Check, **fields: Any) -> SmokeResult:
    given: dict[str, Any] = {
        "against": "simulator", "host": "http://127.0.0.1:1", "synthetic_engine": True, "note": "The figures are none.",
        "figures": SmokeFigures(), "checks": list(checks), "seconds": 12.34,
    }  # fmt: skip
    return SmokeResult(**given | fields)


def check(result: CheckResult) -> Check:
    return Check(name=result, result=result, seen="")


def test_the_figures_are_those_of_the_stage_under_names_that_do_not_change(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 500})
    stage = run.stage(rate=2, window=60)
    stage.requests(90, ttft=100, e2e=800, tokens=8)
    stage.requests(6, ttft=700, first=0.01, e2e=1400, tokens=8)
    stage.requests(4, outcome="http_error")
    found = msgspec.to_builtins(SmokeFigures.of(merge_run(run.write()).summary.stages[0]))
    assert list(found) == NAMES
    assert found == {
        "success": 96,
        "failed": 4,
        "request_throughput_rps": 1.6,
        "output_token_throughput_per_s": 12.8,
        "goodput_requests": 90,
        "request_goodput_rps": 1.5,
        "ttft_p95_ms": 700.0,
        "tpot_p95_ms": 100.0,
        "e2e_p95_ms": 1400.0,
    }


def test_figures_that_were_not_measured_are_null_and_never_0() -> None:
    shown = msgspec.json.decode(as_json(result()))
    assert shown["figures"] == dict.fromkeys(NAMES)
    assert "  goodput_requests              -" in text_lines(result())


def test_json_holds_the_checks_their_counts_and_the_exit_code() -> None:
    found = result(Check.of("usage", failed("none came", "0 tokens")), Check.of("clock", passed("0 s")))
    shown = msgspec.json.decode(as_json(found))
    assert shown["checks"] == [
        {"name": "usage", "result": "fail", "seen": "0 tokens", "reason": "none came"},
        {"name": "clock", "result": "pass", "seen": "0 s", "reason": None},
    ]
    assert shown["counts"] == {"pass": 1, "fail": 1, "not_applicable": 0, "undecided": 0}
    assert (shown["exit_code"], shown["run_folder"]) == (3, None)


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([], 0),
        (["pass", "not_applicable"], 0),
        (["pass", "undecided"], 4),
        (["undecided", "fail", "pass"], 3),
    ],
)
def test_exit_codes(results: list[CheckResult], code: int) -> None:
    assert result(*map(check, results)).exit_code == code


def test_text_tells_each_check_with_its_reason_and_what_was_seen() -> None:
    lines = text_lines(
        result(
            Check.of("usage", passed("8 tokens")),
            Check.of("chat template", failed("none was applied", "6 tokens\x1b[2J")),
            Check.of("clock", not_applicable("no Date")),
            Check.of("gates", undecided("busy", "5 gates")),
            engine="vLLM",
            engine_version="0.25.1",
            model="m",
            run_folder="/somewhere/run",
        )
    )
    assert lines == [
        "Smoke test of http://127.0.0.1:1 (vLLM 0.25.1, model m)",
        "",
        "pass      usage          8 tokens",
        "FAIL      chat template  none was applied",
        "                         seen: 6 tokens [2J",
        "n/a       clock          no Date",
        "UNDECIDED gates          busy",
        "                         seen: 5 gates",
        "",
        "The figures are none.",
        *(f"  {name:29} -" for name in NAMES),
        "",
        "4 checks: 1 passed, 1 failed, 1 undecided, 1 not applicable, in 12.3 s",
        "The run: /somewhere/run",
    ]
