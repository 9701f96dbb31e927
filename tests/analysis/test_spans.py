"""The window in spans and Little's law, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_locust.records.summary import StageSummary
from llm_locust.report import merge_run
from tests.analysis.run_builder import RunBuilder


def only_stage(run: RunBuilder) -> StageSummary:
    (stage,) = merge_run(run.write()).summary.stages
    return stage


def test_requests_are_counted_in_the_span_of_the_event_named(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 500})
    stage = run.stage(rate=1, window=10, warmup=5)
    stage.request(-0.5, e2e=2000)  # sent before the window, ends in its second span
    stage.request(0.5, ttft=200, e2e=1000, tokens=5)  # ends at 1.5
    stage.request(1.2, ttft=600, e2e=700)  # ends at 1.9, too slow to be good
    stage.request(9.5, e2e=1000)  # ends after the window
    stage.request(2.0, outcome="http_error", status=500, e2e=100)
    spans = only_stage(run).spans
    assert len(spans) == 10
    assert [span.sent for span in spans] == [1, 1, 1, 0, 0, 0, 0, 0, 0, 1]
    assert [span.completed for span in spans] == [0, 3, 1, 0, 0, 0, 0, 0, 0, 0]
    assert [span.ok for span in spans][:3] == [0, 3, 0]
    assert [span.good for span in spans][:3] == [0, 2, 0]
    assert [span.ttft_p95_ms for span in spans][:4] == [200.0, 600.0, None, None]
    # In the first span: one for all of it, one for its second half.
    assert [span.in_flight_mean for span in spans][:3] == [1.5, 0.5 + 0.5 + 0.7, 0.1]


def test_tokens_are_spread_from_the_first_output_to_the_last(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=1, window=10)
    # One token at 0.5 and ten from there to 2.5, five a second.
    stage.request(0.4, ttft=100, e2e=2100, tokens=11)
    assert [span.output_tokens for span in only_stage(run).spans][:4] == [1 + 2.5, 5.0, 2.5, 0.0]


def test_without_limits_no_span_has_good_ones(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    run.stage(rate=1, window=10).requests(10)
    assert {span.good for span in only_stage(run).spans} == {None}


def test_littles_law_holds_in_a_steady_state(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=2, window=10, warmup=10)
    for k in range(60):
        stage.request(k / 2 - 10, e2e=2000)
    law = only_stage(run).littles_law
    assert law is not None
    assert (law.in_flight_mean, law.arrival_rate_rps, law.time_in_system_s) == (4.0, 2.0, 2.0)
    assert law.ratio == 1.0
    assert law.note is None


def test_a_queue_that_builds_up_is_told_by_littles_law(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=2, window=10)
    for k in range(20):
        stage.request(k / 2, e2e=1000 + 1000 * k)  # each waits longer than the one before
    law = only_stage(run).littles_law
    assert law is not None
    # Sent every half second, the mean stay is 10.5 s, so 21 should be in flight.
    assert law.arrival_rate_rps * law.time_in_system_s == pytest.approx(21.0)
    # Those sent at 0, 0.5, ... 3 s have left by 10 s (the k-th at 1.5 k + 1); the others stay until the end.
    left = sum(1 + k for k in range(7))
    stay = sum(10 - k / 2 for k in range(7, 20))
    assert law.in_flight_mean == pytest.approx((left + stay) / 10)
    assert law.note is not None
    assert "not a steady state" in law.note


def test_nothing_sent_in_the_window_says_nothing(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    run.stage(rate=2, window=10, warmup=5).request(-3)
    assert only_stage(run).littles_law is None
