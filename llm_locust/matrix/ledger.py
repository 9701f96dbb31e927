"""What a matrix has done so far, in ``state.json``: written atomically after every step, read again after a break.

It belongs to one process at a time. A killed matrix leaves processes behind; their ids and start times stand here, so that
the next one ends those, and no others that got the same id meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import msgspec
import psutil

from llm_locust.matrix.config import MatrixConfig
from llm_locust.records import UsageError
from llm_locust.records.whole_file import write_whole_json

STATE = "state.json"
ORPHAN_S = 10.0
"""How long what a killed matrix left behind may take to end."""

UnitStatus = Literal["waiting", "running", "done", "failed", "interrupted"]


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """One process, told apart from a later one with its id."""

    pid: int
    created: float
    what: str

    @staticmethod
    def of(pid: int, what: str) -> Known | None:
        """That process; ``None`` when it has ended."""
        try:
            return Known(pid=pid, created=psutil.Process(pid).create_time(), what=what)
        except psutil.Error:
            return None

    @property
    def alive(self) -> bool:
        """It runs still, and is that one."""
        try:
            process = psutil.Process(self.pid)
            return process.create_time() == self.created and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False


class UnitState(msgspec.Struct, kw_only=True):
    """One locust run."""

    status: UnitStatus = "waiting"
    reason: str | None = None
    """Why it is not done."""
    run: str | None = None
    """Its run folder, seen from the matrix's."""
    exit_code: int | None = None
    started_at: str | None = None
    ended_at: str | None = None


class State(msgspec.Struct, kw_only=True):
    """``state.json``."""

    made_by: str
    mode: str
    config: dict[str, Any]
    """As it was read, to see whether it has changed."""
    engine_said: str | None = None
    """What the engine's version command printed."""
    notes: list[str] = []
    """What was seen of the engine before load: flags that its help does not know, versions that are others."""
    engines: dict[str, str] = {}
    """Of variants whose engine did not start: why."""
    units: dict[str, UnitState] = {}
    owner: Known | None = None
    processes: list[Known] = []


class Ledger:
    """The state, its file and its owner. Safe to use from several threads."""

    def __init__(self, folder: Path, state: State) -> None:
        self.folder = folder
        self.state = state
        self._lock = threading.Lock()

    @staticmethod
    @contextlib.contextmanager
    def opened(folder: Path, mode: str, config: MatrixConfig, units: list[str]) -> Iterator[Ledger]:
        """The ledger of a folder, begun or gone on with.

        Raises:
            UsageError: another process is at it, or it was begun in another mode or with another matrix.
        """
        state = State(made_by=f"llm-locust {version('llm-locust')}", mode=mode, config=msgspec.to_builtins(config))
        found = _read(folder / STATE)
        if found is not None:
            _refuse_what_changed(folder, found, state)
            if found.owner is not None and found.owner.alive and found.owner.pid != os.getpid():
                raise UsageError(
                    f"--output-dir {folder}: process {found.owner.pid} is running this matrix: wait for it, or take "
                    "another folder"
                )
            _end_orphans(found.processes)
            state = found
            state.processes = []
        state.units = {name: state.units.get(name, UnitState()) for name in units}
        state.owner = Known.of(os.getpid(), "matrix")
        ledger = Ledger(folder, state)
        ledger.save()
        try:
            yield ledger
        finally:
            state.owner = None
            ledger.save()

    def save(self) -> None:
        """Write it down."""
        with self._lock:
            write_whole_json(self.folder / STATE, self.state)

    def begin(self, unit: str) -> None:
        """A run begins."""
        self.state.units[unit] = UnitState(status="running", started_at=_now())
        self.save()

    def end(
        self,
        unit: str,
        status: UnitStatus,
        *,
        reason: str | None = None,
        run: str | None = None,
        code: int | None = None,
    ) -> None:
        """A run is over."""
        one = self.state.units[unit]
        one.status, one.reason, one.run, one.exit_code, one.ended_at = status, reason, run, code, _now()
        self.save()

    def engine_failed(self, variant: str, reason: str) -> None:
        """An engine did not start."""
        self.state.engines[variant] = reason
        self.save()

    def engine_started(self, variant: str) -> None:
        """An engine is up: what was said of an earlier attempt is over."""
        self.state.engines.pop(variant, None)
        self.save()

    @contextlib.contextmanager
    def knowing(self, pid: int, what: str) -> Iterator[None]:
        """A process that we started and will end, for as long as the block lasts."""
        known = Known.of(pid, what)
        if known is not None:
            with self._lock:
                self.state.processes = [*self.state.processes, known]
            self.save()
        try:
            yield
        finally:
            with self._lock:
                self.state.processes = [one for one in self.state.processes if one != known]
            self.save()


def read_state(folder: Path) -> State | None:
    """What was done in a folder; ``None`` when nothing was.

    Raises:
        UsageError: its file is not one of these.
    """
    return _read(folder / STATE)


def _read(path: Path) -> State | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=State)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise UsageError(f"{path}: not the state of a matrix: {error}") from None


def _refuse_what_changed(folder: Path, before: State, now: State) -> None:
    if before.mode != now.mode:
        raise UsageError(
            f"--output-dir {folder} was begun with --mode {before.mode}, whose results must not be mixed with those of "
            f"{now.mode}: give another folder"
        )
    changed = list(_differences(before.config, now.config))
    if before.made_by != now.made_by:
        changed.append(f"made by: {before.made_by} -> {now.made_by}")
    if changed:
        raise UsageError(
            f"--output-dir {folder} was begun with another matrix, so what is finished cannot be put beside what would "
            "follow:\n  " + "\n  ".join(changed) + "\nGive it another folder, or go back to what it was begun with"
        )


def _differences(before: Any, now: Any, key: str = "") -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for name in dict.fromkeys((*before, *now)):
            yield from _differences(before.get(name), now.get(name), f"{key}.{name}" if key else name)
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for place, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from _differences(one, other, f"{key}[{place}]")
    elif before != now:
        yield f"{key}: {_shown(before)} -> {_shown(now)}"


def _shown(value: Any) -> str:
    return "(none)" if value is None else msgspec.json.encode(value).decode()


def _end_orphans(processes: list[Known]) -> None:
    """End what a killed matrix had started: politely, then not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        left = [one for one in processes if one.alive]
        for one in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                # Each was started as the leader of a group of its own.
                os.killpg(one.pid, number)
        give_up = time.monotonic() + ORPHAN_S
        while any(one.alive for one in left) and time.monotonic() < give_up:
            time.sleep(0.05)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
