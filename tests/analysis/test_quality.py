"""Quality in the figures: counted apart from errors, part of good only where it was chosen, and its gates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llm_locust.records import UsageError, format_slo, parse_slo
from llm_locust.records.gates import format_gate, parse_gate
from llm_locust.records.summary import Gate, StageSummary
from llm_locust.report import merge_run
from tests.analysis.run_builder import RunBuilder


def stage_of(tmp_path: Path, slo: str, *gates: str, qualities: dict[str | None, int]) -> StageSummary:
    """60 s, requests of 100 ms TTFT and 1000 ms E2E, so many of each quality, and 10 rejected with 503."""
    run = RunBuilder(tmp_path, slo=parse_slo(slo), gates=list(gates))
    stage = run.stage(rate=2, window=60)
    at = 0.0
    for quality, count in qualities.items():
        for _ in range(count):
            stage.request(at, quality=quality)
            at += 0.5
    for _ in range(10):
        stage.request(at, outcome="rejected", status=503)
        at += 0.5
    return merge_run(run.write()).summary.stages[0]


FEW = {"pass": 60, "fail": 20, None: 10}


def test_quality_failures_are_no_errors_and_leave_good_alone_unless_chosen(tmp_path: Path) -> None:
    found = stage_of(tmp_path, "ttft=500", qualities=FEW)
    assert (found.quality_failures, found.quality_checked, found.quality_errors) == (20, 80, 0)
    assert (found.measured, found.successful, found.failed) == (100, 90, 10)
    assert found.outcomes == {"ok": 90, "rejected": 10}
    assert (found.good_requests, found.attainment) == (90, 0.9)


def test_chosen_it_is_judged_jointly_with_the_latency_limits(tmp_path: Path) -> None:
    found = stage_of(tmp_path, "ttft=500,quality", qualities=FEW)
    # 90 ok, all within 500 ms, 20 of them not passed; the 10 that were not checked are judged by the latency alone.
    assert (found.good_requests, found.attainment) == (70, 0.7)
    quality = found.limits[1]
    assert (quality.name, quality.judged, quality.missed, quality.not_applicable, quality.missing) == (
        "quality", 80, 20, 10, 0,
    )  # fmt: skip
    assert found.generator.lag_bound_ms == 5.0  # quality is no millisecond
    worst = found.verdict.failing_dimensions[0]
    assert (worst.name, worst.detail) == ("quality", "20 of 80 not passed")


@pytest.mark.parametrize(
    ("slo", "qualities", "why"),
    [
        ("ttft=500,quality", {"pass": 60, "error": 30}, "quality is missing for 30 of 90 ok requests"),
        ("ttft=500,quality", {None: 90}, "quality is missing for 90 of 90 ok requests"),
        (
            "quality",
            {"pass": 60, None: 30},
            "no chosen limit applies to 30 of 90 ok requests (one-token replies or replies that were not checked)",
        ),
    ],
)
def test_chosen_and_not_known_there_is_no_goodput(
    tmp_path: Path, slo: str, qualities: dict[str | None, int], why: str
) -> None:
    found = stage_of(tmp_path, slo, qualities=qualities)
    assert found.goodput_rps is None
    assert found.goodput_unavailable == why


def test_without_a_check_there_is_no_number_of_failures(tmp_path: Path) -> None:
    found = stage_of(tmp_path, "ttft=500", qualities={None: 90})
    assert (found.quality_failures, found.quality_checked, found.quality_errors) == (None, None, 0)


def test_a_check_that_failed_itself_is_counted_apart(tmp_path: Path) -> None:
    found = stage_of(tmp_path, "ttft=500", qualities={"pass": 60, "fail": 20, "error": 10})
    assert (found.quality_failures, found.quality_checked, found.quality_errors) == (20, 80, 10)


def gate(found: StageSummary, name: str) -> Gate:
    return next(of for of in found.verdict.gates if of.name == name)


@pytest.mark.parametrize(
    ("text", "qualities", "value", "passed", "signed"),
    [
        ("quality_rate>=0.75", FEW, 0.75, True, False),  # 60 of 80, its interval reaches below
        ("quality_rate>=0.6", FEW, 0.75, True, True),  # Wilson from 0.645
        ("quality_rate>=0.99", FEW, 0.75, False, True),
        ("quality_failures<=20", FEW, 20, True, True),
        ("quality_failures=0", FEW, 20, False, True),
        ("quality_failures=0", {"pass": 90}, 0, True, True),
        ("quality_rate>=0.5", {None: 90}, None, None, False),
        ("quality_failures=0", {None: 90}, None, None, False),
        ("quality_rate>=0.5", {"pass": 80, "error": 10}, 1.0, None, False),  # the ten may have been bad
        ("quality_failures=0", {"pass": 80, "error": 10}, 0, None, False),
        ("quality_rate>=0.99", {"fail": 80, "error": 10}, 0.0, False, True),
    ],
)
def test_gates_on_quality(
    tmp_path: Path, text: str, qualities: dict[str | None, int], value: Any, passed: bool | None, signed: bool
) -> None:
    found = gate(stage_of(tmp_path, "", text, "error_rate<=0.5", qualities=qualities), parse_gate(text).name)
    assert (found.value, found.passed, found.signed) == (value, passed, signed)
    assert format_gate(parse_gate(text)) == text


def test_quality_is_written_as_a_bare_word() -> None:
    assert parse_slo("ttft=500, quality") == {"ttft": 500.0, "quality": 1.0}
    assert format_slo(parse_slo("quality,e2e=3000")) == "quality,e2e=3000"


@pytest.mark.parametrize("text", ["quality=1", "quality=0.9", "quality,quality"])
def test_quality_has_no_number_and_is_said_once(text: str) -> None:
    with pytest.raises(UsageError, match="quality"):
        parse_slo(text)


def test_planned_leavings_are_counted_among_the_cancelled(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 500.0})
    stage = run.stage(rate=2, window=60)
    for k in range(120):
        gone = k % 10 == 0
        said = {"outcome": "cancelled", "error": "left as --cancel planned, after 2 s"} if gone else {}
        stage.request(k * 0.5, **said)  # type: ignore[arg-type]
    stage.records[1].outcome, stage.records[1].error = stage.records[0].outcome, "cancelled by the client"
    summary = merge_run(run.write()).summary
    (found,) = summary.stages
    assert found.outcomes == {"ok": 107, "cancelled": 13}
    assert (found.failed, found.planned_leavings) == (13, 12)
    assert any(text.startswith("12 measured requests were dropped by their clients") for text in summary.limitations)
