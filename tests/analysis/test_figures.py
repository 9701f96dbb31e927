"""The figures of a stage, worked out by hand."""

from __future__ import annotations

import heapq
from pathlib import Path

import pytest

from llm_locust.records.summary import RunSummary, StageSummary
from llm_locust.report import merge_run
from tests.analysis.run_builder import NS_PER_MS, RunBuilder


def judged(run: RunBuilder) -> RunSummary:
    return merge_run(run.write()).summary


def only_stage(run: RunBuilder) -> StageSummary:
    (stage,) = judged(run).stages
    return stage


def test_worked_example_60_s_100_measured_90_ok_80_good(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 500})
    stage = run.stage(rate=1.7)
    stage.requests(80, ttft=400)
    stage.requests(10, ttft=600, first=0.1)
    stage.requests(10, outcome="http_error", status=500, first=0.2)
    found = only_stage(run)
    assert (found.measured, found.successful, found.failed, found.good_requests) == (100, 90, 10, 80)
    assert found.seconds == 60.0
    assert found.seconds_method == "window"
    assert found.request_throughput_rps == 1.5
    assert found.goodput_rps == pytest.approx(1.3333333333333333, abs=0)
    assert found.attainment == 0.8
    assert found.error_rate == 0.1
    assert found.outcomes == {"ok": 90, "http_error": 10}
    assert found.status_counts == {"200": 90, "500": 10}
    assert found.output_throughput_tps == 90 * 11 / 60
    assert found.total_throughput_tps == 90 * 31 / 60


def test_joint_attainment_is_18_of_20_though_either_p95_passes(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 500, "e2e": 2000})
    stage = run.stage(rate=1 / 3)
    stage.requests(18, ttft=400, e2e=1500)
    stage.request(1.0, ttft=600, e2e=1500)
    stage.request(2.0, ttft=400, e2e=2500)
    found = only_stage(run)
    # 19 of 20 meet either limit: the nearest rank of P95 is the 19th, within both limits.
    assert found.percentiles["ttft_p95_ms"].value == 400.0
    assert found.percentiles["e2e_p95_ms"].value == 1500.0
    assert found.good_requests == 18
    assert found.attainment == 0.9
    assert found.verdict.result == "fail"
    assert [(d.name, d.detail) for d in found.verdict.failing_dimensions] == [
        ("ttft", "1 of 20 over 500 ms"),
        ("e2e", "1 of 20 over 2000 ms"),
    ]


def test_overload_of_10_against_5_per_second_is_5_in_the_window_and_fails(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 80_000})
    stage = run.stage(rate=10, warmup=10)
    free = [0.0] * 5  # five servers of one second each: 5/s, first come first served
    for k in range(700):
        arrival = k / 10 + 0.05
        begin = max(arrival, heapq.heappop(free))
        heapq.heappush(free, begin + 1)
        waited = (begin - arrival) * 1000
        stage.request(arrival - 10, ttft=waited + 100, e2e=waited + 1000)
    found = only_stage(run)
    assert found.completed_in_window_rps == 5.0
    # Eleven tokens a reply, five replies a second, a steady stream over the window.
    assert found.output_tokens_in_window_tps == pytest.approx(55, rel=0.02)
    # Every request of the batch ends well in the end, so the ratio of the batch knows nothing of it:
    assert found.request_throughput_rps == 10.0
    assert found.attainment == 1.0
    assert found.in_flight_trend is not None
    assert found.in_flight_trend.state == "rising"
    assert found.verdict.result == "fail"
    assert [d.name for d in found.verdict.failing_dimensions] == ["in_flight_trend"]
    # 700 were sent by the end of the window, 69 done by each of the five servers.
    assert found.in_flight_at_window_end == 700 - 5 * 69
    # vLLM's bench divides all 700 by the 140.45 s from the start of the stage to the last end.
    assert found.goodput_vllm_rps == 700 / 140.45
    assert found.drain_seconds == pytest.approx(70.45)


def test_an_overload_behind_a_cap_is_rising_too(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 80_000}, max_in_flight=5)
    stage = run.stage(rate=10, warmup=10)
    free = [0.0] * 5
    for k in range(700):
        arrival = k / 10 + 0.05
        begin = max(arrival, heapq.heappop(free))
        heapq.heappush(free, begin + 1)
        stage.request(arrival - 10, ttft=100, e2e=1000, cap_wait=(begin - arrival) * 1000)
    found = only_stage(run)
    assert found.peak_in_flight == 5
    assert found.in_flight_at_window_end == 5
    assert found.held_back_at_window_end == 700 - 5 * 69 - 5
    assert found.in_flight_trend is not None
    assert found.in_flight_trend.state == "rising"
    assert found.verdict.result == "fail"
    assert found.generator.valid


def test_a_wait_under_the_cap_is_named_beside_limits_that_do_not_see_it(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 500}, max_in_flight=2)
    run.stage(rate=2).requests(120, cap_wait=2500)
    assert only_stage(run).verdict.sentence == (
        "attainment 100 %, error rate 0 %, in-flight flat, 120 measured, held back by --max-in-flight for P95 2500 ms "
        "(only the limits arrival_ttft and arrival_e2e count this wait)"
    )


def test_without_a_cap_a_wait_before_sending_is_the_generators_own(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 500})
    run.stage(rate=2).requests(120, cap_wait=7)
    assert only_stage(run).verdict.sentence == (
        "attainment 100 %, error rate 0 %, in-flight flat, 120 measured, sent late by the generator, after they were taken "
        "up, for P95 7 ms (only the limits arrival_ttft and arrival_e2e count this wait)"
    )


@pytest.mark.parametrize("cap", [None, 4])
def test_in_a_closed_loop_nothing_is_said_to_wait(tmp_path: Path, cap: int | None) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 500}, max_in_flight=cap)
    run.stage(concurrency=2).requests(120, cap_wait=7)
    found = only_stage(run).verdict
    assert found.result == "pass"
    assert "P95" not in found.sentence
    assert "--max-in-flight" not in found.sentence


def test_open_batch_is_what_was_planned_inside_the_window_half_open(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=1, window=10, warmup=5, cooldown=5)
    for at in (-0.000000001, 0, 9.999999999, 10):
        stage.request(at)
    found = only_stage(run)
    assert (found.planned, found.measured, found.warmup_requests, found.cooldown_requests) == (4, 2, 1, 1)


def test_closed_batch_is_what_was_sent_inside_the_window(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(concurrency=2, window=10)
    for at in (-1.0, 0.0, 5.0, 10.0):
        stage.request(at)
    found = only_stage(run)
    assert found.measured == 2
    assert found.rate_rps is None
    assert found.percentiles["client_wait_p95_ms"].value is None
    assert found.in_flight_trend is None
    assert found.generator.not_applicable == ["dispatched against planned", "dispatch lag"]
    assert found.verdict.result == "pass"


def test_percentiles_over_ok_and_with_failures_as_infinity(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=1)
    for k in range(18):
        stage.request(k, ttft=100 + k)
    for k in range(2):
        stage.request(20 + k, outcome="timeout", status=200)
    percentiles = only_stage(run).percentiles
    assert percentiles["ttft_p50_ms"].value == 108.0  # the 9th of 18
    assert percentiles["ttft_p95_ms"].value == 117.0  # ceil(17.1) = the 18th: the maximum, and said so
    assert percentiles["ttft_p95_ms"].at_maximum
    assert percentiles["ttft_p50_ms_all"].value == 109.0  # the 10th of 20
    assert percentiles["ttft_p95_ms_all"].value == "inf"  # the 19th of 20, a failure
    assert not percentiles["ttft_p95_ms_all"].at_maximum


def test_itl_is_over_all_gaps_and_the_longest_gap_per_request(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=1)
    stage.request(1, tokens=3, gaps_us=[10_000, 20_000], max_gap_ns=20 * NS_PER_MS)
    stage.request(2, tokens=2, gaps_us=[50_000], max_gap_ns=50 * NS_PER_MS)
    percentiles = only_stage(run).percentiles
    assert percentiles["itl_p95_ms"].value == 50.0
    assert percentiles["itl_p95_ms"].n == 3
    assert percentiles["max_gap_p95_ms"].n == 2


def test_waits_are_over_all_that_waited_and_for_ever_when_given_up(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=1)
    stage.request(1, lag=1, cap_wait=40)
    stage.request(2, lag=3, outcome="http_error")
    percentiles = only_stage(run).percentiles
    assert percentiles["dispatch_lag_p99_ms"].value == 3.0
    assert percentiles["cap_wait_p95_ms"].value == 40.0
    assert percentiles["client_wait_p95_ms"].value == 41.0
    stage.request(3, outcome="not_sent")
    assert only_stage(run).percentiles["cap_wait_p95_ms"].value == "inf"


def test_peak_in_flight_counts_a_place_freed_and_taken_at_once_as_one(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=1)
    stage.request(-0.5, e2e=2000)  # runs into the window
    stage.request(1.0, e2e=1000)
    stage.request(2.0, e2e=1000)  # takes the place of the one before
    assert only_stage(run).peak_in_flight == 2


def test_missing_token_counts_leave_the_throughput_unmeasured(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=1)
    stage.request(1)
    stage.request(2, tokens=None)
    found = only_stage(run)
    assert found.tokens_missing == 1
    assert found.output_tokens is None
    assert found.output_throughput_tps is None
    assert found.prompt_tokens == 40


def test_several_tokens_at_one_receive_time_are_buffered(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"tpot": 50})
    stage = run.stage(rate=1)
    record = stage.request(1, tokens=8)
    record.last_output_ns = record.complete_ns = record.first_output_ns
    found = only_stage(run)
    assert found.buffered
    assert found.buffered_requests == 1
    assert found.tpot_missing == 1
    assert found.goodput_rps is None
    assert found.goodput_unavailable == "tpot is missing for 1 of 1 ok requests"
    assert found.verdict.result == "undetermined"


def test_a_closed_loop_of_8_with_20_s_replies_completes_16_in_a_minute(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(concurrency=8, window=60)
    for _ in range(8):
        for at in (0.0, 20.0, 40.0):
            stage.request(at, ttft=500, e2e=20_000, tokens=40)
    found = only_stage(run)
    # 24 were sent inside the window; those sent at 40 s end with it, and not inside it.
    assert (found.measured, found.successful) == (24, 24)
    assert found.request_throughput_rps == 24 / 60  # a ratio of the batch
    assert found.completed_in_window_rps == 16 / 60  # what was done in a minute
    assert found.rate_rps is None
    assert found.concurrency == found.peak_in_flight == 8
    assert found.littles_law is not None
    assert found.littles_law.ratio == pytest.approx(1.0)


def test_stragglers_stay_in_the_batch_they_were_planned_in(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"e2e": 5000})
    stage = run.stage(rate=1, window=10, cooldown=30)
    stage.requests(9, e2e=1000)
    stage.request(9.9, e2e=25_000)  # ends 24.9 s after the window
    stage.requests(30, e2e=1000, first=10, over=30)
    found = only_stage(run)
    assert (found.measured, found.successful, found.good_requests, found.cooldown_requests) == (10, 10, 9, 30)
    assert found.attainment == 0.9
    assert found.request_throughput_rps == 1.0
    assert found.completed_in_window_rps == 0.9
    assert found.in_flight_at_window_end == 2  # the straggler, and the first of the cool-down
    assert found.percentiles["e2e_p95_ms"].value == 25_000.0


def test_the_speed_of_a_request_is_its_tokens_over_its_e2e_and_p5_is_what_nearly_all_reach(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=2)
    stage.requests(95, e2e=1000, tokens=50)
    stage.requests(5, e2e=2000, tokens=20, first=0.1)
    found = only_stage(run).percentiles
    assert (found["request_tps_p5"].value, found["request_tps_p50"].value) == (10.0, 50.0)
    assert found["ntpot_p95_ms"].value == 20.0
    assert found["ntpot_p99_ms"].value == 100.0


def test_itl_says_how_many_replies_kept_no_gaps(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=1)
    stage.request(1, tokens=3, gaps_us=[10_000, 20_000], max_gap_ns=20 * NS_PER_MS)
    stage.request(2, tokens=3)
    stage.request(3, tokens=1)  # one token: there is no gap to keep
    assert only_stage(run).percentiles["itl_p95_ms"].missing == 1


def test_latencies_from_arrival_count_the_wait_and_are_not_known_in_a_closed_loop(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    run.stage(rate=1).requests(60, ttft=100, e2e=500, cap_wait=250)
    run.stage(concurrency=1).requests(60)
    first, second = judged(run).stages
    assert first.percentiles["arrival_ttft_p95_ms"].value == 350.0
    assert first.percentiles["arrival_e2e_p95_ms"].value == 750.0
    assert second.percentiles["arrival_e2e_p95_ms"].value is None
    assert second.percentiles["arrival_e2e_p95_ms"].missing == 60
