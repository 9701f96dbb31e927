"""The data of the charts, by hand: cumulative distributions, histograms, timelines, failures, the generator's health."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_locust.records import NS_PER_S
from llm_locust.records.device_sample import DeviceSample
from llm_locust.report.html.chart import csv_of
from llm_locust.report.html.timelines import bin_width
from tests.analysis.run_builder import RunBuilder
from tests.report.html.test_page import Run, written


def column(run: Run, chart: str, name: str) -> list[str]:
    return [row[name] for row in run.data(chart)]


def test_a_distribution_holds_nearest_rank_quantiles_of_all_rounds_together(tmp_path: Path) -> None:
    made = RunBuilder(tmp_path, slo={"ttft": 500})
    for round_ in (0, 1):
        stage = made.stage(rate=2, round=round_, stage=0)
        for k in range(100):
            stage.request(k / 2, ttft=2 * k + 1 + round_)  # 1 to 200 ms, odd in one round and even in the other
        stage.requests(5, outcome="timeout", first=0.1)
    found = {row["share"]: float(row["open 2 req/s (ms)"]) for row in written(made).data("distribution-ttft")}
    assert [found[share] for share in ("0.01", "0.5", "0.95", "0.995", "1.0")] == [2, 100, 190, 199, 200]


def test_gaps_are_counted_together_and_the_longest_by_request(tmp_path: Path) -> None:
    made = RunBuilder(tmp_path)
    stage = made.stage(rate=1)
    for k in range(4):
        gaps = [10_000] * 24 + [5_000_000 + k]  # beyond four seconds they are kept apart
        stage.request(k, e2e=6000, gaps_us=gaps, max_gap_ns=max(gaps) * 1000)
    run = written(made)
    itl = {row["share"]: row["open 1 req/s (ms)"] for row in run.data("distribution-itl")}
    assert (itl["0.96"], itl["0.97"], itl["1.0"]) == ("10.0", "5000.0", "5000.003")
    longest = column(run, "distribution-longest-gap", "open 1 req/s (ms)")
    assert (longest[0], longest[-1]) == ("5000.0", "5000.003")


def test_tokens_asked_for_and_got_share_their_bins(tmp_path: Path) -> None:
    made = RunBuilder(tmp_path)
    stage = made.stage(rate=1)
    for k in range(6):
        stage.request(k, tokens=10 + k // 3, max_tokens=12, prompt_tokens=100)
    run = written(made)
    rows = run.data("workload-output-tokens")
    assert [(row["from_tokens"], row["limit_asked_for"], row["generated"]) for row in rows] == [
        ("10.0", "0", "3"), ("11.0", "0", "3"), ("12.0", "6", "0"),
    ]  # fmt: skip
    # What was asked for is not known of the inputs: blank, not 0.
    assert [(row["asked_for"], row["counted"]) for row in run.data("workload-input-tokens")] == [("", "6")]


def test_a_timeline_counts_where_things_happened_with_the_server_and_its_gpu_under_it(tmp_path: Path) -> None:
    made = RunBuilder(tmp_path)
    stage = made.stage(rate=1, window=4, warmup=2, cooldown=1)
    stage.request(-1.5, e2e=1000)
    for at in (0.25, 0.5, 2.5):
        stage.request(at, e2e=1000)
    stage.request(3.25, e2e=1500, outcome="timeout")
    stage.scraped(lambda at: {"running": 2, "waiting": 1, "kv_usage": {"": 0.25}, "kv_usage_max": 0.25, "kv_usage_mean": 0.25}, until=1)
    made.devices = [
        DeviceSample(at_ns=stage.window_start_ns + k * NS_PER_S // 2, kind="gpu", gpu=0, uuid="u", utilisation_pct=10.0 * k)
        for k in range(4)
    ]
    rows = [row for row in written(made).data("timeline-stage-0-round-0") if float(row["from_s"]) % 1 == 0]
    whole = _by_second(tmp_path, rows)
    assert [row["from_s"] for row in whole] == ["-2.0", "-1.0", "0.0", "1.0", "2.0", "3.0", "4.0"]


def _by_second(tmp_path: Path, rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return rows


def test_a_stage_of_a_minute_is_cut_into_seconds_and_one_of_a_day_into_no_more_bins() -> None:
    assert bin_width(60) == 0.5
    assert bin_width(150) == 1
    assert bin_width(151) == 2
    assert 86_400 / bin_width(86_400) <= 150
    assert 10**7 / bin_width(10**7) == 150


def test_columns_of_different_length_are_no_data() -> None:
    with pytest.raises(ValueError, match="shorter"):
        csv_of({"a": [1, 2], "b": [1]})


def test_not_measured_is_an_empty_cell_and_a_formula_is_text() -> None:
    assert csv_of({"=a": [None, 0, "=1+1", "+x", -1.5]}) == "'=a\n\"\"\n0\n'=1+1\n'+x\n-1.5\n"
