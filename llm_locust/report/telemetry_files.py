"""The files of samples of a run: ``server.csv``, ``devices.csv`` and what ``llm-locust telemetry`` wrote elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from llm_locust.analysis.device_figures import DeviceHistory
from llm_locust.analysis.words import number
from llm_locust.records import NS_PER_S, Manifest, RunFolder, UsageError
from llm_locust.records.device_sample import DeviceSample, TelemetryFile, read_device_rows, read_telemetry_file
from llm_locust.records.server_sample import ServerSample, decode_server_rows
from llm_locust.report.pages_read_anew import read_anew
from llm_locust.telemetry.devices.clock_offset import ClockOffset, clock_offset, on_master_clock

SHOWN_NOTES = 5
"""Notes of one telemetry file that are passed on."""


class RunSamples(NamedTuple):
    """All samples of a run, on the master's clock."""

    server: list[ServerSample]
    devices: DeviceHistory | None
    """``None`` when there is no such sample."""
    notes: list[str]
    """Where times come from, what was cut off, as sentences."""
    files: list[Path]
    torn: list[Path]
    """Files whose unterminated last line was dropped."""


def read_samples(folder: RunFolder, manifest: Manifest, telemetry: Iterable[Path] = ()) -> RunSamples:
    """Read what there is, also of a run that died.

    Args:
        folder: The run folder.
        manifest: Its manifest.
        telemetry: Files of ``llm-locust telemetry``.

    Raises:
        UsageError: a file cannot be read, is none of its kind, or was taken for another run.
    """
    server: list[ServerSample] = []
    devices: list[DeviceSample] = []
    files = [path for path in (folder.server_csv, folder.devices_csv) if path.exists()]
    torn = [path for path in files if not _ends_with_newline(path)]
    if folder.server_csv in files:
        text = folder.server_csv.read_text(encoding="utf-8", errors="replace")
        server = decode_server_rows(text, str(folder.server_csv))
    if folder.devices_csv in files:
        devices = read_device_rows(folder.devices_csv)
    notes: list[str] = []
    if folder.metrics_map.exists():
        server, pages, title = read_anew(folder, server, folder.metrics_map)
        files.append(folder.metrics_map)
        notes.append(f"{pages} metrics pages were read anew after the run, by {folder.metrics_map.name} ({title})")
    started: list[int] = []
    for path in telemetry:
        found = read_telemetry_file(path)
        if found.run_id is not None and found.run_id != manifest.run_id:
            raise UsageError(
                f"{path}: it was taken for the run {found.run_id}, but this one is {manifest.run_id}: "
                "give the file of this run"
            )
        offset = _offset(found, manifest)
        samples = on_master_clock(found.samples, offset.offset_ns)
        if found.process is not None:
            started.append(found.process.started_ns - offset.offset_ns)
        devices += samples
        files.append(path)
        notes += _notes(f"telemetry {path.name}", found, offset, samples, manifest)
    history = DeviceHistory(devices, min(started, default=None)) if devices else None
    return RunSamples(server, history, notes, files, torn)


def _offset(found: TelemetryFile, manifest: Manifest) -> ClockOffset:
    anchor, boot = manifest.machine.get("clock_anchor_ns"), manifest.machine.get("boot_id")
    return clock_offset(
        found.clock,
        master_anchor_ns=anchor if isinstance(anchor, int) else None,
        master_boot_id=boot if isinstance(boot, str) else None,
        scraped=manifest.telemetry_clocks.get(found.session),
    )


def _notes(
    name: str, found: TelemetryFile, offset: ClockOffset, samples: list[DeviceSample], manifest: Manifest
) -> list[str]:
    notes = [f"{name}: {len(samples)} samples of {found.machine.host}; {_clock(offset)}"]
    if found.ended == "unknown":
        notes.append(f"{name}: its sampler was killed or is still running; what it had sampled is used")
    ends = [stage.end_ns or stage.window_end_ns for stage in manifest.stages]
    if samples and manifest.stages and None not in ends:
        begin, end = min(stage.start_ns for stage in manifest.stages), max(at for at in ends if at is not None)
        if not any(begin <= sample.at_ns < end for sample in samples):
            notes.append(
                f"{name}: none of its samples lies between the start of the first stage and the end of the last: is it of "
                "another run, or are the two clocks apart?"
            )
    if found.gpu_reason is not None and not found.gpu_available:
        notes.append(f"{name}: no GPU was sampled: {found.gpu_reason}")
    notes += [f"{name}: {note.note}" for note in found.notes[:SHOWN_NOTES]]
    if len(found.notes) > SHOWN_NOTES:
        notes.append(f"{name}: {len(found.notes) - SHOWN_NOTES} more notes are in the file")
    return notes


def _clock(offset: ClockOffset) -> str:
    if offset.offset_ns == 0 and offset.uncertainty_ns is None:
        return f"its clock against the master's is {offset.how}"
    way = "behind" if offset.offset_ns < 0 else "ahead of"
    ahead = "" if offset.offset_ns == 0 else f"{_time(abs(offset.offset_ns))} {way} "
    within = f", give or take {_time(offset.uncertainty_ns)}" if offset.uncertainty_ns else ""
    return f"its clock is {ahead}the master's{within} ({offset.how})"


def _time(ns: int) -> str:
    return f"{number(ns / 1e6)} ms" if ns < NS_PER_S else f"{number(ns / NS_PER_S)} s"


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size == 0:
            return True
        file.seek(size - 1)
        return file.read(1) == b"\n"
