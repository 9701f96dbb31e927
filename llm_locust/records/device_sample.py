"""Device samples: what the machine under test used and when, as ``devices.csv`` and as the file of ``llm-locust telemetry``.

One sample is one GPU, or one tree of processes, at one instant. Units are in the names; ``None`` (an empty cell in
``devices.csv``, no field at all in the telemetry file) means not measured, 0 only ever a measured 0.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from llm_locust.records.errors import UsageError

MemoryKind = Literal["vram", "unified", "ram"]
"""``vram``: a GPU's own memory; ``unified``: memory that CPU and GPU share; ``ram``: main memory."""

CLOCK_REASONS: dict[int, str] = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}
"""Why clocks are below their maximum, by bit of the mask; NVML and DCGM share it."""

THROTTLING = frozenset(
    {
        "sw_power_cap",
        "hw_slowdown",
        "sw_thermal_slowdown",
        "hw_thermal_slowdown",
        "hw_power_brake_slowdown",
        "board_limit",
        "reliability",
    }
)
"""The reasons by which a busy GPU is held back by power, heat or voltage. The others are idleness or somebody's setting."""

NO_REASON = "none"
"""In place of reasons: they were asked for, and there are none."""


def clock_reasons(mask: int) -> str:
    """The words of a mask, separated by spaces; ``none`` for 0, ``bit_N`` for a bit that has no word yet."""
    bits = [1 << place for place in range(mask.bit_length()) if mask >> place & 1]
    return " ".join(CLOCK_REASONS.get(bit, f"bit_{bit.bit_length() - 1}") for bit in bits) or NO_REASON


class DeviceSample(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One GPU or one tree of processes at one instant. The fields, in order, are the columns of ``devices.csv``."""

    at_ns: int
    """Unix nanoseconds: on the sampler's clock in its own file, on the master's in ``devices.csv``."""
    source: str = "local"
    """``local``, the address of the page it was read from, or the name of the telemetry file."""
    session: str | None = None
    """The sampler that took it. Its file and its page hold the same samples, which are then not counted twice."""
    kind: Literal["gpu", "process"]
    """A GPU, or a tree of processes."""

    gpu: int | None = None
    """Index of the GPU as its driver counts."""
    uuid: str | None = None
    """The GPU's, as its driver names it."""
    name: str | None = None
    """The GPU's model, or the name of the root process."""
    pid: int | None = None
    """The root of the tree of processes."""
    memory_kind: MemoryKind | None = None
    """Which memory the sample's byte figures are of."""

    memory_used_bytes: int | None = None
    """In use on the GPU by everybody, without what the driver reserves: never the server's alone."""
    memory_total_bytes: int | None = None
    """Memory of the GPU."""
    process_memory_bytes: int | None = None
    """In use on the GPU by the tree of processes, as the driver tells it."""
    utilisation_pct: float | None = None
    """Share of the driver's last sample period in which some kernel ran; not how much of the GPU it filled."""
    memory_utilisation_pct: float | None = None
    """Share of that period in which GPU memory was read or written; not how full it is."""
    power_w: float | None = None
    """Power drawn by the GPU in watts."""
    power_limit_w: float | None = None
    """Power limit in force in watts."""
    temperature_c: float | None = None
    """Temperature of the GPU in degrees Celsius."""
    sm_clock_mhz: float | None = None
    """Clock of the multiprocessors in MHz."""
    clock_reasons: str | None = None
    """Words separated by spaces, see ``CLOCK_REASONS``; ``none`` when there is no reason."""

    rss_bytes: int | None = None
    """Resident memory, summed over the tree. A page that several processes share counts once in each: an upper bound."""
    pss_bytes: int | None = None
    """Proportional share, summed: each shared page counts once in all."""
    rss_peak_bytes: int | None = None
    """Each process's highest resident memory since its start as the kernel keeps it (VmHWM), summed. Exact for one process;
    for several an upper bound, since they need not have peaked together."""
    cpu_pct: float | None = None
    """Processor time since the sample before, of living processes and those that ended meanwhile; 100 is one core."""
    processes: int | None = None
    """Processes in the tree."""
    threads: int | None = None
    """Threads of all of them."""

    error: str | None = None
    """Why nothing could be measured."""


DEVICE_COLUMNS: tuple[str, ...] = DeviceSample.__struct_fields__
"""The header of ``devices.csv``, in order."""

DEVICE_STRING_COLUMNS = frozenset(
    {"source", "session", "kind", "uuid", "name", "memory_kind", "clock_reasons", "error"}
)
"""Columns that hold text; every other column holds a number or nothing."""


def encode_device_rows(samples: Iterable[DeviceSample]) -> str:
    """The CSV lines (no header) of the samples, each ended by a newline."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(msgspec.structs.astuple(sample) for sample in samples)
    return text.getvalue()


def device_header_line() -> str:
    """The CSV header line, with its newline."""
    return ",".join(DEVICE_COLUMNS) + "\n"


def read_device_rows(path: Path) -> list[DeviceSample]:
    """The samples of a ``devices.csv``; an unterminated last line (its writer was killed) is left out.

    Raises:
        UsageError: it cannot be read, or a line of it is no sample.
    """
    text = _read(path).decode("utf-8", "replace")
    whole = text[: text.rfind("\n") + 1]
    rows = csv.DictReader(io.StringIO(whole, newline=""))
    try:
        return [
            msgspec.convert({name: cell for name, cell in row.items() if cell != ""}, DeviceSample, strict=False)
            for row in rows
        ]
    except (msgspec.ValidationError, csv.Error) as error:
        raise UsageError(f"{path}, line {rows.line_num}: not a device sample: {error}") from None


TELEMETRY_FORMAT = "llm-locust telemetry"
TELEMETRY_VERSION = 1


class TelemetryClock(msgspec.Struct, frozen=True, kw_only=True):
    """The clock of the samples: a monotonic clock anchored once, so that no step of the wall clock moves them."""

    anchor_ns: int
    """Unix time minus the monotonic clock. On one boot of one machine the difference of two anchors is the exact offset
    between two clocks."""
    boot_id: str | None = None
    """Names the boot of the machine (Linux); equal ids share a monotonic clock."""


class TelemetryMachine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine that was sampled."""

    host: str
    """Name of the machine."""
    system: str
    """Operating system and its version."""
    cpu: str | None = None
    """Model of the processor."""
    cpus: int | None = None
    """Logical processors."""
    ram_bytes: int | None = None
    """Main memory."""


class TelemetryProcess(msgspec.Struct, frozen=True, kw_only=True):
    """The root of the sampled tree. Its command line is left out: it may hold keys."""

    pid: int
    """Its process id."""
    name: str
    """As the system names it."""
    started_ns: int
    """By the wall clock, to about 10 ms."""


class TelemetryGpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU as it was found."""

    gpu: int
    """Index of the GPU as its driver counts."""
    uuid: str | None = None
    """As its driver names it."""
    name: str | None = None
    """The GPU's model."""
    memory_total_bytes: int | None = None
    """Memory of the GPU."""
    power_limit_w: float | None = None
    """Power limit in force in watts."""


class TelemetryHead(msgspec.Struct, kw_only=True):
    """What is known before the first sample."""

    format: str = TELEMETRY_FORMAT
    """What kind of file this is."""
    version: int = TELEMETRY_VERSION
    """Of the format."""
    llm_locust: str
    """The version of this project that wrote it."""
    session: str
    """Unique to this sampler."""
    run_id: str | None
    """The run that it belongs to; ``None``: nobody named one."""
    started_ns: int
    """When sampling began, Unix nanoseconds on the sampler's clock."""
    interval_s: float
    """Seconds between two samples."""
    clock: TelemetryClock
    """What its times are told by."""
    machine: TelemetryMachine
    """Where it was sampled."""
    process: TelemetryProcess | None
    """The root of the sampled tree; ``None``: no processes were sampled."""
    gpu_available: bool
    """Whether there is a GPU that can be sampled."""
    gpu_reason: str | None
    """Why there is none."""
    driver_version: str | None
    """Of the GPU's driver; ``None`` without a GPU."""
    cuda_version: str | None
    """The newest CUDA version that the driver supports."""
    gpus: list[TelemetryGpu]
    """Every GPU that was found."""


class TelemetryNote(msgspec.Struct, frozen=True, kw_only=True):
    """Something worth knowing, and when it was seen."""

    note: str
    """In a sentence."""
    at_ns: int
    """Unix nanoseconds on the sampler's clock."""


Ending = Literal["duration", "process_ended", "signal", "unknown"]
"""``unknown``: the sampler was killed; what it had sampled was kept."""


class TelemetryFile(TelemetryHead, kw_only=True):
    """The file that ``llm-locust telemetry`` writes."""

    ended: Ending = "unknown"
    """Why sampling ended."""
    ended_ns: int | None = None
    """When it ended, Unix nanoseconds on the sampler's clock; ``None``: not known."""
    wall_step_ns: int | None = None
    """How far the wall clock stepped meanwhile; the samples are immune."""
    notes: list[TelemetryNote] = []
    """What was worth knowing meanwhile."""
    samples: list[DeviceSample] = []
    """Every sample, in the order of time."""


class _Kind(msgspec.Struct, kw_only=True):
    format: Any = None
    version: Any = None
    llm_locust: Any = None


class _PartialLine(msgspec.Struct, kw_only=True):
    at_ns: int
    note: Annotated[str, Meta(min_length=1)] | None = None


def partial_path(path: Path) -> Path:
    """Where the samples of a file are kept until it is complete."""
    return path.with_name(path.name + ".partial")


def read_telemetry_file(path: Path) -> TelemetryFile:
    """Read what ``llm-locust telemetry`` wrote: its file, or the ``.partial`` one that a killed sampler left behind.

    The samples are still on the sampler's clock; their ``source`` is the name of the file.

    Raises:
        UsageError: it is not there, not JSON, no telemetry file, or of another version.
    """
    partial = partial_path(path)
    if not path.exists() and partial.exists():
        raise UsageError(
            f"{path} is not there, but {partial.name} is: its sampler is running or was killed. Give that one"
        )
    raw = _read(path)
    lines: bytes | None = None
    kind = _kind(raw)
    if kind is None:
        raw, _, lines = raw.partition(b"\n")
        kind = _kind(raw)
    if kind is None:
        raise UsageError(f"{path}: not JSON, so not the file of llm-locust telemetry")
    if kind.format != TELEMETRY_FORMAT:
        raise UsageError(f"{path}: not a file of llm-locust telemetry (its format is {kind.format!r})")
    if kind.version != TELEMETRY_VERSION:
        raise UsageError(
            f"{path}: version {kind.version!r} of the telemetry file, but this llm-locust reads version "
            f"{TELEMETRY_VERSION}: use the one that wrote it ({kind.llm_locust})"
        )
    try:
        found = msgspec.json.decode(raw, type=TelemetryFile)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: not a file of llm-locust telemetry: {error}") from None
    if lines is not None:
        _add_lines(found, lines, path)
    for sample in found.samples:
        sample.source, sample.session = path.name, found.session
    return found


def _add_lines(found: TelemetryFile, lines: bytes, path: Path) -> None:
    """What was sampled before the sampler was killed; an unterminated last line is left out."""
    sample, kind = msgspec.json.Decoder(DeviceSample), msgspec.json.Decoder(_PartialLine)
    for number, line in enumerate(lines.split(b"\n")[:-1], 2):
        try:
            note = kind.decode(line)
            if note.note is not None:
                found.notes.append(TelemetryNote(at_ns=note.at_ns, note=note.note))
            else:
                found.samples.append(sample.decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise UsageError(f"{path}, line {number}: not a sample: {error}") from None
    found.ended_ns = found.samples[-1].at_ns if found.samples else None


def _kind(raw: bytes) -> _Kind | None:
    """What a JSON text says it is; ``None`` when it is no JSON."""
    try:
        return msgspec.json.decode(raw, type=_Kind)
    except msgspec.ValidationError:
        return _Kind()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
