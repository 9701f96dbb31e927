"""Pages of device metrics read back into samples: our own (``llm-locust telemetry --port``) and NVIDIA's DCGM exporter's.

DCGM's metrics are its field names (``DCGM_FI_DEV_*``) in its field units: memory in MiB, power in W, clocks in MHz. In
Kubernetes it repeats a GPU for every pod that shares it; the first one stands for all. An instance of a partitioned GPU
(MIG) is a device of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from llm_locust.records import NS_PER_S
from llm_locust.records.device_sample import DeviceSample, MemoryKind, clock_reasons
from llm_locust.telemetry.devices import page as ours

_MIB = 1024 * 1024

_DCGM_BLANK = 2.0**47
"""DCGM writes values from here on for what it could not read (blank, not found, not supported, not permitted)."""

_DCGM: dict[str, tuple[str, float]] = {
    "DCGM_FI_DEV_FB_USED": ("memory_used_bytes", _MIB),
    "DCGM_FI_DEV_FB_TOTAL": ("memory_total_bytes", _MIB),
    "DCGM_FI_DEV_GPU_UTIL": ("utilisation_pct", 1),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("memory_utilisation_pct", 1),
    "DCGM_FI_DEV_POWER_USAGE": ("power_w", 1),
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": ("power_limit_w", 1),
    "DCGM_FI_DEV_POWER_MGMT_LIMIT": ("power_limit_w", 1),
    "DCGM_FI_DEV_GPU_TEMP": ("temperature_c", 1),
    "DCGM_FI_DEV_SM_CLOCK": ("sm_clock_mhz", 1),
}
_DCGM_PARTS_OF_TOTAL = ("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_RESERVED")
_DCGM_CLOCK_REASONS = ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS")

_DCGM_READ = frozenset({*_DCGM, *_DCGM_PARTS_OF_TOTAL, *_DCGM_CLOCK_REASONS})

_OWN = {metric: (field, factor) for field, (metric, factor, _) in (ours.DEVICE_GAUGES | ours.PROCESS_GAUGES).items()}
_MEMORY_KINDS: dict[str, MemoryKind] = {"vram": "vram", "unified": "unified", "ram": "ram"}
_WHOLE = frozenset(name for name in DeviceSample.__struct_fields__ if name.endswith("_bytes")) | {
    "processes",
    "threads",
}


class _Value(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


class TelemetryPage(NamedTuple):
    """What our own page says of its sampler."""

    session: str
    run_id: str | None
    clock_ns: int
    """The sampler's clock when it wrote the page, to about half a microsecond: pages hold floating point numbers."""


def telemetry_page(text: str) -> TelemetryPage | None:
    """The sampler behind a page of ours; ``None`` for any other page."""
    session = run_id = clock_ns = None
    for name, labels, value in _values(text):
        if name == ours.TELEMETRY_INFO:
            session, run_id = labels.get("session"), labels.get("run_id") or None
        elif name == ours.CLOCK_SECONDS:
            clock_ns = round(value * NS_PER_S)
    return None if session is None or clock_ns is None else TelemetryPage(session, run_id, clock_ns)


def device_samples_from_page(text: str, at_ns: int, target: str) -> list[DeviceSample]:
    """The device samples on a page of Prometheus text; none when it holds none, or is no such page.

    Args:
        text: the page.
        at_ns: when its first byte came, on the master's clock. Samples on a page of ours are as much older as it says.
        target: where it came from, the samples' ``source``.
    """
    values = list(_values(text))
    return [*_own(values, at_ns, target), *_dcgm(values, at_ns, target)]


def _values(text: str) -> Iterator[_Value]:
    found = []
    try:
        for family in text_string_to_metric_families(text):
            found += [_Value(s.name, s.labels, float(s.value)) for s in family.samples]
    except (ValueError, KeyError, IndexError):  # the parser's ways to say that a line is none
        return
    yield from (value for value in found if math.isfinite(value.value))


def _own(values: list[_Value], at_ns: int, target: str) -> list[DeviceSample]:
    session = next((v.labels.get("session") for v in values if v.name == ours.TELEMETRY_INFO), None)
    age_ns = next((round(v.value * NS_PER_S) for v in values if v.name == ours.SAMPLE_AGE), 0)
    found: dict[tuple[str, ...], DeviceSample] = {}
    for name, labels, value in values:
        if not name.startswith(("llm_locust_device_", "llm_locust_process_")):
            continue
        kind: Literal["gpu", "process"] = "gpu" if "gpu" in labels else "process"
        key = (kind, labels.get("gpu", ""), labels.get("uuid", ""), labels.get("pid", ""))
        sample = found.setdefault(
            key,
            DeviceSample(
                at_ns=at_ns - age_ns,
                source=target,
                session=session,
                kind=kind,
                gpu=_index(labels.get("gpu")),
                uuid=labels.get("uuid") or None,
                pid=_index(labels.get("pid")),
            ),
        )
        if name in (ours.DEVICE_INFO, ours.PROCESS_INFO):
            sample.name = labels.get("name") or None
            sample.memory_kind = _MEMORY_KINDS.get(labels.get("memory_kind", ""))
        elif name == ours.DEVICE_UP:
            sample.error = None if value else "the GPU does not answer"
        elif name == ours.CLOCK_REASON:
            sample.clock_reasons = " ".join(filter(None, (sample.clock_reasons, labels.get("reason"))))
        elif name in _OWN:
            field, factor = _OWN[name]
            _set(sample, field, value / factor)
    return list(found.values())


def _dcgm(values: list[_Value], at_ns: int, target: str) -> list[DeviceSample]:
    devices: dict[tuple[str, ...], tuple[dict[str, str], dict[str, float]]] = {}
    for name, labels, value in values:
        if not name.startswith("DCGM_FI_DEV_") or value >= _DCGM_BLANK:
            continue
        uuid = labels.get("UUID") or labels.get("uuid") or ""
        host = labels.get("Hostname") or labels.get("hostname") or ""
        key = (host, labels.get("gpu", ""), uuid, labels.get("GPU_I_ID", ""))
        devices.setdefault(key, (labels, {}))[1].setdefault(name, value)
    samples = []
    for (_, gpu, uuid, instance), (labels, told) in devices.items():
        part = f"/{instance}" if instance else ""
        sample = DeviceSample(
            at_ns=at_ns,
            source=target,
            kind="gpu",
            gpu=_index(gpu),
            uuid=uuid + part if uuid else None,
            name=" ".join(filter(None, (labels.get("modelName"), labels.get("GPU_I_PROFILE")))) or None,
            memory_kind="vram",
        )
        for metric, (field, factor) in _DCGM.items():
            if metric in told and getattr(sample, field) is None:
                _set(sample, field, told[metric] * factor)
        if sample.memory_total_bytes is None and all(metric in told for metric in _DCGM_PARTS_OF_TOTAL):
            sample.memory_total_bytes = round(sum(told[metric] for metric in _DCGM_PARTS_OF_TOTAL) * _MIB)
        mask = next((told[metric] for metric in _DCGM_CLOCK_REASONS if metric in told), None)
        sample.clock_reasons = None if mask is None else clock_reasons(int(mask))
        if told.keys() & _DCGM_READ:
            samples.append(sample)
    return samples


def _set(sample: DeviceSample, field: str, value: float) -> None:
    setattr(sample, field, round(value) if field in _WHOLE else value)


def _index(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
