"""Which process makes a run, noted by itself and looked for by whoever reads the run: is it going on, or was it killed?"""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from llm_locust.records.manifest import MasterProcess
from llm_locust.telemetry.devices.clock_offset import boot_id

_SAME_START_S = 5.0
"""The system tells a process's start by the wall clock, which may have been set since."""


def this_process() -> MasterProcess:
    """This process, as another one can recognise it."""
    process = psutil.Process()
    return MasterProcess(
        pid=process.pid, started_s=process.create_time(), boot_id=boot_id(), pid_namespace=_pid_namespace()
    )


def goes_on(process: MasterProcess) -> bool | None:
    """Whether it runs; ``None`` when that cannot be seen from here: another machine, boot or container."""
    if process.boot_id is None or (process.boot_id, process.pid_namespace) != (boot_id(), _pid_namespace()):
        return None
    try:
        found = psutil.Process(process.pid)
        alike = abs(found.create_time() - process.started_s) < _SAME_START_S
        return alike and found.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return None


def _pid_namespace() -> int | None:
    """Containers of one machine share its boot id and have process ids of their own."""
    try:
        return os.stat(Path("/proc/self/ns/pid")).st_ino
    except OSError:
        return None
