"""The KV cache by the formula, worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_locust.records import UsageError
from llm_locust.sizing.kv_cache import GIB, KvEstimate, KvLoad, KvShape, kv_estimate, kv_fit, to_bytes
from llm_locust.sizing.kv_dtypes import KV_DTYPES, kv_dtype


def shape(layers: int = 32, kv_heads: int = 8, head_dim: int = 128, dtype: str = "float16") -> KvShape:
    return KvShape(layers=layers, kv_heads=kv_heads, head_dim=head_dim, dtype=kv_dtype(dtype))


def estimate(tokens: int = 8192, of: KvShape | None = None, **load: int) -> KvEstimate:
    return kv_estimate(of or shape(), KvLoad(tokens=tokens, **load))


def test_32_layers_of_8_kv_heads_of_128_hold_8192_tokens_of_2_bytes_in_1_gib() -> None:
    found = estimate()
    assert found.bytes_per_token == 2 * 32 * 8 * 128 * 2 == 131_072
    assert found.bytes_per_request == found.total_bytes == GIB
    assert found.blocks_per_request == 512


def test_requests_at_once_are_multiplied() -> None:
    assert estimate(concurrency=30).total_bytes == 30 * GIB


@pytest.mark.parametrize(
    ("tokens", "block", "blocks", "held"),
    [(1, 16, 1, 16), (16, 16, 1, 16), (17, 16, 2, 32), (8191, 16, 512, 8192), (100, 1, 100, 100), (100, 128, 1, 128)],
)
def test_tokens_are_rounded_up_to_whole_blocks(tokens: int, block: int, blocks: int, held: int) -> None:
    found = estimate(tokens, block_tokens=block)
    assert (found.blocks_per_request, found.tokens_held_per_request) == (blocks, held)
    assert found.bytes_per_request == held * 131_072


@pytest.mark.parametrize(
    ("dtype", "per_token"),
    # 65,536 values a token: 2 x 32 x 8 x 128
    [("bf16", 131_072), ("fp8", 65_536), ("fp8_e5m2", 65_536), ("f32", 262_144), ("1", 65_536), ("0.5", 32_768),
     ("q8_0", 69_632), ("q4_0", 36_864)],
)  # fmt: skip
def test_the_cache_has_a_type_of_its_own(dtype: str, per_token: int) -> None:
    assert estimate(of=shape(dtype=dtype)).bytes_per_token == per_token


def test_a_type_that_is_none_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"--kv-dtype 'fp88': did you mean fp8\?"):
        kv_dtype("fp88")
    for wrong in ("", "0", "-2", "nan", "inf", "16"):  # 16 are bits, no bytes
        with pytest.raises(UsageError, match="--kv-dtype"):
            kv_dtype(wrong)


@pytest.mark.parametrize(
    ("gpus", "heads", "copies", "per_token"),
    [(1, 8, 1, 131_072), (2, 4, 1, 65_536), (8, 1, 1, 16_384), (16, 1, 2, 16_384), (32, 1, 4, 16_384)],
)
def test_each_gpu_holds_its_share_of_the_heads_and_at_least_one(
    gpus: int, heads: int, copies: int, per_token: int
) -> None:
    found = estimate(tensor_parallel=gpus)
    assert (found.kv_heads_per_gpu, found.copies_of_heads, found.gpu_bytes_per_token) == (heads, copies, per_token)
    assert found.bytes_per_token == 131_072
    assert found.gpu_bytes_per_request == 8192 * per_token


def test_heads_that_cannot_be_shared_are_refused_with_what_can() -> None:
    with pytest.raises(UsageError, match=r"--tp 3: 8 KV heads .* it is 1, 2, 4, 8, 16 or another multiple of 8"):
        estimate(tensor_parallel=3)
    with pytest.raises(UsageError, match="--tp 12"):
        estimate(tensor_parallel=12)


def test_ollama_allocates_the_context_for_each_of_its_places_whatever_is_in_flight() -> None:
    found = estimate(concurrency=1, ollama_num_parallel=4)
    assert (found.bytes_per_request, found.total_bytes) == (GIB, 4 * GIB)
    assert estimate(concurrency=9, ollama_num_parallel=4).total_bytes == 4 * GIB


def test_whole_requests_fit_into_the_budget() -> None:
    # 24.8 GiB / 2 MiB a block = 12,697.6 blocks; 512 a request
    found = kv_fit(estimate(), to_bytes(24.8), "log")
    assert (found.blocks, found.tokens, found.requests) == (12_697, 203_152, 24)
    assert kv_fit(estimate(), GIB - 1, "log").requests == 0
    assert kv_fit(estimate(), GIB, "log").requests == 1
    assert kv_fit(estimate(tensor_parallel=2), to_bytes(24.8), "log").requests == 49  # of half a GiB each


def test_a_real_engine_has_as_many_blocks_as_the_formula_gives() -> None:
    # vLLM with SmolLM2-135M in bfloat16: a cache of 1 GiB, blocks of 128 tokens; it counted 364 of them, 46,592 tokens.
    small = shape(layers=30, kv_heads=3, head_dim=64, dtype="bfloat16")
    found = kv_fit(estimate(2048, small, block_tokens=128), GIB, "engine")
    assert (found.blocks, found.tokens) == (364, 46_592)
    assert found.requests == 22  # it says 22.75 of its 2,048 tokens


def test_gib_are_taken_by_their_digits() -> None:
    assert to_bytes(0.1) == 107_374_182
    assert to_bytes(24) == 24 * GIB


SHAPES = st.builds(
    shape,
    layers=st.integers(1, 128),
    kv_heads=st.sampled_from([1, 2, 4, 8, 16]),
    head_dim=st.sampled_from([64, 80, 128, 256]),
    dtype=st.sampled_from(KV_DTYPES),
)


@given(
    SHAPES, st.integers(1, 10**6), st.integers(0, 10**4), st.integers(1, 64), st.sampled_from([1, 16, 128]),
    st.integers(0, 10**12), st.integers(0, 10**12),
)  # fmt: skip
def test_more_is_never_less(
    of: KvShape, tokens: int, more: int, concurrency: int, block: int, budget: int, further: int
) -> None:
    one = estimate(tokens, of, concurrency=concurrency, block_tokens=block)
    longer = estimate(tokens + more, of, concurrency=concurrency, block_tokens=block)
    assert longer.bytes_per_request >= one.bytes_per_request
    assert estimate(tokens, of, concurrency=concurrency + 1, block_tokens=block).total_bytes > one.total_bytes
    assert kv_fit(one, budget + further, "").requests >= kv_fit(one, budget, "").requests
    assert kv_fit(longer, budget, "").requests <= kv_fit(one, budget, "").requests
    assert kv_fit(one, one.total_bytes, "").requests >= concurrency


@given(SHAPES, st.integers(1, 10**5), st.sampled_from([1, 2, 4, 8, 16, 32]))
def test_more_gpus_never_hold_more_each_nor_less_together(of: KvShape, tokens: int, gpus: int) -> None:
    one, shared = estimate(tokens, of), None
    if of.kv_heads % gpus == 0 or gpus % of.kv_heads == 0:
        shared = estimate(tokens, of, tensor_parallel=gpus)
    if shared is not None:
        assert shared.gpu_bytes_per_request <= one.gpu_bytes_per_request
        assert shared.gpu_bytes_per_request * gpus >= one.bytes_per_request
        assert shared.copies_of_heads == max(1, gpus // of.kv_heads)
