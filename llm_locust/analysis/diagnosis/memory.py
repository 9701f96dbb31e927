"""Memory ran out although what was sampled looked enough."""

from __future__ import annotations

from collections.abc import Iterator

from llm_locust.analysis.derived import mask
from llm_locust.analysis.diagnosis.case import Case, StageCase, Symptom, found, named
from llm_locust.analysis.words import number
from llm_locust.records import Outcome
from llm_locust.records.diagnosis import Finding

LOOKED_ENOUGH_PCT = 95.0
"""Of the device's memory, or of the KV cache: a peak below this looked enough."""


def oom_below_the_limit(case: Case) -> Iterator[Finding]:
    """Requests found the server out of memory, yet no sample came near the limit."""
    yield from found(
        "oom_below_the_limit",
        "Memory ran out though its sampled peak looked enough",
        "memory",
        (
            "Leave out the longest prompts alone: what a prefill needs at once is too short-lived to be sampled",
            "Then lower the tokens of one batch alone (max_num_batched_tokens, --ubatch-size)",
            "Then sample more often (llm-locust telemetry --interval), everything else as it was",
        ),
        (symptom for stage in case.stages if (symptom := _below(stage)) is not None),
    )


def _below(stage: StageCase) -> Symptom | None:
    if not stage.summary.oom:
        return None
    enough: list[str] = []
    device, server = stage.summary.device, stage.summary.server
    for gpu in device.gpus if device is not None else ():
        if gpu.peak_bytes is None or not gpu.memory_total_bytes:
            continue
        share = 100 * gpu.peak_bytes / gpu.memory_total_bytes
        if share >= LOOKED_ENOUGH_PCT:
            return None
        enough.append(
            f"GPU {gpu.gpu} had at most {number(gpu.peak_bytes / 1e9)} of {number(gpu.memory_total_bytes / 1e9)} GB in use "
            f"({gpu.samples} samples)"
        )
    if server is not None and server.kv_cache_peak_pct is not None and server.kv_cache_peak_pct < LOOKED_ENOUGH_PCT:
        enough.append(f"the KV cache was at most {number(server.kv_cache_peak_pct, 3)} % full")
    if not enough:
        return None
    met = named(stage.rows, mask(stage.rows["outcome"] == Outcome.OOM))
    said = f"{stage.summary.oom} requests found the server out of memory, while {' and '.join(enough)}"
    return Symptom(stage, said, "likely", met)
