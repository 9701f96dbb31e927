"""The values of gates about the server: its queue, how full it is, what it put aside, the memory of its GPUs.

A peak is one of the moments that were sampled, so that a pass by it is never signed: between two samples there may have been
more. A fail is, for what was seen was there.
"""

from __future__ import annotations

from llm_locust.analysis.measured import Measured
from llm_locust.analysis.quantiles import nearest_rank
from llm_locust.analysis.server_against_client import between
from llm_locust.analysis.words import number
from llm_locust.arrivals import is_steady
from llm_locust.records.device_figures import DeviceFigures
from llm_locust.records.gates import GateSpec
from llm_locust.records.server_figures import BucketPercentile, ServerFigures
from llm_locust.records.stage_summary import Gate, StageSummary

QUEUE_NOT_READ = "the server's queue was not read"

COUNTERS = frozenset({"preemptions", "evictions"})


def measure_server(spec: GateSpec, stage: StageSummary) -> Measured:
    """The value of a gate about the server as a whole."""
    if spec.name == "waiting_trend":
        return _waiting_trend(stage)
    if spec.name == "gpu_memory_peak_pct":
        return _gpu_memory(stage.device)
    server, percent = stage.server, _queue_percent(spec.name)
    if server is None:
        return Measured(None, reason=QUEUE_NOT_READ if percent is not None else "the server's metrics were not read")
    if percent is not None:
        return _queue(server, percent)
    value = getattr(server, spec.name)
    if value is None:
        return Measured(None, reason=server.reasons.get(spec.name) or server.reasons.get(_gauge(spec.name)))
    if spec.name in COUNTERS:
        return Measured(float(value), exact=True, reason=_started_over(server))
    return Measured(float(value), low=float(value), reason=_not_seen(server))


def value_text(gate: Gate, stage: StageSummary) -> str:
    """The value of a gate for the eye; of a percentile out of a histogram as much as is known: ``100 to 250 ms``."""
    bucket = queue_percentile(gate.name, stage)
    return number(gate.value) if bucket is None else between(bucket)


def queue_percentile(gate: str, stage: StageSummary) -> BucketPercentile | None:
    """What is known of the percentile that a gate on the server's queue is about; ``None`` for other gates too."""
    percent = _queue_percent(gate)
    if percent is None or stage.server is None:
        return None
    return stage.server.percentiles.get(f"queue_time_p{percent}_ms")


def _queue_percent(gate: str) -> int | None:
    figure, _, percent = gate.rpartition("_p")
    return int(percent) if figure == "queue" and percent.isdigit() else None


def _gauge(name: str) -> str:
    """Under which name the reason stands why a peak is not known."""
    return name.removesuffix("_peak")


def _waiting_trend(stage: StageSummary) -> Measured:
    if stage.mode == "closed" or not is_steady(stage.arrivals or ""):
        return Measured(None, applicable=False)
    found, server = stage.waiting_trend, stage.server
    if found is None:
        told = server and (server.reasons.get("waiting_trend") or server.reasons.get("waiting"))
        return Measured(None, reason=told or QUEUE_NOT_READ)
    return Measured(found.state, reason=None if found.state in ("flat", "rising") else f"{found.state}: {found.detail}")


def _queue(server: ServerFigures, percent: int) -> Measured:
    bucket = server.percentiles.get(f"queue_time_p{percent}_ms")
    if bucket is None:
        return Measured(None, reason=server.reasons.get("queue_time"))
    reason = _started_over(server)
    if reason is None and nearest_rank(percent, bucket.n) == bucket.n:
        reason = f"P{percent} of {bucket.n} is their maximum: too few to tell"
    # Of the last bucket only the lower bound is known, and that is for text: a value says on which side it lies.
    return Measured("inf" if bucket.value_ms is None else bucket.value_ms, bucket=bucket, reason=reason)


def _started_over(server: ServerFigures) -> str | None:
    if not server.resets:
        return None
    return "the server started over in between, and what it had counted just before is not known"


def _not_seen(server: ServerFigures) -> str | None:
    """Why a peak may have been higher than any that was sampled."""
    hole = next((server.reasons[f"{g}_mean"] for g in ("waiting", "running") if f"{g}_mean" in server.reasons), None)
    return None if hole is None else f"{hole}, when it may have been higher"


def _gpu_memory(device: DeviceFigures | None) -> Measured:
    if device is None or not device.gpus:
        return Measured(None, reason="no GPU was sampled")
    shares = []
    lost = None
    for gpu in device.gpus:
        if gpu.peak_bytes is None or not gpu.memory_total_bytes:
            why = gpu.reasons.get("peak_bytes", "the size of its memory was not told")
            return Measured(None, reason=f"GPU {gpu.gpu}: {why}")
        shares.append(gpu.peak_bytes / gpu.memory_total_bytes * 100)
        if gpu.lost_reason is not None:
            lost = f"GPU {gpu.gpu} did not answer all the time: {gpu.lost_reason}"
    return Measured(max(shares), low=max(shares), reason=lost)
