"""What a million good output tokens cost: time that failed or stood idle is paid, its tokens do not count."""

from __future__ import annotations

from pathlib import Path

from llm_locust.analysis.cost import cost_per_million_good_tokens
from llm_locust.report import merge_run
from tests.analysis.run_builder import RunBuilder


def test_price_over_good_tokens_of_an_hour() -> None:
    # 100 tokens/s are 360,000 an hour: a price of 3.6 buys them, so a million cost 10.
    assert cost_per_million_good_tokens(3.6, 100.0) == 10.0


def test_no_good_token_costs_without_end_and_no_price_costs_nothing_known() -> None:
    assert cost_per_million_good_tokens(3.6, 0.0) == "inf"
    assert cost_per_million_good_tokens(None, 100.0) is None
    assert cost_per_million_good_tokens(3.6, None) is None


def test_only_good_requests_tokens_inside_the_window_count(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 500}, options={"price_per_hour": "7.2"})
    stage = run.stage(rate=1, window=10)
    stage.request(1.0, ttft=100, e2e=500, tokens=50)
    stage.request(2.0, ttft=900, e2e=1000, tokens=500)  # late: paid for, and not good
    stage.request(3.0, outcome="timeout", e2e=1000)
    stage.request(-5.0, ttft=100, e2e=500, tokens=70, phase="warmup")
    reported = merge_run(run.write())
    (found,) = reported.summary.stages
    assert found.good_output_tokens_in_window_tps == 5.0
    assert found.cost_per_million_good_tokens == 7.2 / (5 * 3600) * 1e6
    assert reported.summary.price_per_hour == 7.2
    assert "- Cost: 400 per million good output tokens" in reported.report.read_text()
