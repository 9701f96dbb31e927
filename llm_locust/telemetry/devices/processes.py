"""A tree of processes: its memory, processor time, processes and threads.

Processes come and go while they are read: one that is gone is left out. One that was once seen in the tree stays in it for
as long as it lives, also when its parent ends and another process adopts it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

import psutil

from llm_locust.records import NS_PER_S, UsageError
from llm_locust.records.device_sample import DeviceSample, MemoryKind, TelemetryProcess

_Key = TypeVar("_Key")


class CpuTimes(NamedTuple):
    """Processor seconds of one process since its start."""

    own: float
    waited: float
    """Of its ended children (and theirs) that it has waited for: when a child ends, the time of its whole life arrives
    here."""
    parent: int | None = None
    """Its parent's process id."""


def cpu_seconds(before: Mapping[int, CpuTimes], after: Mapping[int, CpuTimes]) -> float:
    """Processor seconds that a tree used between two readings by process id, as far as they are known.

    A process that ended in between is known through the ancestor that waited for it; what was counted of it before is
    taken off. One whose parent did not wait is lost from its last reading on.
    """
    counted = dict.fromkeys(after, 0.0)
    for times in (times for pid, times in before.items() if pid not in after):
        heir = times.parent
        while heir is not None and heir in before and heir not in after:
            heir = before[heir].parent
        if heir is not None and heir in after:
            counted[heir] += times.own + times.waited
    total = 0.0
    for pid, times in after.items():
        known = before.get(pid)
        if known is None:
            total += times.own + times.waited
        else:
            total += max(times.own - known.own, 0.0) + max(times.waited - known.waited - counted[pid], 0.0)
    return total


class ProcessTree:
    """The tree of one process, without the sampler itself.

    Args:
        pid: its root.
        pss: read the proportional share of memory too. The kernel walks the page tables for it and holds a lock of the
            process meanwhile (some 14 ms per GB of ordinary pages), which a server under test would feel.
        memory_kind: whether the machine's main memory is also that of its GPU.

    Raises:
        UsageError: there is no such process, or it has ended.
    """

    def __init__(self, pid: int, *, pss: bool = False, memory_kind: MemoryKind = "ram") -> None:
        self.pid = pid
        self.memory_kind = memory_kind
        self._pss = pss
        try:
            self._root = psutil.Process(pid)
            started_ns = int(self._root.create_time() * NS_PER_S)
            self.facts = TelemetryProcess(pid=pid, name=self._root.name(), started_ns=started_ns)
        except psutil.NoSuchProcess:
            raise UsageError(f"--pid {pid}: there is no such process on this machine") from None
        if self.ended:
            raise UsageError(f"--pid {pid}: that process has ended; give the pid of one that runs")
        self._known: dict[int, psutil.Process] = {pid: self._root}
        self._times: dict[int, CpuTimes] | None = None
        self._at_ns = 0

    @property
    def ended(self) -> bool:
        """Whether the root has ended; its parent may not have taken notice yet."""
        try:
            return not self._root.is_running() or self._root.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    @property
    def pids(self) -> frozenset[int]:
        """The processes of the last sample."""
        return frozenset(self._known)

    def sample(self, at_ns: int) -> DeviceSample | None:
        """Read the tree as it is now; ``None`` when nothing of it is left."""
        self._known = self._find()
        times: dict[int, CpuTimes] = {}
        rss, processes, threads = 0, 0, 0
        peak: int | None = 0
        pss: int | None = 0 if self._pss else None
        for pid, process in list(self._known.items()):
            try:
                with process.oneshot():
                    cpu, parent = process.cpu_times(), process.ppid()
                    resident, of_threads = process.memory_info().rss, process.num_threads()
                    alive = process.status() != psutil.STATUS_ZOMBIE
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                del self._known[pid]
                continue
            waited = getattr(cpu, "children_user", 0.0) + getattr(cpu, "children_system", 0.0)
            times[pid] = CpuTimes(cpu.user + cpu.system, waited, parent)
            rss += resident
            if alive:
                processes += 1
                threads += of_threads
            peak = _sum(peak, _peak_rss_bytes(pid))
            pss = _sum(pss, _pss_bytes(process) if pss is not None else None)
        if not times:
            return None
        cpu_pct = None
        if self._times is not None and at_ns > self._at_ns:
            cpu_pct = round(100 * cpu_seconds(self._times, times) * NS_PER_S / (at_ns - self._at_ns), 2)
        self._times, self._at_ns = times, at_ns
        return DeviceSample(
            at_ns=at_ns,
            kind="process",
            pid=self.pid,
            name=self.facts.name,
            memory_kind=self.memory_kind,
            rss_bytes=rss,
            pss_bytes=pss,
            rss_peak_bytes=peak,
            cpu_pct=cpu_pct,
            processes=processes,
            threads=threads,
        )

    def _find(self) -> dict[int, psutil.Process]:
        """The tree as it is now; a known process that was adopted outside of it brings its own descendants."""
        found: dict[int, psutil.Process] = {}
        for process in self._known.values():
            if process.pid in found or not process.is_running():
                continue
            found[process.pid] = process
            try:
                for child in process.children(recursive=True):
                    found.setdefault(child.pid, child)
            except psutil.NoSuchProcess:
                continue
        found.pop(os.getpid(), None)
        return found


def _sum(total: int | None, part: int | None) -> int | None:
    """A sum of which a part is not known is not known."""
    return None if total is None or part is None else total + part


def _peak_rss_bytes(pid: int) -> int | None:
    """The highest resident memory of a process since it began, as Linux keeps it; 0 for one that has ended."""
    if not psutil.LINUX:
        return None
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:")), 0)


def _pss_bytes(process: psutil.Process) -> int | None:
    """``None`` where it is not to be had: another user's process, another system than Linux."""
    try:
        return getattr(process.memory_full_info(), "pss", None)
    except psutil.NoSuchProcess:
        return 0
    except psutil.AccessDenied:
        return None
