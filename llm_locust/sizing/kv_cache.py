"""The KV cache of requests: 2 x layers x KV heads x head size x bytes a value x tokens, per token, per request and in all.

Tokens are rounded up to whole blocks. Under tensor parallelism every GPU holds its share of the KV heads, and at least one:
where there are more GPUs than KV heads, heads are stored more than once. Sizes are bytes; a GiB is 2^30 of them.
"""

from __future__ import annotations

import math
from fractions import Fraction

import msgspec

from llm_locust.analysis.words import number
from llm_locust.records import UsageError
from llm_locust.sizing.kv_dtypes import KvDtype

GIB = 1 << 30

MOST_BYTES = 1 << 63

DEFAULT_BLOCK_TOKENS = 16
"""What vLLM starts from on NVIDIA GPUs."""

LEFT_OUT = (
    "weights",
    "activations",
    "CUDA graphs",
    "workspace",
    "the engine's reserve of blocks",
    "fragmentation",
    "prefix sharing",
    "offload to host memory or disk",
    "pipeline, data and context parallelism",
    "draft models",
    "scales of a quantized cache",
)
"""What the formula says nothing about."""


class KvShape(msgspec.Struct, frozen=True, kw_only=True):
    """A model of which every layer keeps a key and a value of each token for each KV head."""

    layers: int
    kv_heads: int
    head_dim: int
    dtype: KvDtype


class KvLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be held."""

    tokens: int
    """Of one request, prompt and output together."""
    concurrency: int = 1
    """Requests at once."""
    block_tokens: int = DEFAULT_BLOCK_TOKENS
    tensor_parallel: int = 1
    """GPUs that share every layer."""
    ollama_num_parallel: int | None = None
    """Places that Ollama allocates, each of the whole context, in use or not; they take the place of ``concurrency``."""

    @property
    def held(self) -> int:
        """Requests that memory is held for."""
        return self.concurrency if self.ollama_num_parallel is None else self.ollama_num_parallel


class KvEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """The KV cache by the formula. Bytes; a fraction of a byte counts as a whole one."""

    shape: KvShape
    load: KvLoad
    bytes_per_token: int
    """Of the whole model, every KV head once."""
    blocks_per_request: int
    tokens_held_per_request: int
    """Tokens rounded up to whole blocks."""
    bytes_per_request: int
    total_bytes: int
    """Of all requests at once."""
    kv_heads_per_gpu: int
    copies_of_heads: int
    """GPUs that hold the same head: more than 1 when there are more GPUs than heads."""
    gpu_bytes_per_token: int
    gpu_bytes_per_request: int
    gpu_total_bytes: int


class KvFit(msgspec.Struct, frozen=True, kw_only=True):
    """What fits into a cache of so many bytes on each GPU."""

    budget_bytes: int
    source: str
    """Who says so."""
    blocks: int
    tokens: int
    requests: int
    """Whole requests of the asked length at once; 0 when not even one fits."""


def kv_estimate(shape: KvShape, load: KvLoad) -> KvEstimate:
    """What the formula gives.

    Raises:
        UsageError: the KV heads cannot be shared by that many GPUs, or the numbers are beyond any memory.
    """
    per_gpu, copies = share_of_heads(shape.kv_heads, load.tensor_parallel)
    blocks = -(-load.tokens // load.block_tokens)
    held = blocks * load.block_tokens
    whole, part = _token_bytes(shape, shape.kv_heads), _token_bytes(shape, per_gpu)
    if max(whole, part * load.tensor_parallel) * held * load.held >= MOST_BYTES:
        raise UsageError(
            "these numbers come to more than any memory holds (2^63 bytes): is one of them a slip? Check them"
        )
    return KvEstimate(
        shape=shape,
        load=load,
        bytes_per_token=math.ceil(whole),
        blocks_per_request=blocks,
        tokens_held_per_request=held,
        bytes_per_request=math.ceil(whole * held),
        total_bytes=math.ceil(whole * held * load.held),
        kv_heads_per_gpu=per_gpu,
        copies_of_heads=copies,
        gpu_bytes_per_token=math.ceil(part),
        gpu_bytes_per_request=math.ceil(part * held),
        gpu_total_bytes=math.ceil(part * held * load.held),
    )


def kv_fit(estimate: KvEstimate, budget_bytes: int, source: str) -> KvFit:
    """How many of the requests fit into a cache of ``budget_bytes`` on each GPU, in whole blocks."""
    load = estimate.load
    block_bytes = _token_bytes(estimate.shape, estimate.kv_heads_per_gpu) * load.block_tokens
    blocks = math.floor(budget_bytes / block_bytes)
    return KvFit(
        budget_bytes=budget_bytes,
        source=source,
        blocks=blocks,
        tokens=blocks * load.block_tokens,
        requests=blocks // estimate.blocks_per_request,
    )


def share_of_heads(kv_heads: int, gpus: int) -> tuple[int, int]:
    """KV heads on each of ``gpus``, and how many of them hold the same head.

    Raises:
        UsageError: neither number divides the other: no engine splits a head.
    """
    if kv_heads % gpus == 0:
        return kv_heads // gpus, 1
    if gpus % kv_heads == 0:
        return 1, gpus // kv_heads
    fitting = [n for n in range(1, 2 * kv_heads + 1) if kv_heads % n == 0 or n % kv_heads == 0]
    raise UsageError(
        f"--tp {gpus}: {kv_heads} KV heads cannot be shared by {gpus} GPUs; it is "
        f"{', '.join(map(str, fitting))} or another multiple of {kv_heads}"
    )


def to_bytes(gib: float) -> int:
    """Whole bytes of so many GiB, by the digits as they were written."""
    return math.floor(Fraction(repr(gib)) * GIB)


def _token_bytes(shape: KvShape, kv_heads: int) -> Fraction:
    """Keys and values of one token in all layers."""
    return 2 * shape.layers * kv_heads * shape.head_dim * Fraction(shape.dtype.bytes)


def gib(size: Fraction | float) -> str:
    """``13.04``, ``1.0``: at four digits, and a whole number shows that it is one."""
    text = number(float(size))
    return text if "." in text or "e" in text else f"{text}.0"
