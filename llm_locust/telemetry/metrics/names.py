"""The names under which figures of every engine stand, and how those of several series or engines are put together."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

Kind = Literal["gauge", "counter", "histogram"]

Join = Literal["sum", "max", "mean", "most"]
"""``sum`` adds everything up. ``max`` and ``mean`` take the largest series of each engine (several API-server processes
export the same gauge, and all but one are stuck at 0), then the largest or the mean of the engines. ``most`` takes the
largest of all."""

NAMES: Mapping[str, tuple[Kind, Join]] = MappingProxyType(
    {
        "running": ("gauge", "sum"),
        "waiting": ("gauge", "sum"),
        "kv_usage": ("gauge", "max"),
        "process_start_s": ("gauge", "most"),
        "preemptions": ("counter", "sum"),
        "evictions": ("counter", "sum"),
        "prefix_cache_queries": ("counter", "sum"),
        "prefix_cache_hits": ("counter", "sum"),
        "prompt_tokens": ("counter", "sum"),
        "generation_tokens": ("counter", "sum"),
        "rejections": ("counter", "sum"),
        "requests": ("counter", "sum"),
        "queue_time": ("histogram", "sum"),
        "ttft": ("histogram", "sum"),
        "tpot": ("histogram", "sum"),
        "itl": ("histogram", "sum"),
        "prefill_time": ("histogram", "sum"),
        "decode_time": ("histogram", "sum"),
        "e2e": ("histogram", "sum"),
    }
)
"""Every name with what it is. Times are in seconds, shares run from 0 to 1, a GB is 10^9 bytes."""
