"""A stage as its server saw it. The window is the ten seconds from 100 s to 110 s; every figure is worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from llm_locust.analysis.server_against_client import ClientCounts, between, count_differences, latency_line
from llm_locust.analysis.server_figures import server_figures, stage_telemetry
from llm_locust.records import NS_PER_S
from llm_locust.records.server_figures import BucketPercentile, ServerFigures
from llm_locust.records.server_sample import CumulativeHistogram, ServerSample

WINDOW = (100 * NS_PER_S, 110 * NS_PER_S)


def sample(at_s: float, target: str = "a", **told: Any) -> ServerSample:
    told.setdefault("engine", "vllm")
    told.setdefault("verified", True)
    return ServerSample(at_ns=round(at_s * NS_PER_S), target=target, **told)


def failed(at_s: float, error: str, target: str = "a") -> ServerSample:
    return ServerSample(at_ns=round(at_s * NS_PER_S), target=target, error=error)


def series(tell: Callable[[float], dict[str, Any]], target: str = "a", start: float = 97.5) -> list[ServerSample]:
    """Every second from 97.5 to 112.5 s; ``tell`` is given the second."""
    return [sample(start + k, target, **tell(start + k)) for k in range(16)]


def histogram(n: list[float], count: float, total: float | None = None) -> CumulativeHistogram:
    return CumulativeHistogram(le=(0.1, 0.5, 1.0), n=tuple(n), count=count, sum=total)


def test_counters_are_taken_from_the_last_sample_before_the_window_to_the_first_after_it() -> None:
    # 10 tokens a second: from 99.5 to 110.5 that is 11 seconds of them.
    found = server_figures(series(lambda t: {"generation_tokens": 10 * t, "preemptions": 3}), WINDOW)
    assert found.generation_tokens == 110
    assert found.preemptions == 0
    assert (found.counters_from_ns, found.counters_to_ns) == (99_500_000_000, 110_500_000_000)
    assert (found.targets, found.engines, found.verified) == (["a"], ["vllm"], True)
    assert (found.samples, found.failed_scrapes, found.resets) == (10, 0, 0)


def test_a_sample_just_at_the_edge_of_the_window_is_the_one_that_counts() -> None:
    found = server_figures([sample(99, requests=1), sample(100, requests=2), sample(110, requests=9)], WINDOW)
    assert found.requests == 7


def test_what_is_not_exported_is_null_with_a_reason_and_never_0() -> None:
    found = server_figures(series(lambda t: {"requests": t}), WINDOW)
    assert found.evictions is None
    assert found.reasons["evictions"] == "a (vllm) does not export it"
    assert (found.kv_cache_peak_pct, found.waiting_peak, found.prefix_cache_hit_rate) == (None, None, None)
    assert found.reasons["waiting"] == "a (vllm) does not export it"
    assert found.percentiles == {}
    assert found.reasons["queue_time"] == "a (vllm) does not export it"


def test_a_counter_that_came_up_in_the_window_did_not_start_at_0_for_all_we_know() -> None:
    found = server_figures(series(lambda t: {"rejections": 5} if t > 105 else {}), WINDOW)
    assert found.rejections is None
    assert found.reasons["rejections"] == "a did not export it before the window"


def test_without_a_sample_before_the_window_there_is_no_rise() -> None:
    found = server_figures(series(lambda t: {"requests": t}, start=101), WINDOW)
    assert found.requests is None
    assert found.reasons["requests"] == "a was not read before the window"


def test_a_target_that_died_has_no_counts_and_the_reason_says_when() -> None:
    alive = [one for one in series(lambda t: {"requests": t, "waiting": 2}) if one.at_ns < 105 * NS_PER_S]
    found = server_figures([*alive, failed(105.5, "connection refused"), failed(111.5, "connection refused")], WINDOW)
    assert found.requests is None
    assert found.reasons["requests"] == (
        "a was not read after the window; the last page came at 4.5 of 10 s: connection refused"
    )
    assert (found.samples, found.failed_scrapes) == (5, 1)
    assert found.waiting_peak == 2
    assert found.waiting_mean is None
    assert found.reasons["waiting_mean"] == "not read for 5.5 of 10 s of the window"
    assert "waiting: not read for 5.5 of 10 s of the window; its peak is of the rest." in found.notes


def test_no_server_and_no_readable_page() -> None:
    assert server_figures([], WINDOW).reasons["requests"] == "no server was asked"
    found = server_figures([failed(95, "404"), failed(105, "a web page, not metrics")], WINDOW)
    assert found.reasons["requests"] == "no page of a could be read: a web page, not metrics"
    assert found.reasons["running"] == "no page of a could be read: a web page, not metrics"
    assert not found.verified
    assert found.failed_scrapes == 1


def test_a_restart_is_seen_by_a_counter_that_falls_and_holds_for_all_of_them() -> None:
    # Until 104.5 one process, from 105.5 on a new one; preemptions happen to stand at 2 in both.
    found = server_figures(
        series(lambda t: {"requests": t if t < 105 else t - 105, "preemptions": 2, "generation_tokens": 100}), WINDOW
    )
    # 99.5 to 104.5, then 0.5 of the new process, then on to 5.5.
    assert found.requests == 10  # 5 + 5.5, rounded to even
    assert found.preemptions == 2
    assert found.generation_tokens == 100
    assert found.resets == 1
    assert found.notes == ["a started over once around the window; what it counted just before is not in the figures."]


def test_a_restart_that_no_counter_shows_is_seen_by_the_start_of_the_process() -> None:
    found = server_figures(
        series(lambda t: {"requests": 10 if t < 105 else 50, "process_start_s": 7 if t < 105 else 105}), WINDOW
    )
    assert (found.requests, found.resets) == (50, 1)


def test_replicas_behind_one_address_are_found_out() -> None:
    found = server_figures(
        series(lambda t: {"requests": 10, "running": 1, "process_start_s": 7 if int(t) % 2 else 9}), WINDOW
    )
    assert found.requests is None
    assert found.running_peak is None
    why = "different processes answer in turn at a: ask each replica at an address of its own"
    assert found.reasons["requests"] == found.reasons["running"] == why


def test_counters_that_keep_falling_mean_nothing() -> None:
    found = server_figures(series(lambda t: {"requests": 10 if int(t) % 2 else 500}), WINDOW)
    assert found.requests is None
    # From 99.5 to 110.5, at every odd second.
    assert found.reasons["requests"].startswith("the counters at a fell 5 times: ")


def test_peaks_are_of_the_window_alone_and_means_are_weighted_by_time() -> None:
    def level(t: float) -> float:
        return 50 if t < 100 or t > 110 else 4 if t < 105 else 8

    found = server_figures(series(lambda t: {"running": level(t), "waiting": 3}), WINDOW)
    assert (found.running_peak, found.waiting_peak, found.waiting_mean) == (8, 3, 3)
    # 4 and 8 for 4 s each, 6 in between for 1 s; at the edges half a second of 27 to 4 and of 8 to 29.
    assert found.running_mean == pytest.approx((4 * 4 + 8 * 4 + 6 + 0.5 * (27 + 4) / 2 + 0.5 * (8 + 29) / 2) / 10)


def test_late_answers_weigh_for_the_time_that_they_stand_for() -> None:
    # Idle and read every second for five seconds, then busy and read twice.
    at = [99, 100, 101, 102, 103, 104, 105, 107, 109.9, 111]
    found = server_figures([sample(t, waiting=0 if t < 105 else 10) for t in at], WINDOW, interval_s=1)
    # 104 to 105 rises from 0 to 10, from 105 on it is 10: the plain mean of the eight readings inside would be 3.75.
    assert found.waiting_mean == 5.5


def test_kv_usage_is_a_share_of_blocks_and_the_fullest_engine_counts() -> None:
    a = series(lambda t: {"kv_usage": {"0": 0.2, "1": 0.6}, "kv_usage_max": 0.6, "kv_usage_mean": 0.4})
    b = series(lambda t: {"kv_usage": {"": 0.7}, "kv_usage_max": 0.7, "kv_usage_mean": 0.7}, "b")
    found = server_figures(a + b, WINDOW)
    assert found.kv_cache_peak_pct == pytest.approx(70)
    assert found.kv_cache_mean_pct == pytest.approx(50)  # of 0.2, 0.6 and 0.7


def test_the_kv_peak_of_a_stage_is_that_of_its_window_and_not_of_the_run() -> None:
    # The window is from 100 to 110 s; the stages before and after it filled the cache.
    found = server_figures(series(lambda t: {"kv_usage_max": 0.07 if 100 <= t < 110 else 0.99}), WINDOW)
    assert found.kv_cache_peak_pct == pytest.approx(7)


def test_hit_rate() -> None:
    found = server_figures(series(lambda t: {"prefix_cache_queries": 100 * t, "prefix_cache_hits": 25 * t}), WINDOW)
    assert found.prefix_cache_hit_rate == 0.25
    idle = server_figures(series(lambda t: {"prefix_cache_queries": 7, "prefix_cache_hits": 7}), WINDOW)
    assert idle.prefix_cache_hit_rate is None
    assert idle.reasons["prefix_cache_hit_rate"] == "no token was looked up in the prefix cache"


def test_replicas_add_up_at_equal_times() -> None:
    a = series(lambda t: {"running": 4 if t < 105 else 0, "waiting": 1, "requests": t})
    b = series(lambda t: {"running": 0 if t < 105 else 3, "waiting": 2, "requests": 2 * t}, "b", start=97.8)
    found = server_figures(a + b, WINDOW)
    assert found.targets == ["a", "b"]
    # Never both at their peak: 4 + 0, then 0 + 3.
    assert (found.running_peak, found.waiting_peak) == (4, 3)
    assert found.requests == 11 + 22
    assert (found.counters_from_ns, found.counters_to_ns) == (99_500_000_000, 110_800_000_000)


def test_where_one_replica_was_not_read_there_is_no_sum() -> None:
    a = series(lambda t: {"running": 4, "requests": t})
    b = [one for one in series(lambda t: {"running": t, "requests": t}, "b") if one.at_ns < 105 * NS_PER_S]
    found = server_figures(a + b, WINDOW)
    assert found.requests is None
    assert found.reasons["requests"].startswith("b was not read after the window; the last page came at 4.5 of 10 s")
    # One scrape interval after b's last reading is still near enough: 4 + 104.5.
    assert found.running_peak == 108
    assert found.running_mean is None
    nothing = server_figures([*a, failed(105, "404", "b")], WINDOW)
    assert nothing.running_peak is None
    assert nothing.reasons["running"] == "no page of b could be read: 404"


def test_a_replica_read_by_an_unverified_mapping_makes_all_of_it_unverified() -> None:
    a, b = series(lambda t: {}), series(lambda t: {"engine": "sglang", "verified": False}, "b")
    assert server_figures(a, WINDOW).verified
    found = server_figures(a + b, WINDOW)
    assert (found.engines, found.verified) == (["sglang", "vllm"], False)


def test_a_queue_that_grows_from_span_to_span_is_rising() -> None:
    grows = server_figures(series(lambda t: {"waiting": 30 * max(0, t - 100), "running": 8}), WINDOW, arrivals=600)
    assert grows.waiting_trend is not None
    assert grows.waiting_trend.state == "rising"
    # The readings lie in the middle of the spans; the first span also sees the way from 0.
    assert grows.waiting_trend.span_means[1:9] == [45, 75, 105, 135, 165, 195, 225, 255]
    assert grows.running_trend is not None
    assert grows.running_trend.state == "flat"
    told = stage_telemetry(grows)
    assert (told.waiting_trend, told.running_trend, told.waiting_peak, told.running_peak) == ("rising", "flat", 285, 8)


def test_too_few_samples_say_nothing_of_a_trend() -> None:
    every_two = [one for k, one in enumerate(series(lambda t: {"waiting": 0})) if k % 2]
    found = server_figures(every_two, WINDOW, arrivals=600)
    assert found.waiting_trend is None
    assert found.reasons["waiting_trend"] == "5 samples are too few: some span of the window holds none"
    assert found.waiting_peak == 0
    unknown = server_figures(series(lambda t: {"waiting": 0}), WINDOW)
    assert unknown.reasons["waiting_trend"].startswith("the number of arrivals")


def test_percentiles_of_the_window_are_those_of_what_was_observed_in_between() -> None:
    # Before the window 100 fast ones; inside ten: two up to 100 ms, four up to 500 and four up to a second.
    def told(t: float) -> dict[str, Any]:
        return {"ttft": histogram([100, 100, 100], 100) if t < 105 else histogram([102, 106, 110], 110)}

    found = server_figures(series(told), WINDOW)
    assert found.percentiles["ttft_p50_ms"] == BucketPercentile(value_ms=400, low_ms=100, high_ms=500, n=10)
    assert found.percentiles["ttft_p95_ms"] == BucketPercentile(value_ms=1000, low_ms=500, high_ms=1000, n=10)
    assert set(found.percentiles) == {f"ttft_p{percent}_ms" for percent in (50, 90, 95, 99)}
    idle = server_figures(series(lambda t: {"ttft": histogram([1, 2, 3], 3)}), WINDOW)
    assert idle.percentiles == {}
    assert idle.reasons["ttft"] == "nothing was observed"


def test_percentiles_of_replicas_are_of_all_observations_together() -> None:
    def told(n: list[float], count: float) -> Callable[[float], dict[str, Any]]:
        return lambda t: {"queue_time": histogram([0, 0, 0], 0) if t < 105 else histogram(n, count)}

    found = server_figures(series(told([9, 9, 9], 9)) + series(told([0, 0, 1], 1), "b"), WINDOW)
    assert found.percentiles["queue_time_p50_ms"].high_ms == 100
    assert found.percentiles["queue_time_p95_ms"] == BucketPercentile(value_ms=1000, low_ms=500, high_ms=1000, n=10)
    assert stage_telemetry(found).queue_time_p95_ms == 1000


def test_counts_that_agree_are_no_difference() -> None:
    server = ServerFigures(requests=100, prompt_tokens=1010, generation_tokens=4960)
    assert count_differences(server, ClientCounts(requests=100, prompt_tokens=1000, output_tokens=5000)) == []
    assert count_differences(ServerFigures(), ClientCounts(requests=100)) == []
    assert count_differences(server, ClientCounts()) == []


def test_requests_must_agree_exactly_and_tokens_to_a_hundredth() -> None:
    server = ServerFigures(requests=101, prompt_tokens=1011, generation_tokens=4900)
    found = count_differences(server, ClientCounts(requests=100, prompt_tokens=1000, output_tokens=5000))
    assert [one.text for one in found] == [
        "requests: the client counted 100, the server 101 (+1.00 %)",
        "prompt tokens: the client counted 1000, the server 1011 (+1.10 %)",
        "output tokens: the client counted 5000, the server 4900 (-2.00 %)",
    ]
    assert [one.share for one in found] == pytest.approx([0.01, 0.011, -0.02])
    none = count_differences(ServerFigures(requests=2), ClientCounts(requests=0))
    assert [(one.share, one.text) for one in none] == [
        (None, "requests: the client counted 0, the server 2 (the client counted none)")
    ]


def test_latencies_stand_side_by_side() -> None:
    found = ServerFigures(
        engines=["vllm"],
        verified=True,
        percentiles={
            "ttft_p95_ms": BucketPercentile(value_ms=700, low_ms=500, high_ms=750, n=9),
            "queue_time_p95_ms": BucketPercentile(value_ms=200, low_ms=0, high_ms=300, n=9),
        },
    )
    assert latency_line(812.34, found) == (
        "P95 side by side, not added up: TTFT at the client 812.3 ms, TTFT in the server 500 to 750 ms, "
        "server queue up to 300 ms"
    )
    assert "requests)" not in latency_line(812.34, found, requests=9)  # the same ones, as far as can be told
    assert latency_line(812.34, found, requests=60) == (
        "P95 side by side, not added up: TTFT at the client 812.3 ms (60 requests), TTFT in the server 500 to 750 ms "
        "(of the 9 that it began to answer in the window), server queue up to 300 ms"
    )
    assert latency_line(None, ServerFigures(engines=["sglang"])) == (
        "P95 side by side, not added up: TTFT at the client -, TTFT in the server -, server queue - (unverified mapping)"
    )
    assert between(BucketPercentile(value_ms=None, low_ms=7_680_000, high_ms="inf", n=3)) == "over 7680000 ms"


# --- an address that stops answering ---------------------------------------------------------------------------------


def test_an_address_that_died_in_the_window_is_named_with_when_and_why() -> None:
    alive = series(lambda t: {"running": 2})
    dying = [s for s in series(lambda t: {"running": 2}, "b") if s.at_ns < 104 * NS_PER_S]
    dead = [failed(at, "connection refused", "b") for at in (104.5, 105.5, 108.5, 110.5, 111.5)]
    found = server_figures([*alive, *dying, *dead], WINDOW)
    assert found.stopped == ["b stopped answering; its last page came at 3.5 of 10 s: connection refused"]
    assert found.failed_scrapes == 3


def test_one_that_was_dead_before_the_window_did_not_answer_in_it() -> None:
    dead = [sample(95, "b", running=1), *(failed(at, "HTTP 502", "b") for at in (99, 101, 109))]
    assert server_figures(dead, WINDOW).stopped == ["b did not answer in the window: HTTP 502"]


@pytest.mark.parametrize("missed", [[103.5], [109.5], [103.5, 104.5]])
def test_pages_that_were_missed_are_no_death(missed: list[float]) -> None:
    read = [s for s in series(lambda t: {"running": 2}) if s.at_ns / NS_PER_S not in missed]
    assert server_figures([*read, *(failed(at, "timeout") for at in missed)], WINDOW).stopped == []
