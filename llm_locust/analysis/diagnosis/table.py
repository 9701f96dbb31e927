"""The rules by name. A further one is a function in a file of its place, a line here and a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from llm_locust.analysis.diagnosis.cache import kv_cache_full, prefix_cache_without_hits
from llm_locust.analysis.diagnosis.case import STRENGTH, Case
from llm_locust.analysis.diagnosis.client import generator_limited, held_back
from llm_locust.analysis.diagnosis.counting import counts_disagree
from llm_locust.analysis.diagnosis.interference import decode_behind_prefill
from llm_locust.analysis.diagnosis.loading import model_loads, slow_start
from llm_locust.analysis.diagnosis.memory import oom_below_the_limit
from llm_locust.analysis.diagnosis.network import buffered_stream
from llm_locust.analysis.diagnosis.queueing import queueing, rejections
from llm_locust.records.diagnosis import Finding

Rule = Callable[[Case], Iterator[Finding]]

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "generator_limited": generator_limited,
        "held_back": held_back,
        "buffered_stream": buffered_stream,
        "model_loads": model_loads,
        "slow_start": slow_start,
        "oom_below_the_limit": oom_below_the_limit,
        "rejections": rejections,
        "kv_cache_full": kv_cache_full,
        "queueing": queueing,
        "decode_behind_prefill": decode_behind_prefill,
        "prefix_cache_without_hits": prefix_cache_without_hits,
        "counts_disagree": counts_disagree,
    }
)
"""Every rule, what voids a figure before what explains one."""


def diagnose(case: Case) -> list[Finding]:
    """What the run shows, what is counted before what is inferred; empty when no rule found its symptom."""
    seen = [finding for rule in RULES.values() for finding in rule(case)]
    return sorted(seen, key=lambda finding: STRENGTH.index(finding.confidence))
