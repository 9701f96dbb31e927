"""The load generator's own check: by the rule that makes a stage valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_locust.records.summary import StageSummary
from llm_locust.report import merge_run
from llm_locust.smoke.dispatch import dispatch_accuracy
from tests.analysis.run_builder import RunBuilder


def judged(folder: Path, lags: list[float]) -> StageSummary:
    run = RunBuilder(folder)
    stage = run.stage(rate=5, window=20)
    for lag in lags:
        stage.request(1, lag=lag)
    return merge_run(run.write()).summary.stages[0]


def test_arrivals_on_time_pass_with_their_lags(tmp_path: Path) -> None:
    found = dispatch_accuracy(judged(tmp_path, [0.25] * 20 + [5.0] * 16))
    assert (found.result, found.reason) == ("pass", None)
    assert found.seen == (
        "36 arrivals planned at 5/s: dispatch lag P50 0.25 ms, P99 5 ms; "
        "0 of 36 late by more than 5 ms (allowed: 1 %, and one at least)"
    )


def test_one_late_arrival_of_36_voids_nothing_and_two_fail(tmp_path: Path) -> None:
    one = dispatch_accuracy(judged(tmp_path / "one", [0.25] * 35 + [7.0]))
    assert one.result == "pass"
    assert one.seen.endswith("P99 7 ms; 1 of 36 late by more than 5 ms (allowed: 1 %, and one at least)")
    found = dispatch_accuracy(judged(tmp_path / "two", [0.25] * 34 + [7.0, 9.0]))
    assert found.result == "fail"
    assert "2 of 36 arrivals by more than 5 ms (lag P99 9.0 ms)" in (found.reason or "")
    assert "P99 9 ms" in found.seen


def test_arrivals_that_were_never_dispatched_fail(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=5, window=20)
    stage.requests(35)
    stage.request(1, outcome="not_sent", dispatched_ns=None, sent_ns=None)
    found = dispatch_accuracy(merge_run(run.write()).summary.stages[0])
    assert (found.result, found.reason) == ("fail", "not every planned arrival was dispatched")


def test_without_a_run_there_is_nothing_to_hold_to_the_rule() -> None:
    assert dispatch_accuracy(None).result == "not_applicable"


@pytest.mark.parametrize("lag", [0.0, 4.9])
def test_the_lags_are_those_of_the_batch(tmp_path: Path, lag: float) -> None:
    assert f"P99 {lag:g} ms" in dispatch_accuracy(judged(tmp_path, [lag] * 12)).seen
