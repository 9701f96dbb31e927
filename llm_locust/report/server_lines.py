"""What the server and its machine showed, in lines: short ones for a terminal, full ones for the report.

They explain what the client measured and are never added up with it. Text of servers is in them as it came: who prints them
makes it inert.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from llm_locust.analysis.run_telemetry import says_anything
from llm_locust.analysis.server_against_client import latency_line
from llm_locust.analysis.words import NOT_MEASURED, number, percent
from llm_locust.records.device_figures import DeviceFigures, GpuFigures, ProcessFigures
from llm_locust.records.figures import InFlightTrend
from llm_locust.records.server_figures import ServerFigures
from llm_locust.records.summary import RunSummary, StageSummary

SERVER_NOT_READ = "The server's metrics were not read: waiting_trend took no part in the verdict"

UNVERIFIED = "unverified mapping"

MOST_NAMED = 8
"""Figures that are named as missing for one reason."""


def terminal_lines(stage: StageSummary) -> list[str]:
    """Server and machine in three lines, and one for each address that stopped answering; nothing of what was not read."""
    found = []
    if stage.server is not None and says_anything(stage.server):
        mark = _unverified(stage.server)
        found += [f"server: {_load(stage.server)}; {_cache(stage.server)}{f' ({mark})' if mark else ''}"]
        found += [_side_by_side(stage, stage.server)]
    elif stage.server is not None:
        found += [f"server: {_why_nothing(stage.server)}"]
    if stage.server is not None:
        found += [f"server: {said}" for said in stage.server.stopped if f"server: {said}" not in found]
    if stage.device is not None:
        found += [f"machine: {'; '.join(_shortly(stage.device)) or 'no sample in the window'}"]
    return found


def server_lines(stage: StageSummary) -> list[str]:
    """All that the server said over the window of a stage, and why there is no more."""
    server = stage.server
    if server is None:
        return [SERVER_NOT_READ]
    mark = _unverified(server)
    by = f" by the mapping {' and '.join(server.engines)}{f' ({mark})' if mark else ''}" if server.engines else ""
    failed = f"; {server.failed_scrapes} could not be read" if server.failed_scrapes else ""
    found = [f"{server.samples} pages of {', '.join(server.targets) or 'no address'} read in the window{by}{failed}"]
    found += server.stopped
    if says_anything(server):
        found += [_load(server, in_full=True), _cache(server), _side_by_side(stage, server)]
    return [*found, *server.notes, *_why_not(server.reasons)]


def device_lines(device: DeviceFigures) -> list[str]:
    """All that was sampled of the machine under test in a stage, and why there is no more."""
    found = [_memory(device), *map(_gpu, device.gpus), *map(_process, device.processes), *device.notes]
    of_gpus = set() if device.gpus else {"energy_j"}  # without a GPU nobody looks for its energy
    return [*found, *_why_not({name: why for name, why in device.reasons.items() if name not in of_gpus})]


def run_lines(summary: RunSummary) -> list[str]:
    """Whether client and server agree, what Ollama held where, where the samples come from."""
    agreed = [summary.agreement.text] if summary.agreement is not None else []
    return [*agreed, *summary.residency, *summary.telemetry_notes]


def capitalised(sentence: str) -> str:
    """With a capital at its beginning, the rest as it is."""
    return sentence[:1].upper() + sentence[1:]


def _load(server: ServerFigures, *, in_full: bool = False) -> str:
    parts = []
    for name in ("running", "waiting"):
        peak, mean = getattr(server, f"{name}_peak"), getattr(server, f"{name}_mean")
        trend: InFlightTrend | None = getattr(server, f"{name}_trend")
        text = f"{name} peak {NOT_MEASURED if peak is None else peak}"
        text += f", mean {number(mean)}" if in_full else ""
        if trend is not None:
            text += f", {trend.state} ({trend.detail})" if in_full and name == "waiting" else f", {trend.state}"
        parts.append(text)
    return "; ".join(parts)


def _cache(server: ServerFigures) -> str:
    found = [f"KV cache peak {_pct(server.kv_cache_peak_pct)}"]
    counts = ("preemptions", "evictions", "rejections")
    found += [f"{name} {value}" for name in counts if (value := getattr(server, name)) is not None]
    return ", ".join([*found, f"prefix-cache hit rate {percent(server.prefix_cache_hit_rate)}"])


def _side_by_side(stage: StageSummary, server: ServerFigures) -> str:
    found = stage.percentiles.get("ttft_p95_ms")
    if found is None:
        return latency_line(None, server)
    return latency_line(found.value, server, requests=found.n)


def _unverified(server: ServerFigures) -> str:
    return UNVERIFIED if server.engines and not server.verified else ""


def _why_nothing(server: ServerFigures) -> str:
    return server.reasons.get("running") or server.reasons.get("requests") or "nothing was read in the window"


def _why_not(reasons: Mapping[str, str]) -> list[str]:
    """One line a reason, with the figures that are missing for it."""
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        plain = re.sub(r"_(bytes|pct|j|w|c)$", "", name)
        names.setdefault(reason, []).append(plain.replace("_", " "))
    return [f"not measured: {_listed(of)}: {reason}" for reason, of in names.items()]


def _listed(names: list[str]) -> str:
    if len(names) <= MOST_NAMED:
        return ", ".join(names)
    return f"{', '.join(names[: MOST_NAMED - 1])} and {len(names) - MOST_NAMED + 1} more"


_SCOPE = {"process": "of the server's processes", "device": "of the device with all its users"}


def _memory(device: DeviceFigures) -> str:
    """Start-up beside steady: an engine may need more to load than to serve."""
    if device.peak_memory_bytes is None and device.startup_peak_memory_bytes is None:
        return "memory not measured"
    whose = ""
    if device.memory_scope is not None and device.memory_kind is not None:
        kind = {"vram": "GPU memory", "unified": "unified memory", "ram": "main memory"}[device.memory_kind]
        whose = f" ({kind} {_SCOPE[device.memory_scope]}, {device.memory_tool})"
    return (
        f"memory peak {_gb(device.peak_memory_bytes)} in the window, "
        f"{_gb(device.startup_peak_memory_bytes)} before load{whose}"
    )


def _shortly(device: DeviceFigures) -> Iterable[str]:
    if device.peak_memory_bytes is not None:
        yield _memory(device)
    for gpu in device.gpus:
        if gpu.samples:
            yield f"GPU {gpu.gpu} busy {_pct(gpu.utilisation_mean_pct)}, {_watts(gpu)}{_held_back(gpu)}"
    for process in device.processes:
        if process.cpu_mean_pct is not None and not device.gpus:
            yield f"CPU {_pct(process.cpu_mean_pct)} of one core"


def _gpu(gpu: GpuFigures) -> str:
    parts = [f"in use {_gb(gpu.peak_bytes)} of {_gb(gpu.memory_total_bytes)} at most"]
    if gpu.process_peak_bytes is not None:
        parts[0] += f", the server's own {_gb(gpu.process_peak_bytes)}"
    parts.append(f"busy {_pct(gpu.utilisation_mean_pct)} on average, {_pct(gpu.utilisation_max_pct)} at most")
    energy = f", {number(gpu.energy_j)} J" if gpu.energy_j is not None else ""
    parts.append(
        f"{_watts(gpu)} on average, {number(gpu.power_max_w)} W at most of {number(gpu.power_limit_w)} W{energy}"
    )
    if gpu.temperature_max_c is not None:
        parts.append(f"{number(gpu.temperature_max_c)} °C at most")
    if gpu.throttled_share is not None:
        parts.append(_held_back(gpu).removeprefix(", ") or "clocks not held back")
    if gpu.lost_reason is not None:
        parts.append(f"it stopped answering: {gpu.lost_reason}")
    return f"GPU {gpu.gpu}{f' {gpu.name}' if gpu.name else ''}: {'; '.join([*parts, *_why_not(gpu.reasons)])}"


def _process(process: ProcessFigures) -> str:
    kernel = process.startup_peak_kernel_bytes
    own = f" (the kernel's own peak {_gb(kernel)})" if kernel is not None else ""
    parts = [
        f"resident {_gb(process.peak_rss_bytes)} at most in the window, "
        f"{_gb(process.startup_peak_rss_bytes)} before load{own}",
        f"CPU {_pct(process.cpu_mean_pct)} of one core on average, {_pct(process.cpu_max_pct)} at most",
    ]
    if process.processes_max is not None and process.threads_max is not None:
        processes = "process" if process.processes_max == 1 else "processes"
        parts.append(f"{process.processes_max} {processes}, {process.threads_max} threads at most")
    name = f" {process.name}" if process.name else ""
    return f"Process {process.pid}{name}: {'; '.join([*parts, *_why_not(process.reasons)])}"


def _held_back(gpu: GpuFigures) -> str:
    if not gpu.throttled_share:
        return ""
    why = ", ".join(f"{word} {percent(share, up=True)}" for word, share in gpu.throttle_reasons.items())
    return f", clocks held back in {percent(gpu.throttled_share, up=True)} of the samples ({why})"


def _watts(gpu: GpuFigures) -> str:
    return f"{number(gpu.power_mean_w)} W"


def _pct(value: float | None) -> str:
    return NOT_MEASURED if value is None else f"{number(value, 3)} %"


def _gb(size: int | None) -> str:
    return NOT_MEASURED if size is None else f"{number(size / 1e9)} GB"
