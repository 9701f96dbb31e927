"""What the machine under test used in one stage: figures of each GPU and tree of processes, and a record's memory.

Units are in the names; ``None`` means not measured, with the reason under ``reasons`` by the figure's name where there is
one to tell. Shares run from 0 to 1.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from llm_locust.records.device_sample import MemoryKind

MemoryScope = Literal["process", "device"]
"""Whose memory: the server's processes' alone, or all that is used on the device."""


class GpuFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU in one stage. The figures are of the window, but for the start-up peaks."""

    source: str
    """Where the samples come from; of several sources for one GPU the best one is taken, they are never added."""
    gpu: int | None
    """Index of the GPU as its driver counts."""
    uuid: str | None = None
    """As its driver names it."""
    name: str | None = None
    """The GPU's model."""
    memory_kind: MemoryKind | None = None
    """Which memory the byte figures are of."""
    samples: int
    """Taken in the window."""
    memory_total_bytes: int | None = None
    """Memory of the GPU."""
    startup_peak_bytes: int | None = None
    """The most that was in use, by everybody, before the first stage of the run began."""
    peak_bytes: int | None = None
    """The most that was in use, by everybody, in the window."""
    process_startup_peak_bytes: int | None = None
    """The most that the server's processes had in use before the first stage of the run began."""
    process_peak_bytes: int | None = None
    """... by the server's processes."""
    utilisation_mean_pct: float | None = None
    """Share of time in which some kernel ran x 100."""
    utilisation_max_pct: float | None = None
    """... of the busiest sample."""
    memory_utilisation_mean_pct: float | None = None
    """Share of time in which GPU memory was read or written x 100."""
    power_mean_w: float | None = None
    """energy_j / length of the window."""
    power_max_w: float | None = None
    """Of the highest sample, in watts."""
    power_limit_w: float | None = None
    """The lowest that was in force."""
    energy_j: float | None = None
    """Of the whole window: power by the trapezoid rule between samples, straight lines cut off at the window's edges."""
    temperature_max_c: float | None = None
    """Of the hottest sample, in degrees Celsius."""
    sm_clock_mean_mhz: float | None = None
    """Clock of the multiprocessors in MHz."""
    sm_clock_min_mhz: float | None = None
    """... of the slowest sample."""
    throttled_share: float | None = None
    """Samples in which power, heat or voltage held the clocks back / samples that tell."""
    throttle_reasons: dict[str, float] = {}
    """The same for each reason."""
    lost_at_ns: int | None = None
    """When the GPU was first seen not to answer in the window."""
    lost_reason: str | None = None
    """What its driver said then; ``None``: it was not lost."""
    reasons: dict[str, str] = {}
    """Why a figure is null, by its name."""


class ProcessFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One tree of processes in one stage. The figures are of the window, but for the start-up peaks."""

    source: str
    """Where the samples come from."""
    pid: int | None
    """The root of the tree; ``None``: not told."""
    name: str | None = None
    """Of the root process."""
    memory_kind: MemoryKind | None = None
    """Which memory the byte figures are of."""
    samples: int
    """Taken in the window."""
    startup_peak_rss_bytes: int | None = None
    """The largest resident memory sampled before the first stage of the run began."""
    startup_peak_kernel_bytes: int | None = None
    """Each process's own peak by then as the kernel kept it, summed: it saw what came before or between the samples. For
    several processes an upper bound."""
    peak_rss_bytes: int | None = None
    """A page that several processes share counts once in each."""
    startup_peak_pss_bytes: int | None = None
    """The largest proportional share sampled before the first stage of the run began."""
    peak_pss_bytes: int | None = None
    """The largest proportional share: each shared page counts once in all."""
    cpu_mean_pct: float | None = None
    """100 is one core."""
    cpu_max_pct: float | None = None
    """... of the busiest sample."""
    processes_max: int | None = None
    """Most processes in the tree."""
    threads_max: int | None = None
    """Most threads of all of them."""
    reasons: dict[str, str] = {}
    """Why a figure is null, by its name."""


class DeviceFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The machine under test in one stage."""

    gpus: list[GpuFigures] = []
    """Each GPU."""
    processes: list[ProcessFigures] = []
    """Each tree of processes."""

    peak_memory_bytes: int | None = None
    """What a record says: all GPUs (or all trees of processes) together, at the instant when that was most."""
    startup_peak_memory_bytes: int | None = None
    """The same before the first stage of the run began."""
    memory_scope: MemoryScope | None = None
    """Whose memory that is."""
    memory_kind: MemoryKind | None = None
    """Which memory that is."""
    memory_tool: str | None = None
    """What measured it."""

    energy_j: float | None = None
    """Of all GPUs; ``None`` when one of them is not known."""
    power_mean_w: float | None = None
    """Of all GPUs in watts; ``None`` when one of them is not known."""
    notes: list[str] = []
    """What is worth knowing, as sentences."""
    reasons: dict[str, str] = {}
    """Why a figure is null, by its name."""
