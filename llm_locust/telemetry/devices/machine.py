"""The machine that is sampled, as far as a program without rights can know it."""

from __future__ import annotations

import platform
import socket
from pathlib import Path

import psutil

from llm_locust.records.device_sample import TelemetryMachine


def this_machine() -> TelemetryMachine:
    """This machine's name, system, processor and main memory."""
    return TelemetryMachine(
        host=socket.gethostname(),
        system=platform.platform(),
        cpu=_cpu_model(),
        cpus=psutil.cpu_count(),
        ram_bytes=psutil.virtual_memory().total,
    )


def shares_memory() -> bool:
    """Whether this is a system whose processor and GPU are known to share their memory: Apple silicon."""
    return platform.system() == "Darwin" and platform.machine() == "arm64"


def _cpu_model() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)
