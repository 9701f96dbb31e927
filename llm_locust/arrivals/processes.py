"""Arrival processes as pure functions: (rate, duration, random stream) to planned offsets. Registered by name.

A process knows nothing of stages, workers or clocks. Offsets are integer nanoseconds from the start, sorted, in
``[0, duration)``. Poisson gaps are never rescaled to hit an exact count: the count is itself part of the process.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from llm_locust.records import NS_PER_S

Offsets = npt.NDArray[np.int64]
Process = Callable[[float, float, np.random.Generator], Offsets]


def constant(rate_rps: float, duration_s: float, _random: np.random.Generator) -> Offsets:
    """One arrival every ``1 / rate_rps`` seconds, the first at 0. The gaps differ by rounding to 1 ns only."""
    count = math.ceil(rate_rps * duration_s)
    offsets = np.rint(np.arange(count, dtype=np.float64) * (NS_PER_S / rate_rps)).astype(np.int64)
    return offsets[offsets < round(duration_s * NS_PER_S)]


def poisson(rate_rps: float, duration_s: float, random: np.random.Generator) -> Offsets:
    """A homogeneous Poisson process: independent exponential gaps of mean ``1 / rate_rps`` seconds."""
    end_ns = round(duration_s * NS_PER_S)
    expected = rate_rps * duration_s
    draw = int(expected + 6 * math.sqrt(expected)) + 16
    blocks: list[npt.NDArray[np.float64]] = []
    last_s = 0.0
    while last_s < duration_s:
        times = last_s + np.cumsum(random.exponential(1 / rate_rps, draw))
        blocks.append(times)
        last_s = float(times[-1])
    offsets = np.rint(np.concatenate(blocks) * NS_PER_S).astype(np.int64)
    return offsets[offsets < end_ns]


PROCESSES: dict[str, Process] = {"poisson": poisson, "constant": constant}
"""Every arrival process by the name that ``--arrivals`` takes."""
