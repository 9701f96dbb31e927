"""The grade of an evidence record: how far its figures can be trusted as performance, by what the record itself holds.

It is read from the fields of the record alone, so that whoever has only the record can check its grade.
"""

from __future__ import annotations

import re

from llm_locust.records.evidence import SUCCESS_THRESHOLD, EvidenceRecord, Grade

MIN_ROUNDS = 3

_MOVING = re.compile(r"(?i)\b(latest|main|master|nightly|dev|stable|edge)$|(^|\.)[x*]$|[<>~^=]")
"""Endings and signs of versions that name whatever there is at the time."""


def grade(record: EvidenceRecord) -> tuple[Grade, list[str]]:
    """The grade that a measured record earns, and what it lacks for ``performance``; its own grade fields are not read.

    ``transcribed`` is never earned: whoever types figures in, or imports them, says so.
    """
    if record.synthetic_engine:
        return "protocol-only", ["the engine is synthetic"]
    lacks = lacking(record)
    return ("partial" if lacks else "performance"), lacks


def lacking(record: EvidenceRecord) -> list[str]:
    """What keeps a record of a real engine from being performance, as sentences; empty when nothing does."""
    reasons = []
    if record.generator is None or not record.generator.valid:
        reasons.append("the load generator was not shown to be valid")
    if record.server_changes:
        reasons.append(f"the server changed during the run: {'; '.join(record.server_changes)}")
    if missing := _missing(record, *_inventory(record)):
        reasons.append(f"the device was not inventoried: {missing} not known")
    if missing := _missing(record, "peak_memory_gb", "memory_tool", "memory_scope", "memory_kind"):
        reasons.append(f"the device was not sampled: {missing} not measured")
    if missing := _missing(record, "running_peak", "waiting_peak", "kv_cache_peak_pct"):
        reasons.append(f"the engine's metrics were not read: {missing} not measured")
    if record.engine is None or record.engine_version is None:
        reasons.append(f"{_missing(record, 'engine', 'engine_version')} not known")
    elif not is_exact(record.engine_version):
        reasons.append(f"the engine's version {record.engine_version!r} is not exact")
    rounds = record.rounds or 0
    if rounds < MIN_ROUNDS:
        reasons.append(f"{rounds} valid round{'' if rounds == 1 else 's'} of this test point, not {MIN_ROUNDS}")
    reasons += _success(record)
    if set(record.output_tokens_sources or {}) != {"usage"}:
        reasons.append("output tokens were not all counted by the server's usage report")
    return reasons


def is_exact(version: str) -> bool:
    """Whether a version names one build: ``0.11.0`` and ``b6789-1a2b3c4`` do, ``latest`` and ``0.11.x`` do not."""
    return any(character.isdigit() for character in version) and _MOVING.search(version) is None


def _inventory(record: EvidenceRecord) -> tuple[str, ...]:
    """The fields by which the device is known; a server without accelerators is its CPU and main memory."""
    if record.accelerator_count == 0:
        return ("cpu", "ram_gb", "driver_runtime_host")
    return ("accelerator", "accelerator_count", "available_memory_gb", "driver_runtime_host")


def _success(record: EvidenceRecord) -> list[str]:
    if record.success_threshold < SUCCESS_THRESHOLD:
        return [f"its success threshold is {record.success_threshold:g}, not {SUCCESS_THRESHOLD:g}"]
    if not record.measured_requests or record.successful_requests is None:
        return ["no request was measured"]
    if record.successful_requests < record.success_threshold * record.measured_requests:
        of = f"{record.successful_requests} of {record.measured_requests}"
        return [f"{of} requests succeeded, fewer than {record.success_threshold * 100:g} %"]
    return []


def _missing(record: EvidenceRecord, *names: str) -> str:
    return ", ".join(name for name in names if getattr(record, name) is None)
