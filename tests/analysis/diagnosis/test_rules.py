"""Each rule finds its symptom, names what shows it, and is silent on a healthy run and where it lacks what it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llm_locust.analysis.diagnosis import RULES
from llm_locust.records import WorkloadFacts
from llm_locust.records.device_sample import DeviceSample
from llm_locust.records.diagnosis import MOST_ROWS, Finding
from llm_locust.report import merge_run
from tests.analysis.run_builder import RunBuilder, StageBuilder


def findings(run: RunBuilder) -> dict[str, Finding]:
    return {found.rule: found for found in merge_run(run.write()).summary.findings}


def a_run(tmp_path: Path, **manifest: Any) -> tuple[RunBuilder, StageBuilder]:
    run = RunBuilder(tmp_path, slo={"ttft": 500}, **manifest)
    return run, run.stage(rate=2)


def quiet(at: float) -> dict[str, Any]:
    """A server with time to spare."""
    return {"running": 2, "waiting": 0, "kv_usage_max": 0.4, "preemptions": 0, "requests": _even(at, 120)}


def _even(at: float, count: int) -> int:
    return round(count * min(max(at, 0.0), 60.0) / 60)


def sharing(share: float = 0.8) -> WorkloadFacts:
    return WorkloadFacts(name="w", kind="synthetic", source="made up", sha256="ab" * 32, shared_prefix_share=share)


def test_a_healthy_run_has_no_finding(tmp_path: Path) -> None:
    run, stage = a_run(tmp_path, workload=sharing())
    for k in range(120):
        stage.request(k / 2, prefix_group=f"g{k % 2}", cached_tokens=15, gaps_us=[90_000] * 10, max_gap_ns=90_000_000)
    stage.scraped(
        lambda at: quiet(at) | {"prefix_cache_queries": 100 * _even(at, 120), "prefix_cache_hits": 75 * _even(at, 120)}
    )
    run.devices = [gpu(stage, 10, used=40)]
    assert findings(run) == {}


def test_a_run_of_which_nothing_but_its_rows_is_known_has_no_finding(tmp_path: Path) -> None:
    run, stage = a_run(tmp_path)
    stage.requests(120)
    assert findings(run) == {}


def test_a_run_that_sent_nothing_has_no_finding(tmp_path: Path) -> None:
    run, _ = a_run(tmp_path)
    assert findings(run) == {}


def test_every_rule_has_its_own_name(tmp_path: Path) -> None:
    assert len(RULES) == 12
    assert all(rule.__name__ == name for name, rule in RULES.items())


# The client


def test_a_generator_that_was_late_is_found_with_its_latest_requests(tmp_path: Path) -> None:
    run, stage = a_run(tmp_path)
    for k in range(120):
        stage.request(k / 2, lag=40 + k if k < 12 else 0)
    found = findings(run)["generator_limited"]
    assert (found.where, found.confidence, found.rows_in_all) == ("client", "shown", 12)
    assert found.rows == [11, 10, 9, 8, 7, 6, 5, 4, 3, 2]
    assert found.request_ids[0] == "run-1-11"
    assert found.evidence == ["dispatch was late: 12 of 120 arrivals by more than 5 ms (lag P99 50.0 ms)"]


def test_what_our_own_cap_held_back_is_the_client_too(tmp_path: Path) -> None:
    run, stage = a_run(tmp_path, max_in_flight=2)
    for k in range(120):
        stage.request(k / 2, cap_wait=100 if k >= 100 else 0)
    found = findings(run)["held_back"]
    assert found.evidence == ["held back by --max-in-flight, P95 100 ms; 20 of 120 measured requests waited over 5 ms"]
    assert (found.rows_in_all, found.rows[0]) == (20, 100)


def test_a_cap_that_was_never_given_held_nothing_back(tmp_path: Path) -> None:
    run, stage = a_run(tmp_path)
    for k in range(120):
        stage.request(k / 2, cap_wait=100)
    assert "held_back" not in findings(run)


def test_a_closed_loop_plans_nothing_so_nothing_waits(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, max_in_flight=4)
    run.stage(concurrency=2).requests(120, cap_wait=100)
    assert "held_back" not in findings(run)


def test_a_wait_of_a_late_generator_is_not_blamed_on_the_cap(tmp_path: Path) -> None:
    run, stage = a_run(tmp_path)
    for k in range(120):
        stage.request(k / 2, lag=50, cap_wait=100)
    assert "held_back" not in findings(run)


# The network


def test_replies_that_come_at_one_instant_are_buffered(tmp_path: Path) -> None:
    run, stage = a_run(tmp_path)
    for k in range(120):
        stage.request(k / 2, ttft=300, e2e=300) if k % 10 == 0 else stage.request(k / 2)
    found = findings(run)["buffered_stream"]
    assert (found.where, found.confidence) == ("network", "shown")
    assert found.rows == [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]
    assert found.evidence == ["12 of 120 replies of two tokens and more (10 %) had one receive time, 11 tokens at P50"]


def test_whole_replies_in_one_read_are_not_blamed_on_the_generator(tmp_path: Path) -> None:
    run, stage = a_run(tmp_path)
    for k in range(120):
        whole = k % 10 == 0
        stage.request(k / 2, ttft=300, e2e=300 if whole else 1000, first_coalesced=whole)
    found = findings(run)
    assert "buffered_stream" in found
    assert "generator_limited" not in found


def test_first_outputs_read_late_are_the_generators(tmp_path: Path) -> None:
    run, stage = a_run(tmp_path)
    for k in range(120):
        stage.request(k / 2, first_coalesced=k % 10 == 0)
    assert findings(run)["generator_limited"].rows_in_all == 12


def test_a_few_short_replies_in_one_packet_are_no_finding(tmp_path: Path) -> None:
    run, stage = a_run(tmp_path)
    for k in range(120):
        stage.request(k / 2, ttft=300, e2e=300, tokens=2) if k < 5 else stage.request(k / 2)
    assert "buffered_stream" not in findings(run)


# Loading


def test_requests_that_waited_for_the_model_are_told_by_the_server(tmp_path: Path) -> None:
    run, stage = a_run(tmp_path)
    for k in range(120):
        stage.request(k / 2, ttft=4000 + k if k < 3 else 100, e2e=6000, cold=k < 3)
    found = findings(run)["model_loads"]
    assert (found.where, found.rows) == ("memory", [2, 1, 0])
    assert found.evidence == ["3 of 120 requests waited for the model, TTFT P50 4001 ms, of the others 100 ms"]


def test_a_model_that_loads_as_fast_as_it_answers_is_no_finding(tmp_path: Path) -> None:
    run, stage = a_run(tmp_path)
    for k in range(120):
        stage.request(k / 2, ttft=150 if k < 3 else 100, cold=k < 3)
    assert "model_loads" not in findings(run)


def test_slow_first_requests_that_were_measured_are_found(tmp_path: Path) -> None:
    run, stage = a_run(tmp_path)
    for k in range(120):
        stage.request(k / 2, ttft=(900 if k == 0 else 700) if k < 2 else 100)
    found = findings(run)["slow_start"]
    assert (found.where, found.confidence, found.rows) == ("prefill", "likely", [0, 1])
    assert found.evidence == [
        "the first 2 requests had a TTFT of 700 to 900 ms, the second half of the stage a median of 100 and a P95 of "
        "100 ms; 2 of 2 were measured"
    ]


def test_a_warm_up_that_took_the_slow_ones_did_its_work(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 500})
    stage = run.stage(rate=2, warmup=10)
    stage.request(-9, ttft=5000, e2e=6000)
    stage.requests(120)
    assert "slow_start" not in findings(run)


def test_a_closed_loop_that_starts_all_at_once_is_no_cold_start(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 500})
    stage = run.stage(concurrency=4)
    for _ in range(4):
        stage.request(0, ttft=600)
    for k in range(100):
        stage.request(1 + k / 4)
    assert "slow_start" not in findings(run)


def test_one_slow_request_later_on_is_no_slow_start(tmp_path: Path) -> None:
    run, stage = a_run(tmp_path)
    for k in range(120):
        stage.request(k / 2, ttft=5000 if k == 30 else 100, e2e=6000)
    assert "slow_start" not in findings(run)


# Memory


def gpu(stage: StageBuilder, at: float, used: int) -> DeviceSample:
    return DeviceSample(
        at_ns=stage.window_start_ns + round(at * 1e9),
        kind="gpu",
        gpu=0,
        uuid="GPU-1",
        memory_kind="vram",
        memory_used_bytes=used * 10**9,
        memory_total_bytes=80 * 10**9,
    )


def out_of_memory(tmp_path: Path) -> tuple[RunBuilder, StageBuilder]:
    run, stage = a_run(tmp_path)
    stage.requests(118)
    stage.request(10.25, outcome="oom", status=500)
    stage.request(20.25, outcome="oom", status=500)
    return run, stage


def test_memory_that_ran_out_below_its_peak_is_found(tmp_path: Path) -> None:
    run, stage = out_of_memory(tmp_path)
    run.devices = [gpu(stage, 10, used=40), gpu(stage, 20, used=60)]
    found = findings(run)["oom_below_the_limit"]
    assert (found.where, found.rows) == ("memory", [118, 119])
    assert found.evidence == [
        "2 requests found the server out of memory, while GPU 0 had at most 60 of 80 GB in use (2 samples)"
    ]


def test_memory_that_ran_out_when_it_was_full_is_no_riddle(tmp_path: Path) -> None:
    run, stage = out_of_memory(tmp_path)
    run.devices = [gpu(stage, 10, used=78)]
    assert "oom_below_the_limit" not in findings(run)


def test_memory_that_nobody_sampled_did_not_look_like_anything(tmp_path: Path) -> None:
    run, _ = out_of_memory(tmp_path)
    assert "oom_below_the_limit" not in findings(run)


# The KV cache


def test_preemptions_are_found_with_the_moments_of_a_full_cache(tmp_path: Path) -> None:
    run, stage = a_run(tmp_path)
    stage.requests(120)
    full = {9.5, 10.5, 11.5}
    stage.scraped(
        lambda at: quiet(at) | {"kv_usage_max": 0.98 if at in full else 0.5, "preemptions": _even(at, 60), "waiting": 3}
    )
    found = findings(run)["kv_cache_full"]
    assert (found.where, found.confidence) == ("KV cache", "shown")
    assert found.evidence == [
        "60 preemptions, 0.5 for each of 120 finished requests: its work is thrown away and done again; KV cache at most "
        "98 % full; up to 3 requests waiting"
    ]
    assert [round((at - stage.window_start_ns) / 1e9, 3) for at in found.samples_ns] == sorted(full)


def test_a_nearly_full_cache_with_requests_waiting_is_a_possible_cause(tmp_path: Path) -> None:
    run, stage = a_run(tmp_path)
    stage.requests(120)
    stage.scraped(lambda at: quiet(at) | {"kv_usage_max": 0.97, "waiting": 3})
    assert findings(run)["kv_cache_full"].confidence == "possible"


def test_a_full_cache_for_which_nobody_waits_is_no_finding(tmp_path: Path) -> None:
    run, stage = a_run(tmp_path)
    stage.requests(120)
    stage.scraped(lambda at: quiet(at) | {"kv_usage_max": 0.99})
    assert "kv_cache_full" not in findings(run)


def shared_prompts(tmp_path: Path, cached: int | None, **manifest: Any) -> RunBuilder:
    run, stage = a_run(tmp_path, workload=sharing(), **manifest)
    for k in range(120):
        stage.request(k / 2, prefix_group=f"g{k % 4}", prompt_tokens=100, cached_tokens=cached)
    return run


def test_shared_prefixes_without_hits_are_found(tmp_path: Path) -> None:
    found = findings(shared_prompts(tmp_path, cached=0))["prefix_cache_without_hits"]
    assert (found.where, found.confidence, found.rows_in_all) == ("KV cache", "likely", 116)
    assert found.rows[:3] == [4, 5, 6]
    assert found.evidence == [
        "80 % of the input (about 80 tokens of a prompt) is shared by 120 requests in 4 groups, but its usage reports say "
        "0 % of the prompt tokens from the cache"
    ]


@pytest.mark.parametrize("cached", [None, 0])
def test_a_cache_that_is_known_to_be_off_is_switched_on_first(tmp_path: Path, cached: int | None) -> None:
    run = shared_prompts(tmp_path, cached=cached, server_facts_start={"prefix_caching": "False"})
    found = findings(run)["prefix_cache_without_hits"]
    assert found.confidence == "shown"
    assert found.evidence[0].endswith("prefix caching is said to be off")
    assert found.vary_next[0].startswith("Switch prefix caching on")


@pytest.mark.parametrize("cached", [None, 70])
def test_hits_that_are_there_or_not_known_are_no_finding(tmp_path: Path, cached: int | None) -> None:
    assert "prefix_cache_without_hits" not in findings(shared_prompts(tmp_path, cached=cached))


# The server's queue


def ladder(tmp_path: Path, waiting: int | None, slow_ms: float = 400, done: int = 240) -> RunBuilder:
    """Two rates; at the second a tenth of the requests is slow."""
    run = RunBuilder(tmp_path, slo={"ttft": 5000})
    low, high = run.stage(rate=2), run.stage(rate=4)
    low.requests(120)
    for k in range(240):
        e2e = 1000 if k < done else 90_000
        high.request(k / 4, ttft=slow_ms if k % 10 == 0 else 100, e2e=e2e)
    if waiting is not None:
        for stage, level in ((low, 0), (high, waiting)):
            stage.scraped(lambda at, level=level: quiet(at) | {"waiting": level})  # type: ignore[misc]
    return run


def test_ttft_up_with_throughput_up_is_a_queue(tmp_path: Path) -> None:
    found = findings(ladder(tmp_path, waiting=7))["queueing"]
    assert (found.where, found.confidence, found.stages) == ("server queue", "likely", ["open 4/s poisson"])
    assert found.evidence == [
        "TTFT P99 400 ms against 100 ms at open 2/s poisson, while 3.93 req/s were completed against 1.97 at open 2/s "
        "poisson; up to 7 waited in the server"
    ]
    assert (found.rows_in_all, found.rows[:2]) == (24, [120, 130])


def test_an_invalid_stage_is_no_step_of_a_ladder(tmp_path: Path) -> None:
    run = ladder(tmp_path, waiting=7)
    run.stages[1].request(5, outcome="generator_error")
    assert "queueing" not in findings(run)


def test_a_queue_that_was_not_read_is_only_possible(tmp_path: Path) -> None:
    found = findings(ladder(tmp_path, waiting=None))["queueing"]
    assert found.confidence == "possible"
    assert found.evidence[0].endswith("; the server's own queue was not read")


@pytest.mark.parametrize(
    ("waiting", "slow_ms", "done"),
    [(0, 400, 240), (7, 150, 240), (7, 400, 100)],
    ids=["nothing waited", "TTFT hardly rose", "throughput fell"],
)
def test_what_is_no_queue_is_not_called_one(tmp_path: Path, waiting: int, slow_ms: float, done: int) -> None:
    assert "queueing" not in findings(ladder(tmp_path, waiting, slow_ms, done))


def test_of_several_steps_the_plainest_is_named(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 5000})
    for rate, slow in ((1, 100), (2, 300), (4, 4000)):
        stage = run.stage(rate=rate)
        for k in range(60 * rate):
            stage.request(k / rate, ttft=slow if k % 10 == 0 else 100, e2e=5000)
    found = findings(run)["queueing"]
    assert found.stages == ["open 4/s poisson"]
    assert "TTFT P95 4000 ms against 100 ms at open 1/s poisson" in found.evidence[0]


def test_one_stage_alone_is_no_ladder(tmp_path: Path) -> None:
    run, stage = a_run(tmp_path)
    for k in range(120):
        stage.request(k / 2, ttft=4000, e2e=5000)
    assert "queueing" not in findings(run)


def test_rejections_at_a_limit_on_the_number_in_flight(tmp_path: Path) -> None:
    run, stage = a_run(tmp_path)
    for _ in range(4):
        stage.request(10, e2e=5000)
    for k in range(3):
        stage.request(11 + k, outcome="rejected", status=503, e2e=2)
    found = findings(run)["rejections"]
    assert (found.where, found.confidence, found.rows) == ("server queue", "shown", [4, 5, 6])
    assert found.evidence == [
        "3 of 7 requests: 3 x HTTP 503; each met at least 4 others in flight, and of those taken at most 4 were in flight "
        "at once: a limit on the number in flight"
    ]


def test_rejections_with_nobody_in_flight_come_from_no_such_limit(tmp_path: Path) -> None:
    run, stage = a_run(tmp_path)
    stage.requests(60)
    stage.request(59.9, outcome="rejected", status=429, e2e=2)
    stage.request(55.99, outcome="rejected", status=429, e2e=2)
    assert "limit on" not in findings(run)["rejections"].evidence[0]


# Decode behind prefill


def interleaved(tmp_path: Path, long_at: float | None, tokens: int = 4000) -> RunBuilder:
    """Streams of ten gaps of 20 ms; every sixth second one gap is 400 ms, from 100 to 500 ms after the stream began.

    A long prompt is read (sent to first token) from ``long_at`` seconds after that on, for 300 ms.
    """
    run, stage = a_run(tmp_path)
    for k in range(0, 60, 6):
        gaps = [20_000] * 4 + [400_000] + [20_000] * 5
        stage.request(k, ttft=20, e2e=600, prompt_tokens=100, gaps_us=gaps, max_gap_ns=400_000_000)
        if long_at is not None:
            stage.request(
                k + long_at, ttft=300, e2e=520, prompt_tokens=tokens, gaps_us=[22_000] * 10, max_gap_ns=22_000_000
            )
        for other in range(1, 6):
            stage.request(k + other, ttft=20, e2e=220, prompt_tokens=100, gaps_us=[20_000] * 10, max_gap_ns=20_000_000)
    return run


def test_gaps_that_fall_into_others_long_prefills_are_found(tmp_path: Path) -> None:
    found = findings(interleaved(tmp_path, long_at=0.15))["decode_behind_prefill"]
    assert (found.where, found.confidence, found.rows_in_all) == ("prefill", "likely", 10)
    assert found.rows == [0, 7, 14, 21, 28, 35, 42, 49, 56, 63]
    assert found.evidence[0].startswith(
        "10 of 10 gaps over 200 ms fall between sending and first token of prompts of 400 tokens and more (10 of them, for "
        "example requests 1, 8, 15, 22, 29); by chance it would be 1"
    )


@pytest.mark.parametrize(
    ("long_at", "tokens"),
    [(None, 4000), (3.5, 4000), (0.15, 100)],
    ids=["no long prompts", "long prompts at other times", "all prompts alike"],
)
def test_gaps_with_another_cause_are_not_laid_on_prefill(tmp_path: Path, long_at: float | None, tokens: int) -> None:
    assert "decode_behind_prefill" not in findings(interleaved(tmp_path, long_at, tokens))


# Counts


def test_counts_that_differ_are_found_with_the_samples_they_were_taken_between(tmp_path: Path) -> None:
    run, stage = a_run(tmp_path)
    stage.requests(120)
    stage.scraped(lambda at: {"requests": _even(at, 120), "prompt_tokens": _even(at, 3000)})
    found = findings(run)["counts_disagree"]
    assert found.evidence == ["prompt tokens: the client counted 2400, the server 3000 (+25.00 %)"]
    assert len(found.vary_next) == 1
    assert [round((at - stage.window_start_ns) / 1e9, 3) for at in found.samples_ns] == [-0.5, 60.5]


# All of them


def test_a_symptom_of_several_stages_is_one_finding_with_rows_of_each(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 500})
    for rate in (1, 2):
        run.stage(rate=rate).requests(60 * rate, ttft=300, e2e=300)
    found = findings(run)["buffered_stream"]
    assert found.stages == ["open 1/s poisson", "open 2/s poisson"]
    assert [sentence.split(":")[0] for sentence in found.evidence] == found.stages
    assert found.rows == [0, 60, 1, 61, 2, 62, 3, 63, 4, 64]
    assert (len(found.rows), found.rows_in_all) == (MOST_ROWS, 180)


def test_what_is_counted_comes_before_what_is_inferred(tmp_path: Path) -> None:
    run, stage = a_run(tmp_path)
    for k in range(120):
        slow = k < 2
        stage.request(k / 2, ttft=900 if slow else 100, lag=50)
    assert [found.confidence for found in merge_run(run.write()).summary.findings] == ["shown", "likely"]
