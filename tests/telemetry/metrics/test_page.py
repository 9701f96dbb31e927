"""What is read out of a metrics page, real ones first."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from llm_locust.records.server_sample import CumulativeHistogram
from llm_locust.simulator.engine import Engine, EngineConfig, Job
from llm_locust.simulator.metrics import EngineMetrics
from llm_locust.telemetry.metrics import NormalisedPage, detect, known_mapping, read_page, server_sample

PAGES = Path(__file__).parent / "pages"
VLLM = (PAGES / "vllm.txt").read_bytes()
LLAMACPP = (PAGES / "llamacpp.txt").read_bytes()
MS = 1_000_000


def page(*lines: str, engine: str | None = None) -> NormalisedPage:
    return read_page(("\n".join(lines) + "\n").encode(), known_mapping(engine) if engine else None)


def test_a_page_of_vllm() -> None:
    found = read_page(VLLM)
    assert found.error is None
    assert found.engine == "vllm"
    assert found.verified
    assert found.values == {
        "running": 0,
        "waiting": 0,
        "kv_usage": 0,
        "process_start_s": 1795983687.18,
        "preemptions": 0,
        "prefix_cache_queries": 3564,
        "prefix_cache_hits": 0,
        "prompt_tokens": 3564,
        "generation_tokens": 4251,
        "rejections": 0,
        "requests": 83,  # 3 stopped and 80 at their length
    }
    assert found.by_engine["kv_usage"] == {"0": 0.0}
    queue = found.histograms["queue_time"]
    assert queue.le[:5] == (0.3, 0.5, 0.8, 1.0, 1.5)
    assert queue.n[:5] == (67, 67, 67, 67, 75)
    assert (queue.count, queue.sum) == (83, 32.95704495900122)
    assert found.histograms["ttft"].count == 84
    assert found.facts["kv_cache_size_tokens"] == "46592"
    assert found.facts["kv_cache_max_concurrency"] == "22.75"
    assert found.sources["requests"] == "vllm_request_success_total"
    assert found.notes == []


def test_a_page_of_llama_cpp() -> None:
    found = read_page(LLAMACPP)
    assert (found.engine, found.verified, found.error) == ("llamacpp", True, None)
    assert found.values == {
        "running": 0,
        "waiting": 0,
        "prompt_tokens": 5340 + 1298,  # its own counter leaves cached tokens out
        "prefix_cache_queries": 5340 + 1298,
        "prefix_cache_hits": 1298,
        "generation_tokens": 5401,
    }
    assert found.histograms == {}


def test_the_synthetic_engine_is_told_from_the_vllm_whose_names_it_uses() -> None:
    engine = Engine(EngineConfig(slots=1, prefill_tps=1000, decode_ms=10, kv_blocks=1000, block_size=4))
    metrics = EngineMetrics(engine, "synthetic", 4096)
    for salt in (0, 1):
        base = salt * 1000
        engine.submit(Job(range(base, base + 5), range(base + 5, base + 8)), 0)
    said = engine.advance(20 * MS)
    metrics.observe(said, 20 * MS)
    found = read_page(metrics.page())
    assert (found.engine, found.verified, found.error) == ("simulator", True, None)
    assert (found.values["running"], found.values["waiting"]) == (1, 1)
    assert found.values["generation_tokens"] == engine.totals.generation_tokens == 1
    assert found.values["requests"] == 0
    assert 0 < found.values["kv_usage"] == engine.pool.usage
    assert found.histograms["ttft"].count == 1
    assert found.histograms["ttft"].sum == pytest.approx(0.015)  # 5 ms of prefill and a step of 10 ms
    assert found.facts["kv_cache_size_tokens"] == "4000"


def test_older_names_are_taken_where_newer_ones_are_missing() -> None:
    assert page("vllm:gpu_cache_usage_perc 0.25").values == {"kv_usage": 0.25}
    both = page("vllm:gpu_cache_usage_perc 0.25", "vllm:kv_cache_usage_perc 0.5")
    assert both.values == {"kv_usage": 0.5}
    assert both.sources == {"kv_usage": "vllm_kv_cache_usage_perc"}


def test_names_as_collectors_pass_them_on_with_underscores() -> None:
    found = page('vllm_num_requests_waiting{engine="0"} 3')
    assert (found.engine, found.values) == ("vllm", {"waiting": 3})


def test_data_parallel_engines_add_up_and_keep_their_own_kv_usage() -> None:
    found = page(
        'vllm:num_requests_running{engine="0",model_name="m"} 3',
        'vllm:num_requests_running{engine="1",model_name="m"} 4',
        'vllm:num_requests_waiting{engine="0",model_name="m"} 0',
        'vllm:num_requests_waiting{engine="1",model_name="m"} 7',
        'vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.2',
        'vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.6',
        'vllm:generation_tokens_total{engine="0",model_name="m"} 100',
        'vllm:generation_tokens_total{engine="1",model_name="m"} 50',
    )
    assert found.values == {"running": 7, "waiting": 7, "kv_usage": 0.6, "generation_tokens": 150}
    sample = server_sample(found, at_ns=5, target="http://a", scrape_ms=1.5)
    assert sample.kv_usage == {"0": 0.2, "1": 0.6}
    assert (sample.kv_usage_max, sample.kv_usage_mean) == (0.6, 0.4)
    assert (sample.running, sample.waiting, sample.generation_tokens) == (7, 7, 150)
    assert (sample.at_ns, sample.target, sample.engine, sample.verified) == (5, "http://a", "vllm", True)
    assert (sample.error, sample.requests, sample.ttft) == (None, None, None)


def test_api_servers_stuck_at_0_do_not_dilute_kv_usage() -> None:
    labelled = page(
        'vllm:kv_cache_usage_perc{engine="0",pid="11"} 0',
        'vllm:kv_cache_usage_perc{engine="0",pid="12"} 0.7',
        'vllm:kv_cache_usage_perc{engine="0",pid="13"} 0',
        'vllm:kv_cache_usage_perc{engine="1",pid="12"} 0.1',
    )
    assert labelled.by_engine["kv_usage"] == {"0": 0.7, "1": 0.1}
    alike = page('vllm:kv_cache_usage_perc{engine="0"} 0.7', 'vllm:kv_cache_usage_perc{engine="0"} 0')
    assert alike.by_engine["kv_usage"] == {"0": 0.7}


def test_counters_of_several_api_servers_add_up() -> None:
    found = page(
        'vllm:generation_tokens_total{engine="0",pid="11"} 10',
        'vllm:generation_tokens_total{engine="0",pid="12"} 5',
        'vllm:prompt_tokens_total{engine="0"} 3',
        "# TYPE vllm:prompt_tokens_total counter",
        'vllm:prompt_tokens_total{engine="0"} 4',
    )
    assert found.values == {"generation_tokens": 15, "prompt_tokens": 7}


def test_ranks_that_tell_of_the_same_requests_count_once() -> None:
    found = page(
        'sglang:num_running_reqs{dp_rank="0",tp_rank="0"} 8',
        'sglang:num_running_reqs{dp_rank="0",tp_rank="1"} 8',
        'sglang:num_running_reqs{dp_rank="1",tp_rank="0"} 5',
        'sglang:queue_time_seconds_bucket{tp_rank="0",le="1.0"} 4',
        'sglang:queue_time_seconds_bucket{tp_rank="0",le="+Inf"} 6',
        'sglang:queue_time_seconds_bucket{tp_rank="1",le="1.0"} 4',
        'sglang:queue_time_seconds_bucket{tp_rank="1",le="+Inf"} 6',
    )
    assert found.values == {"running": 13}
    assert not found.verified
    assert found.histograms["queue_time"] == CumulativeHistogram(le=(1.0,), n=(4,), count=6)


def test_histograms_of_engines_add_up_over_the_bounds_that_they_share() -> None:
    found = page(
        'vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1"} 1',
        'vllm:time_to_first_token_seconds_bucket{engine="0",le="0.5"} 2',
        'vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf"} 4',
        'vllm:time_to_first_token_seconds_sum{engine="0"} 3.5',
        'vllm:time_to_first_token_seconds_bucket{engine="1",le="0.5"} 10',
        'vllm:time_to_first_token_seconds_bucket{engine="1",le="+Inf"} 10',
        'vllm:time_to_first_token_seconds_sum{engine="1"} 2.5',
    )
    assert found.histograms["ttft"] == CumulativeHistogram(le=(0.5,), n=(12,), count=14, sum=6.0)


def test_labels_choose_series_and_factors_make_seconds() -> None:
    found = page(
        'nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 2',
        'nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 5',
        'nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 512',
        'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"} 0.5',
        'nv_inference_first_response_histogram_ms_bucket{model="preprocessing",version="1",le="70"} 9',
        'nv_inference_first_response_histogram_ms_bucket{model="tensorrt_llm",version="1",le="70"} 3',
        'nv_inference_first_response_histogram_ms_bucket{model="tensorrt_llm",version="1",le="+Inf"} 4',
        'nv_inference_first_response_histogram_ms_sum{model="tensorrt_llm",version="1"} 500',
    )
    assert found.engine == "triton"
    assert found.values == {"running": 5, "waiting": 2, "kv_usage": 0.5}
    assert found.histograms["ttft"] == CumulativeHistogram(le=(0.07,), n=(3,), count=4, sum=0.5)


@pytest.mark.parametrize("number", ["NaN", "+Inf", "-Inf"])
def test_a_gauge_that_is_no_number_is_not_measured_and_never_0(number: str) -> None:
    found = page(f'vllm:kv_cache_usage_perc{{engine="0"}} {number}', 'vllm:kv_cache_usage_perc{engine="1"} 0.5')
    assert found.by_engine["kv_usage"] == {"1": 0.5}
    part = page(f'vllm:num_requests_waiting{{engine="0"}} {number}', 'vllm:num_requests_waiting{engine="1"} 5')
    assert part.values == {}
    assert part.notes == ["vllm_num_requests_waiting: 1 of 2 series hold no number"]


def test_timestamps_exemplars_comments_and_line_ends_do_no_harm() -> None:
    found = page(
        "# a comment\r",
        'vllm:num_requests_waiting{engine="0"} 4 1700000000000\r',
        'vllm:num_requests_running{engine="0",model_name="a # b, \\"c\\"} 1"}\t2\r',
        'vllm:time_to_first_token_seconds_bucket{le="0.5"} 3 # {trace_id="9f"} 0.42 1700000000.1',
        'vllm:time_to_first_token_seconds_bucket{le="+Inf"} 3 # {trace_id="9f"} 0.42',
        'vllm:generation_tokens_total{engine="0"} 1e3',
        "# EOF",
    )
    assert found.error is None
    assert found.values == {"waiting": 4, "running": 2, "generation_tokens": 1000}
    assert found.histograms["ttft"] == CumulativeHistogram(le=(0.5,), n=(3,), count=3)


def test_buckets_that_fall_are_no_histogram() -> None:
    found = page(
        'vllm:time_to_first_token_seconds_bucket{le="0.5"} 3',
        'vllm:time_to_first_token_seconds_bucket{le="1.0"} 2',
        'vllm:time_to_first_token_seconds_bucket{le="+Inf"} 3',
    )
    assert found.histograms == {}
    assert found.notes == ["vllm_time_to_first_token_seconds: its buckets are not those of a histogram"]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", "the page is empty"),
        (b"  \n\n", "the page is empty"),
        (b"<!DOCTYPE html>\n<html><head><title>404 Not\nFound</title>", "a web page, not metrics: '404 Not Found'"),
        (b'{"detail": "Not Found"}', 'JSON, not metrics: \'{"detail": "Not Found"}\''),
        (b"# HELP a b\n# TYPE a gauge\n", "a metrics page without a single sample"),
        (b"\x1f\x8b\x08\x00\x00", "not a metrics page: '\N{REPLACEMENT CHARACTER}'"),
        (b"go_goroutines 7\n", "metrics of no engine that there is a mapping for ("),
        (
            b'vllm:num_requests_running 1\nvllm:num_requests_waiting{engine="0"} many\n',
            "line 2 is no sample of a metrics page: 'vllm:num_requests_waiting{engine=\"0\"} many'",
        ),
        (b'vllm:num_requests_waiting{engine="0\n', "line 1 is no sample of a metrics page"),
        (b"vllm:num_requests_waiting " + b"9" * 400 + b"\n", "line 1 is no sample of a metrics page"),
    ],
)
def test_what_is_no_page_is_an_error_in_words_and_raises_nothing(body: bytes, error: str) -> None:
    found = read_page(body)
    assert found.error is not None
    assert found.error.startswith(error)
    assert (found.values, found.histograms) == ({}, {})
    sample = server_sample(found, at_ns=1, target="a")
    assert sample.error == found.error
    assert sample.running is None


def test_a_line_that_nobody_reads_may_be_anything() -> None:
    assert page("vllm:num_requests_running 1", "vllm:something_else {{{ 1 ???").values == {"running": 1}


def test_a_page_of_another_engine_than_was_said() -> None:
    found = page("llamacpp:requests_processing 1", engine="vllm")
    assert found.error == "none of the 1 metrics on the page is one of vLLM"


def test_detect() -> None:
    assert detect(b"go_goroutines 7\n") is None
    assert detect(b"<html>") is None
    for body, engine in ((VLLM, "vllm"), (LLAMACPP, "llamacpp"), (b"tgi_queue_size 1\n", "tgi")):
        found = detect(body)
        assert found is not None
        assert found.engine == engine


def test_every_cut_of_a_page_is_read_or_refused() -> None:
    for end in range(0, len(LLAMACPP), 7):
        found = read_page(LLAMACPP[:end])
        assert found.error is not None or all(math.isfinite(value) for value in found.values.values())
