"""Everything that can be set about the synthetic engine, with the ranges in which it makes sense."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from llm_locust.records import UsageError
from llm_locust.simulator.engine import EngineConfig
from llm_locust.simulator.faults import FaultMix, parse_fault_mix
from llm_locust.simulator.kv_cache import blocks_for

READY_PREFIX = "listening on "
"""How the one line on standard output begins; the base URL follows."""

_RANGES: dict[str, tuple[float, float]] = {
    "port": (0, 65_535),
    "slots": (1, 100_000),
    "prefill_tps": (1e-3, 1e12),
    "decode_ms": (0, 3_600_000),
    "batch_slowdown": (0, 1_000),
    "queue_limit": (0, 10_000_000),
    "max_model_len": (2, 10_000_000),
    "output_tokens": (1, 10_000_000),
    "kv_blocks": (1, 1_000_000_000),
    "block_size": (1, 65_536),
    "load_seconds": (0, 86_400),
    "model_gb": (0, 1_000_000),
    "vram_share": (0, 1),
    "loading_seconds": (0, 86_400),
    "latency_ms": (0, 3_600_000),
    "bandwidth_kbps": (0.001, 1e9),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """The settings of one synthetic server. Fields carry the names of the command's options.

    Raises:
        UsageError: a value out of range, a KV cache too small for one request of full length, an unknown fault.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    """0 takes a free one."""
    model: str = "synthetic"
    api_key_env: str | None = None
    """The environment variable that holds the key that clients must send."""
    log: Path | None = None
    seed: int = 0
    slots: int = 8
    prefill_tps: float = 8000.0
    decode_ms: float = 10.0
    batch_slowdown: float = 0.02
    queue_limit: int | None = None
    max_model_len: int = 8192
    output_tokens: int = 128
    kv_blocks: int | None = None
    """``None``: as many as let every slot hold a request of full length."""
    block_size: int = 16
    prefix_caching: bool = False
    load_seconds: float = 0.0
    model_gb: float = 1.0
    vram_share: float = 1.0
    loading_seconds: float = 0.0
    fault: tuple[str, ...] = ()
    latency_ms: float = 0.0
    bandwidth_kbps: float | None = None

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and low <= value <= high):
                raise UsageError(
                    f"--{name.replace('_', '-')} {value:g} is out of range: it goes from {low:g} to {high:g}"
                )
        needed = blocks_for(self.max_model_len, self.block_size)
        if self.kv_blocks is not None and self.kv_blocks < needed:
            raise UsageError(
                f"--kv-blocks {self.kv_blocks} of {self.block_size} tokens cannot hold one request of --max-model-len "
                f"{self.max_model_len}: give at least {needed} blocks, or a shorter context"
            )
        if not self.model:
            raise UsageError("--model is empty: give the name under which the model is served")
        self.fault_mix()
        self.api_key()

    def engine_config(self) -> EngineConfig:
        """The engine's part."""
        return EngineConfig(
            slots=self.slots,
            prefill_tps=self.prefill_tps,
            decode_ms=self.decode_ms,
            batch_slowdown=self.batch_slowdown,
            queue_limit=self.queue_limit,
            kv_blocks=self.kv_blocks or self.slots * blocks_for(self.max_model_len, self.block_size),
            block_size=self.block_size,
            prefix_caching=self.prefix_caching,
            load_ns=round(self.load_seconds * 1e9),
        )

    def fault_mix(self) -> FaultMix:
        """The faults and their shares."""
        return parse_fault_mix(self.fault, self.seed)

    def api_key(self) -> str | None:
        """The key that clients must send; ``None`` when anybody may ask."""
        if self.api_key_env is None:
            return None
        key = os.environ.get(self.api_key_env)
        if not key:
            raise UsageError(
                f"--api-key-env {self.api_key_env}: that environment variable is not set, or empty: "
                "set it, or leave the option out"
            )
        return key
