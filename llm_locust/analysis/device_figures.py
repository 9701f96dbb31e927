"""Figures of the machine under test from its samples: memory peaks, use, power and energy, throttling, stage by stage.

A window is half open, in Unix nanoseconds of the samples' clock. What is measured of a device is never put down to a
process: where the driver does not tell the server's own share of a GPU's memory, the record's memory is that of the device,
and says so.
"""

from __future__ import annotations

import itertools
import statistics
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from llm_locust.records import NS_PER_S
from llm_locust.records.device_figures import DeviceFigures, GpuFigures, MemoryScope, ProcessFigures
from llm_locust.records.device_sample import THROTTLING, DeviceSample, MemoryKind

REACH = 3
"""Sampling intervals over which power is taken to have gone on as it was: a longer gap leaves the energy unknown."""
AROUND = 25
"""Samples before and after the window by which the sampling interval is told."""
STARTED_WITHIN_S = 3.0
"""A sampler that began no later than this after the server saw its start; a process's start is known to about a second."""


_EXPECTED = {
    "peak_bytes": "memory_used_bytes",
    "utilisation_mean_pct": "utilisation_pct",
    "temperature_max_c": "temperature_c",
    "throttled_share": "clock_reasons",
}
"""Figures of a GPU that a reader looks for, and the fields that they come from."""


class _Series(NamedTuple):
    """The samples of one device from one source, in order of time."""

    source: str
    times_ns: list[int]
    samples: list[DeviceSample]

    def between(self, start_ns: int | None, end_ns: int) -> list[DeviceSample]:
        first = 0 if start_ns is None else bisect_left(self.times_ns, start_ns)
        return self.samples[first : bisect_left(self.times_ns, end_ns)]


class DeviceHistory:
    """All samples of a run by device, once for all its stages.

    The same device may be known from several sources (a telemetry file and a page, say): by its uuid, or by the session of
    its sampler.

    Args:
        samples: in any order, on the master's clock.
        server_started_ns: when the root of the server's processes began, on the same clock; ``None`` when not known.
    """

    def __init__(self, samples: Iterable[DeviceSample], server_started_ns: int | None = None) -> None:
        found: dict[tuple[object, ...], dict[str, list[DeviceSample]]] = defaultdict(lambda: defaultdict(list))
        for sample in samples:
            found[_device(sample)][sample.source].append(sample)
        self.devices: list[list[_Series]] = []
        for _, sources in sorted(found.items(), key=lambda item: str(item[0])):
            series = []
            for source, of_source in sources.items():
                of_source.sort(key=lambda sample: sample.at_ns)
                series.append(_Series(source, [sample.at_ns for sample in of_source], of_source))
            self.devices.append(series)
        self.server_started_ns = server_started_ns
        self.first_ns = min((series.times_ns[0] for device in self.devices for series in device), default=None)


def device_figures(history: DeviceHistory, start_ns: int, end_ns: int, load_begins_ns: int) -> DeviceFigures:
    """What was used in the window [start_ns, end_ns), and before load.

    Args:
        history: the samples of the run.
        start_ns: start of the stage's window.
        end_ns: its end.
        load_begins_ns: start of the run's first stage, its warm-up included: what comes before is the server's start-up.
    """
    spans = [_Spans(device, start_ns, end_ns, load_begins_ns) for device in history.devices]
    gpus = [of for of in spans if of.kind == "gpu"]
    processes = [of for of in spans if of.kind == "process"]
    gpu_figures = [_gpu(of, start_ns, end_ns) for of in gpus]
    memory = _memory(gpus, processes)
    reasons = {} if memory.peak is not None else {"peak_memory_bytes": "no memory was sampled in the window"}
    if memory.startup is None:
        reasons["startup_peak_memory_bytes"] = "no such memory was sampled before the first stage began"
    energies = [of.energy_j for of in gpu_figures]
    energy = sum(e for e in energies if e is not None) if energies and None not in energies else None
    if energy is None:
        unknown = [f"GPU {of.gpu}: {of.reasons['energy_j']}" for of in gpu_figures if of.energy_j is None]
        reasons["energy_j"] = "; ".join(unknown) or "no GPU was sampled"
    return DeviceFigures(
        gpus=gpu_figures,
        processes=[_process(of) for of in processes],
        peak_memory_bytes=memory.peak,
        startup_peak_memory_bytes=memory.startup,
        memory_scope=memory.scope,
        memory_kind=None if memory.peak is None else memory.kind,
        memory_tool=memory.tool,
        energy_j=energy,
        power_mean_w=None if energy is None else energy * NS_PER_S / (end_ns - start_ns),
        notes=_notes(history, memory, spans, start_ns, end_ns),
        reasons=reasons,
    )


class _Spans:
    """One device: its samples in the window and before load, each from the source that knows most there."""

    def __init__(self, device: Sequence[_Series], start_ns: int, end_ns: int, load_begins_ns: int) -> None:
        self.series = max(device, key=lambda series: _worth(series.between(start_ns, end_ns)))
        self.window = self.series.between(start_ns, end_ns)
        self.startup = max((series.between(None, load_begins_ns) for series in device), key=_worth)
        self.of = (self.window or self.startup or self.series.samples)[-1]
        self.kind = self.of.kind
        self.first_error = next((sample for sample in self.window if sample.error is not None), None)


def _worth(samples: Sequence[DeviceSample]) -> tuple[bool, int]:
    """The server's own memory is worth more than many samples without it."""
    return any(sample.process_memory_bytes is not None for sample in samples), len(samples)


class _Memory(NamedTuple):
    """What a record says of memory."""

    peak: int | None
    startup: int | None
    scope: MemoryScope | None
    kind: MemoryKind | None
    tool: str | None


def _memory(gpus: Sequence[_Spans], processes: Sequence[_Spans]) -> _Memory:
    """The server's own memory on its GPUs; else what all use of them; else the main memory of its processes."""
    choices: tuple[tuple[Sequence[_Spans], str, MemoryScope], ...] = (
        (gpus, "process_memory_bytes", "process"),
        (gpus, "memory_used_bytes", "device"),
        (processes, "pss_bytes", "process"),
        (processes, "rss_bytes", "process"),
    )
    for devices, field, scope in choices:
        peak = _together([of.window for of in devices], field)
        if peak is not None:
            startup = _together([of.startup for of in devices], field)
            kernel = [of.startup[-1].rss_peak_bytes for of in devices if of.startup and of.startup[-1].processes == 1]
            if field == "rss_bytes" and startup is not None and len(devices) == 1 and kernel and kernel[0] is not None:
                startup = max(startup, kernel[0])  # of a single process the kernel's peak is exact
            told = next(of.of for of in devices if any(getattr(s, field) is not None for s in of.window))
            return _Memory(peak, startup, scope, told.memory_kind, _tool(told, field))
    return _Memory(None, None, None, None, None)


def _tool(sample: DeviceSample, field: str) -> str:
    if sample.kind == "process":
        return "PSS by the kernel" if field == "pss_bytes" else "RSS by the kernel"
    foreign = sample.session is None and sample.source != "local"
    return "DCGM exporter" if foreign else "NVML"


def _together(devices: Iterable[Sequence[DeviceSample]], field: str) -> int | None:
    """The peak of the sum over devices: those of one sampler have their samples at the same instants.

    Between samplers no instant is common; their peaks are added, which is an upper bound.
    """
    sums: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for samples in devices:
        for sample in samples:
            value = getattr(sample, field)
            if value is not None:
                sums[sample.session or sample.source][sample.at_ns] += value
    return sum(max(instants.values()) for instants in sums.values()) if sums else None


def _gpu(of: _Spans, start_ns: int, end_ns: int) -> GpuFigures:
    window = of.window
    why = "the GPU does not tell it" if window else "no sample in the window"
    reasons = {figure: why for figure, field in _EXPECTED.items() if not _values(window, field)}
    energy, unknown = energy_j(of.series.times_ns, [s.power_w for s in of.series.samples], start_ns, end_ns)
    if unknown is not None:
        reasons["energy_j"] = reasons["power_mean_w"] = unknown
    told = [s.clock_reasons.split() for s in window if s.clock_reasons is not None]
    throttled = [THROTTLING.intersection(words) for words in told]
    lost = of.first_error
    return GpuFigures(
        source=of.series.source,
        gpu=of.of.gpu,
        uuid=of.of.uuid,
        name=of.of.name,
        memory_kind=of.of.memory_kind,
        samples=len(window),
        memory_total_bytes=_most(window or of.startup, "memory_total_bytes"),
        startup_peak_bytes=_most(of.startup, "memory_used_bytes"),
        peak_bytes=_most(window, "memory_used_bytes"),
        process_startup_peak_bytes=_most(of.startup, "process_memory_bytes"),
        process_peak_bytes=_most(window, "process_memory_bytes"),
        utilisation_mean_pct=_mean(window, "utilisation_pct"),
        utilisation_max_pct=_most(window, "utilisation_pct"),
        memory_utilisation_mean_pct=_mean(window, "memory_utilisation_pct"),
        power_mean_w=None if energy is None else energy * NS_PER_S / (end_ns - start_ns),
        power_max_w=_most(window, "power_w"),
        power_limit_w=min(_values(window, "power_limit_w"), default=None),
        energy_j=energy,
        temperature_max_c=_most(window, "temperature_c"),
        sm_clock_mean_mhz=_mean(window, "sm_clock_mhz"),
        sm_clock_min_mhz=min(_values(window, "sm_clock_mhz"), default=None),
        throttled_share=sum(map(bool, throttled)) / len(told) if told else None,
        throttle_reasons={
            word: sum(word in words for words in throttled) / len(told) for word in sorted(set().union(*throttled))
        },
        lost_at_ns=None if lost is None else lost.at_ns,
        lost_reason=None if lost is None else lost.error,
        reasons=reasons,
    )


def _process(of: _Spans) -> ProcessFigures:
    window, startup = of.window, of.startup
    reasons = {} if window else {"peak_rss_bytes": "no sample in the window"}
    if not startup:
        reasons["startup_peak_rss_bytes"] = "sampling began after the first stage did"
    return ProcessFigures(
        source=of.series.source,
        pid=of.of.pid,
        name=of.of.name,
        memory_kind=of.of.memory_kind,
        samples=len(window),
        startup_peak_rss_bytes=_most(startup, "rss_bytes"),
        startup_peak_kernel_bytes=_most(startup, "rss_peak_bytes"),
        peak_rss_bytes=_most(window, "rss_bytes"),
        startup_peak_pss_bytes=_most(startup, "pss_bytes"),
        peak_pss_bytes=_most(window, "pss_bytes"),
        cpu_mean_pct=_mean(window, "cpu_pct"),
        cpu_max_pct=_most(window, "cpu_pct"),
        processes_max=_most(window, "processes"),
        threads_max=_most(window, "threads"),
        reasons=reasons,
    )


def energy_j(
    times_ns: Sequence[int], power_w: Sequence[float | None], start_ns: int, end_ns: int
) -> tuple[float | None, str | None]:
    """Energy of the window in joules by the trapezoid rule, and, when it is not known, why.

    Power runs in straight lines from sample to sample; the lines are cut off at the window's edges. Before the first and
    after the last sample it is taken to stay as it was, for no more than ``REACH`` sampling intervals; over a longer gap
    between two samples nothing is taken for granted. Some sample must lie inside the window.

    Args:
        times_ns: when power was sampled, rising.
        power_w: what it was; ``None`` where it was not measured.
        start_ns: start of the window.
        end_ns: its end.
    """
    begin = max(bisect_left(times_ns, start_ns) - AROUND, 0)
    around = slice(begin, bisect_left(times_ns, end_ns) + AROUND)
    known = [(at, w) for at, w in zip(times_ns[around], power_w[around], strict=True) if w is not None]
    first, behind = bisect_left(known, (start_ns,)), bisect_left(known, (end_ns,))
    if first == behind or len(known) < 2:
        return None, "power was not sampled in the window"
    near = known[max(first - 1, 0) : behind + 1]
    reach = REACH * statistics.median(after[0] - before[0] for before, after in itertools.pairwise(known))
    if near[0][0] - start_ns > reach:
        return None, f"power was not sampled in the first {(near[0][0] - start_ns) / NS_PER_S:.1f} s of the window"
    if end_ns - near[-1][0] > reach:
        return None, f"power was not sampled in the last {(end_ns - near[-1][0]) / NS_PER_S:.1f} s of the window"
    points = [(min(start_ns, near[0][0]), near[0][1]), *near, (max(end_ns, near[-1][0]), near[-1][1])]
    total = 0.0
    for (t0, w0), (t1, w1) in itertools.pairwise(points):
        a, b = max(t0, start_ns), min(t1, end_ns)
        if a >= b:
            continue
        if b - a > reach and t1 - t0 > reach:
            return None, f"power was not sampled for {(t1 - t0) / NS_PER_S:.1f} s in the window"
        at_a, at_b = (w0 + (w1 - w0) * (t - t0) / (t1 - t0) for t in (a, b))
        total += (at_a + at_b) / 2 * (b - a) / NS_PER_S
    return total, None


def _notes(history: DeviceHistory, memory: _Memory, spans: Sequence[_Spans], start_ns: int, end_ns: int) -> list[str]:
    notes = []
    for of in spans:
        device = f"GPU {of.of.gpu}" if of.kind == "gpu" else f"process {of.of.pid}"
        if (lost := of.first_error) is not None:
            at = (lost.at_ns - start_ns) / NS_PER_S
            notes.append(f"{device} did not answer at {at:.1f} s of the window: {lost.error}")
        if len(of.window) > 1:
            times = [sample.at_ns for sample in of.window]
            reach = REACH * statistics.median(after - before for before, after in itertools.pairwise(times))
            if times[0] - start_ns > reach or end_ns - times[-1] > reach:
                begin, end = ((at - start_ns) / NS_PER_S for at in (times[0], times[-1]))
                notes.append(
                    f"{device} was sampled from {begin:.1f} to {end:.1f} s of the window only: its peaks are of that"
                )
    if memory.scope == "device":
        notes.append("memory is that of the GPUs with all their users: the server's own share was not told")
    began, started = history.first_ns, history.server_started_ns
    if began is not None and started is not None and (began - started) / NS_PER_S > STARTED_WITHIN_S:
        late = (began - started) / NS_PER_S
        notes.append(
            f"sampling began {late:.0f} s after the server had started: its start-up peak may have been higher"
        )
    return notes


def _values(samples: Iterable[DeviceSample], field: str) -> list[Any]:
    return [value for sample in samples if (value := getattr(sample, field)) is not None]


def _most(samples: Iterable[DeviceSample], field: str) -> Any:
    return max(_values(samples, field), default=None)


def _mean(samples: Iterable[DeviceSample], field: str) -> float | None:
    values = _values(samples, field)
    return statistics.fmean(values) if values else None


def _device(sample: DeviceSample) -> tuple[object, ...]:
    """What tells one device from another."""
    if sample.uuid is not None:
        return ("gpu", sample.uuid)
    return (sample.kind, sample.session or sample.source, sample.gpu, sample.pid)
