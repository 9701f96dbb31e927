"""A running engine's own figures beside the estimate."""

from __future__ import annotations

from llm_locust.sizing.engine_cache import EngineCache, beside, engine_caches
from llm_locust.sizing.kv_cache import GIB, KvLoad, KvShape, kv_estimate
from llm_locust.sizing.kv_dtypes import kv_dtype

SMALL = kv_estimate(
    KvShape(layers=30, kv_heads=3, head_dim=64, dtype=kv_dtype("bfloat16")), KvLoad(tokens=2000, block_tokens=128)
)
CONFIG = {
    "block_size": "128",
    "cache_dtype": "auto",
    "kv_cache_memory_bytes": "1073741824",
    "kv_cache_size_tokens": "46592",
    "kv_cache_max_concurrency": "22.75",
    "num_gpu_blocks": "364",
}
VLLM = {"engine": "vLLM", "engine_version": "0.32.0", "context_limit_tokens": 2048, "cache_config_info": {"0": CONFIG}}


def test_vllm() -> None:
    (found,) = engine_caches(VLLM)
    assert found == EngineCache(
        engine="vLLM", version="0.32.0", block_tokens=128, cache_tokens=46_592, cache_bytes=GIB,
        context_limit_tokens=2048, max_concurrency=22.75,
    )  # fmt: skip
    stands = beside(found, SMALL, 2000)
    assert stands.requests == 22  # 364 blocks / 16
    assert stands.estimated_bytes == 46_592 * 23_040
    assert stands.bytes_per_token == GIB / 46_592
    assert stands.difference_share is not None
    assert 0 < stands.difference_share < 0.001  # a part of a block is left over
    assert stands.notes == []


def test_an_older_vllm_says_blocks_and_no_tokens() -> None:
    (found,) = engine_caches({"cache_config_info": {"0": {"block_size": "16", "num_gpu_blocks": "1000"}}})
    assert (found.cache_tokens, found.cache_bytes) == (16_000, None)


def test_engines_of_one_server_are_kept_apart() -> None:
    both = engine_caches({**VLLM, "cache_config_info": {"0": CONFIG, "1": {**CONFIG, "num_gpu_blocks": "1"}}})
    assert [engine.replica for engine in both] == ["0", "1"]
    assert [engine.cache_tokens for engine in both] == [46_592, 46_592]


def test_llama_cpp_has_slots_and_room_for_no_more_requests() -> None:
    facts = {
        "engine": "llama.cpp", "context_limit_tokens": 2048, "max_active_sequences": 4,
        "context_of_all_slots_tokens": 8192,
    }  # fmt: skip
    (found,) = engine_caches(facts)
    stands = beside(found, SMALL, 2000)
    assert (stands.requests, stands.estimated_bytes) == (4, 8192 * 23_040)


def test_a_request_longer_than_the_engine_takes_has_no_room() -> None:
    (found,) = engine_caches(VLLM)
    stands = beside(found, SMALL, 2049)
    assert stands.requests == 0
    assert stands.notes == ["a request of 2,049 tokens is longer than the 2,048 it takes"]


def test_another_type_or_block_than_that_of_the_estimate_is_said() -> None:
    facts = {"cache_config_info": {"0": {**CONFIG, "cache_dtype": "fp8", "block_size": "16"}}}
    (found,) = engine_caches(facts)
    assert beside(found, SMALL, 2000).notes == [
        "its cache holds fp8, the estimate is for bfloat16",
        "its blocks hold 16 tokens, those of the estimate 128",
    ]


def test_without_an_estimate_its_figures_stand_alone() -> None:
    (found,) = engine_caches(VLLM)
    stands = beside(found, None, 2000)
    assert (stands.estimated_bytes, stands.difference_share, stands.requests) == (None, None, None)
    assert stands.figures.max_concurrency == 22.75


def test_what_an_engine_does_not_say_is_none_never_0() -> None:
    assert engine_caches({"engine": "SGLang"}) == []
    (found,) = engine_caches({"cache_config_info": {"0": {"block_size": "0", "num_gpu_blocks": "-5"}}})
    assert (found.block_tokens, found.cache_tokens, found.max_concurrency) == (None, None, None)
    (odd,) = engine_caches({"cache_config_info": {"0": {"kv_cache_max_concurrency": "inf", "block_size": "²"}}})
    assert (odd.max_concurrency, odd.block_tokens) == (None, None)
