"""Processes whose law is the same at every moment: constant, Poisson, gamma, on-off.

The mean rate over any duration is the rate asked for, and a longer duration only adds later arrivals: what came before
stays as it was. Poisson gaps are never rescaled to hit an exact count: the count is itself part of the process.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from llm_locust.records import NS_PER_S

Offsets = npt.NDArray[np.int64]
"""Planned arrivals as whole nanoseconds from the start, sorted, in ``[0, duration)``."""

Floats = npt.NDArray[np.float64]


def constant(rate_rps: float, duration_s: float, _random: np.random.Generator) -> Offsets:
    """One arrival every ``1 / rate_rps`` seconds, the first at 0. The gaps differ by rounding to 1 ns only."""
    count = math.ceil(rate_rps * duration_s)
    return offsets_within(duration_s, np.arange(count, dtype=np.float64) * NS_PER_S / rate_rps)


def poisson(rate_rps: float, duration_s: float, random: np.random.Generator) -> Offsets:
    """A homogeneous Poisson process: independent exponential gaps of mean ``1 / rate_rps`` seconds."""
    return offsets_within(duration_s, poisson_times(rate_rps, duration_s, random) * NS_PER_S)


def gamma(rate_rps: float, duration_s: float, random: np.random.Generator, *, cv: float) -> Offsets:
    """A renewal process: independent gamma gaps of mean ``1 / rate_rps`` seconds and coefficient of variation ``cv``.

    1 is Poisson, above it arrivals bunch, below it they spread out. The shape of the gaps, ``1 / cv**2``, is what
    other generators call burstiness.

    The process was running before the start, so the first arrival comes after what was left of the gap then open: a
    uniform part of a gap met by chance, which is longer the longer a gap is (Cox, Renewal Theory, 1962, chapter 5).
    A gap met by chance has a gamma law of one shape more. A whole gap in its place, or an arrival at 0, would bend the
    mean rate of a short stage.
    """
    shape = cv**-2
    scale_s = 1 / (rate_rps * shape)
    first_s = random.random() * random.gamma(shape + 1, scale_s)
    expected = rate_rps * duration_s
    likely = int(expected + 6 * cv * math.sqrt(expected)) + 16
    later = sums_until(duration_s, first_s, likely, lambda count: random.gamma(shape, scale_s, count))
    return offsets_within(duration_s, np.concatenate(([first_s], later)) * NS_PER_S)


def on_off(rate_rps: float, duration_s: float, random: np.random.Generator, *, on: float, off: float) -> Offsets:
    """Poisson arrivals at ``rate_rps * (on + off) / on`` for ``on`` seconds, none for ``off`` seconds, and again.

    The start falls anywhere in the cycle, by chance: so the mean rate of any stretch is ``rate_rps`` over the seeds,
    and that of one of whole cycles with every seed. Were the start always the start of a burst, a warm-up as long as a
    burst would swallow it each time.
    """
    cycle = on + off
    start = random.random() * cycle
    # Time that stands still while off: there the process is a plain Poisson one. It counts from the cycle of the start.
    on_before = min(start, on)
    whole, rest = divmod(start + duration_s, cycle)
    on_time = on_before + poisson_times(rate_rps * cycle / on, whole * on + min(rest, on) - on_before, random)
    bursts = np.floor(on_time / on)
    return offsets_within(duration_s, (on_time + bursts * off - start) * NS_PER_S)


def poisson_times(rate: float, end: float, random: np.random.Generator) -> Floats:
    """Times of a Poisson process in ``[0, end)``, rising, in the unit of ``end``."""
    expected = rate * end
    likely = int(expected + 6 * math.sqrt(expected)) + 16
    times = sums_until(end, 0.0, likely, lambda count: random.exponential(1 / rate, count))
    return times[: np.searchsorted(times, end)]


def sums_until(end: float, first: float, block: int, draw: Callable[[int], Floats]) -> Floats:
    """``first`` plus the running sums of drawn gaps, until they pass ``end`` (more than that may be given)."""
    blocks: list[Floats] = []
    last = first
    while last < end or not blocks:
        # The sum goes on inside the running sum, so that the blocks' length (the duration) moves no time by rounding.
        sums = np.cumsum(np.concatenate(([last], draw(block))))[1:]
        blocks.append(sums)
        last = float(sums[-1])
    return np.concatenate(blocks)


def offsets_within(duration_s: float, times_ns: Floats) -> Offsets:
    """Rising times in nanoseconds as offsets; those that round to the end of the duration or beyond are not in it."""
    offsets = np.rint(times_ns).astype(np.int64)
    return offsets[: np.searchsorted(offsets, round(duration_s * NS_PER_S))]
