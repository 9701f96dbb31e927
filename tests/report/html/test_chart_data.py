"""The data of the charts, by hand: cumulative distributions, histograms, timelines, failures, the generator's health."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_locust.records import NS_PER_S
from llm_locust.records.device_sample import DeviceSample
from llm_locust.records.summary import Knee
from llm_locust.report import merge_run
from llm_locust.report.html.chart import csv_of
from llm_locust.report.html.timelines import bin_width, drawn_places
from tests.analysis.run_builder import RunBuilder
from tests.report.html.test_page import Run, written


def shares(run: Run, chart: str, name: str) -> dict[float, float]:
    return {float(row["share"]): float(row[name]) for row in run.data(chart)}


def test_a_distribution_holds_nearest_rank_quantiles_of_all_rounds_together(tmp_path: Path) -> None:
    made = RunBuilder(tmp_path, slo={"ttft": 500})
    for round_ in (0, 1):
        stage = made.stage(rate=2, round=round_, stage=0)
        for k in range(100):
            stage.request(k / 2, ttft=2 * k + 1 + round_)  # 1 to 200 ms, odd in one round and even in the other
        stage.requests(5, outcome="timeout", first=0.1)
    found = shares(written(made), "distribution-ttft", "open 2 req/s (ms)")
    assert [found[share] for share in (0.01, 0.5, 0.95, 0.995, 1)] == [2, 100, 190, 199, 200]


def test_gaps_are_counted_together_and_the_longest_by_request(tmp_path: Path) -> None:
    made = RunBuilder(tmp_path)
    stage = made.stage(rate=1)
    for k in range(4):
        gaps = [10_000] * 24 + [5_000_000 + k]  # beyond four seconds they are kept apart
        stage.request(k, e2e=6000, gaps_us=gaps, max_gap_ns=max(gaps) * 1000)
    run = written(made)
    itl = shares(run, "distribution-itl", "open 1 req/s (ms)")
    assert (itl[0.96], itl[0.97], itl[1]) == (10, 5000, 5000.003)
    longest = shares(run, "distribution-longest-gap", "open 1 req/s (ms)")
    assert (longest[0.01], longest[0.5], longest[1]) == (5000, 5000.001, 5000.003)


def test_tokens_asked_for_and_got_share_their_bins(tmp_path: Path) -> None:
    made = RunBuilder(tmp_path)
    stage = made.stage(rate=1)
    for k in range(6):
        stage.request(k, tokens=10 + k // 3, max_tokens=12, prompt_tokens=100)
    run = written(made)
    rows = run.data("workload-output-tokens")
    assert [(row["from_tokens"], row["limit_asked_for"], row["generated"]) for row in rows] == [
        ("10", "0", "3"), ("11", "0", "3"), ("12", "6", "0"),
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
    load = {"running": 2, "waiting": 1, "kv_usage": {"": 0.25}, "kv_usage_max": 0.25, "kv_usage_mean": 0.25}
    stage.scraped(lambda at: load, until=1)  # at -1.5, -0.5 and 0.5 s, and before the stage
    made.devices = [
        DeviceSample(at_ns=stage.window_start_ns + k * NS_PER_S, kind="gpu", gpu=0, uuid="u", utilisation_pct=10.0 * k)
        for k in range(3)
    ]
    rows = written(made).data("timeline-stage-0-round-0")
    # From the start of the warm-up to the last end, 4.75 s, in tenths of a second; 0 is an edge.
    assert (float(rows[0]["from_s"]), float(rows[-1]["to_s"]), len(rows)) == (-2, 4.8, 68)
    for name, expected in (
        ("planned_rps", {-1.5: 10, 0.2: 10, 0.5: 10, 2.5: 10, 3.2: 10}),
        ("sent_rps", {-1.5: 10, 0.2: 10, 0.5: 10, 2.5: 10, 3.2: 10}),
        ("completed_rps", {-0.5: 10, 1.2: 10, 1.5: 10, 3.5: 10}),
        ("server_running", {-1.5: 2, -0.5: 2, 0.5: 2}),
        ("server_waiting", {-1.5: 1, -0.5: 1, 0.5: 1}),
        ("kv_cache_max_pct", {-1.5: 25, -0.5: 25, 0.5: 25}),
        ("gpu_utilisation_pct", {0: 0, 1: 10, 2: 20}),
    ):
        told = {float(row["from_s"]): float(row[name]) for row in rows if row[name] != ""}
        if name.endswith("_rps"):
            assert len(told) == 68, name  # a rate of 0 is one that was measured
            told = {at: value for at, value in told.items() if value}
        assert told == pytest.approx(expected), name
    in_flight = {float(row["from_s"]): float(row["in_flight"]) for row in rows}
    assert [in_flight[at] for at in (-1.6, -1.5, 0.2, 0.6, 1.3, 2.0, 4.7)] == pytest.approx([0, 1, 0.5, 2, 1, 0, 0.5])


def test_failures_are_counted_when_they_ended_by_kind_and_stages_follow_one_another(tmp_path: Path) -> None:
    made = RunBuilder(tmp_path)
    first = made.stage(rate=1, window=10)
    first.requests(9, e2e=500)
    first.request(9.5, outcome="timeout", e2e=500)
    second = made.stage(rate=2, window=10)  # an hour later
    second.requests(18, e2e=400)
    second.request(1.05, outcome="rejected", e2e=20)
    second.request(1.06, outcome="rejected", e2e=20)
    run = written(made)
    rows = run.data("failures-over-time")
    failed = {float(row["from_s_under_load"]): (row["rejected"], row["timeout"]) for row in rows}
    assert {at: of for at, of in failed.items() if of != ("0", "0")} == {9.9: ("0", "1"), 11.0: ("2", "0")}
    assert [
        (row["label"], row["measured"], row["ok"], row["rejected"], row["timeout"])
        for row in run.data("failures-by-stage")
    ] == [
        ("open 1/s poisson", "10", "9", "0", "1"),
        ("open 2/s poisson", "20", "18", "2", "0"),
    ]


def test_a_run_without_failures_says_so_and_draws_none(tmp_path: Path) -> None:
    made = RunBuilder(tmp_path)
    made.stage(rate=1).requests(20)
    run = written(made)
    assert "None of the 20 measured requests failed." in run.page.text
    assert not list(run.folder.charts_dir.glob("failures*"))


def test_the_generators_health_is_read_on_the_masters_clock_as_far_as_it_can_be(tmp_path: Path) -> None:
    made = RunBuilder(tmp_path, workers=2, offsets_ns={1: (5 * NS_PER_S, 5 * NS_PER_S)})
    stage = made.stage(rate=1, window=10)
    for k in range(10):
        stage.request(k, lag=k / 10, e2e=100)
    at = stage.window_start_ns + 2 * NS_PER_S
    made.write()
    made.folder.generator.write_text(
        "worker,stage,at_ns,in_flight,last_failure,cpu_percent,loop_lag_ms\n"
        f'0,0,{at},3,"a, ""quoted"" failure",40.0,1.5\n'
        f"1,0,{at + 5 * NS_PER_S},3,,80.0,\n"  # of a worker whose clock is 5 s ahead
        f"0,0,{at + NS_PER_S},3,,4"  # torn
    )
    run = written(made)
    cpu = {float(row["from_s_under_load"]): row for row in run.data("generator-cpu") if row["cpu_percent_max"]}
    assert (cpu[2]["cpu_percent_median"], cpu[2]["cpu_percent_max"]) == ("40", "80")
    lag = [row["loop_lag_ms_max"] for row in run.data("generator-loop-lag") if row["loop_lag_ms_max"]]
    assert lag == ["1.5"]
    late = {float(r["from_s_under_load"]): r["dispatch_lag_max_ms"] for r in run.data("generator-dispatch-lag")}
    assert (late[0], late[3], late[3.5]) == ("0", "0.3", "")


def test_a_run_without_the_generators_health_says_so(tmp_path: Path) -> None:
    made = RunBuilder(tmp_path)
    made.stage(rate=1).requests(20)
    assert "there is no generator.csv that could be read" in written(made).page.text


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


def test_of_many_stages_those_around_the_boundary_are_drawn_then_the_first_others(tmp_path: Path) -> None:
    made = RunBuilder(tmp_path)
    for rate in (1, 2, 3, 4, 5):
        made.stage(rate=rate, window=5).requests(5)
    made.stage(concurrency=4, window=5).requests(5)
    summary = merge_run(made.write()).summary
    summary.sustained_rate_rps, summary.first_failing_rate_rps, summary.knee = 4.0, 5.0, None
    assert drawn_places(summary.stages, summary, most=3) == {0, 3, 4}
    assert drawn_places(summary.stages, summary, most=24) == {0, 1, 2, 3, 4, 5}
    summary.knee = Knee(concurrency=4, strength="candidate", sentence="")
    assert drawn_places(summary.stages, summary, most=3) == {3, 4, 5}
