"""Processes whose rate follows a shape over the duration: linear and exponential ramp, diurnal, spike.

Each is told by its :class:`Intensity` alone. Its arrivals are those of a Poisson process of rate 1, read on a clock that
runs at the rate of the moment (the time change of Cinlar, Introduction to Stochastic Processes, 1975, chapter 4). That is
exact and takes one draw per arrival; thinning would draw at the peak rate and throw most of it away.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from llm_locust.arrivals.stationary import Floats, Offsets, offsets_within, poisson_times
from llm_locust.records import NS_PER_S

GRID_NS = 1000
"""Shaped arrivals fall on whole microseconds. Workers compare digests of their plans, and NumPy's logarithm differs in its
last bit between processors with and without AVX-512: the coarser the grid, the less can that part two plans."""


@dataclass(frozen=True)
class Intensity:
    """How many arrivals are expected by when, and its inverse: two rising functions of arrays."""

    expected_by: Callable[[Floats], Floats]
    """Seconds from the start, 0 to the duration, to arrivals expected before."""
    time_of: Callable[[Floats], Floats]
    """Arrivals expected before, 0 to those of the whole duration, to seconds from the start."""


class Shaped:
    """The arrival process of a shape: called like every process, and its intensity can be asked for."""

    def __init__(self, intensity: Callable[..., Intensity]) -> None:
        self.intensity = intensity
        """Of rate in requests per second, duration in seconds and the parameters."""
        self.__doc__ = intensity.__doc__
        self.__name__ = intensity.__name__

    def __call__(self, rate_rps: float, duration_s: float, random: np.random.Generator, **parameters: float) -> Offsets:
        """The planned arrivals, in nanoseconds from the start."""
        shape = self.intensity(rate_rps, duration_s, **parameters)
        expected = float(shape.expected_by(np.array([duration_s]))[0])
        times_s = shape.time_of(poisson_times(1.0, expected, random))
        # An inverse found by iteration may swap two arrivals of almost the same instant in its last digits.
        on_grid = np.rint(np.maximum.accumulate(times_s) * (NS_PER_S / GRID_NS)) * GRID_NS
        return offsets_within(duration_s, on_grid)


@Shaped
def linear_ramp(rate_rps: float, duration_s: float, *, to: float) -> Intensity:
    """The rate goes from ``rate_rps`` at the start to ``to`` at the end in a straight line; the mean is halfway."""
    slope = (to - rate_rps) / duration_s

    def expected_by(time_s: Floats) -> Floats:
        return time_s * (rate_rps + slope * time_s / 2)

    def time_of(expected: Floats) -> Floats:
        # The root that has no difference of near equals; a ramp down to 0 may round its last arrivals below 0.
        return 2 * expected / (rate_rps + np.sqrt(np.maximum(rate_rps**2 + 2 * slope * expected, 0.0)))

    return Intensity(expected_by, time_of)


@Shaped
def exponential_ramp(rate_rps: float, duration_s: float, *, to: float) -> Intensity:
    """The rate goes from ``rate_rps`` to ``to``, growing by the same factor every second; the mean is their log mean."""
    growth = math.log(to / rate_rps) / duration_s
    if growth == 0:
        return Intensity(lambda time_s: rate_rps * time_s, lambda expected: expected / rate_rps)
    return Intensity(
        lambda time_s: rate_rps * np.expm1(growth * time_s) / growth,
        lambda expected: np.log1p(expected * growth / rate_rps) / growth,
    )


@Shaped
def diurnal(rate_rps: float, duration_s: float, *, period: float, swing: float) -> Intensity:
    """Days of ``period`` seconds that begin at night: the rate goes as ``1 - swing * cos(2 pi t / period)``.

    From ``(1 - swing)`` times ``rate_rps`` at the trough to ``(1 + swing)`` times at the peak half a period later. A
    duration that is no number of half periods is scaled as a whole, so that its mean is ``rate_rps`` all the same.
    """

    def days(time_s: Floats) -> Floats:
        # The integral of the cosine form, in periods: after every half period it has caught up with the time.
        whole, part = np.divmod(time_s / period, 1)
        return whole + _behind(2 * np.pi * part, swing) / (2 * np.pi)

    per_day = rate_rps * duration_s / float(days(np.array([duration_s]))[0])

    def time_of(expected: Floats) -> Floats:
        whole, part = np.divmod(expected / per_day, 1)
        afternoon = part > 0.5  # the mirror of the morning
        angle = _solve_kepler(2 * np.pi * np.where(afternoon, 1 - part, part), swing) / (2 * np.pi)
        return period * (whole + np.where(afternoon, 1 - angle, angle))

    return Intensity(lambda time_s: per_day * days(time_s), time_of)


def _behind(angle: Floats, swing: float) -> Floats:
    """``angle - swing * sin(angle)``, right to the last digits also where the two are almost the same."""
    square = angle**2
    series = angle * square / 6 * (1 - square / 20 * (1 - square / 42 * (1 - square / 72 * (1 - square / 110))))
    return (1 - swing) * angle + swing * np.where(angle < 0.3, series, angle - np.sin(angle))


def _solve_kepler(mean: Floats, swing: float) -> Floats:
    """The angle in ``[0, pi]`` with ``angle - swing * sin(angle) == mean``, for means in ``[0, pi]``.

    Between 0 and pi the left side is convex and rises, so Newton's steps from above fall to the root and never past it.
    It is at least ``angle**3 / pi**2``, which gives a start near the root even where swing is 1 and the slope at 0 is 0.
    """
    angle = np.minimum(np.minimum(mean + swing, np.pi), np.cbrt(np.pi**2 * mean))
    for _ in range(20):  # six do
        slope = 1 - swing + 2 * swing * np.sin(angle / 2) ** 2
        step = np.divide(_behind(angle, swing) - mean, slope, out=np.zeros_like(angle), where=slope > 0)
        angle = angle - step
        if np.all(np.abs(step) <= 1e-9 * angle):  # the next step would be its square
            break
    return angle


@Shaped
def spike(rate_rps: float, duration_s: float, *, at: float, width: float, share: float) -> Intensity:
    """``share`` of all arrivals fall into ``width`` seconds from ``at`` (of the duration) on, the others evenly around.

    A spike that would not fit before the end begins earlier; one that is wider than the duration is all of it, at
    ``rate_rps``.
    """
    total = rate_rps * duration_s
    if width >= duration_s:
        return Intensity(lambda time_s: rate_rps * time_s, lambda expected: expected / rate_rps)
    start = min(at * duration_s, duration_s - width)
    before = total * (1 - share) * start / (duration_s - width)
    times = np.array([0.0, start, start + width, duration_s])
    expected = np.array([0.0, before, before + total * share, total])
    return Intensity(
        lambda time_s: np.interp(time_s, times, expected), lambda wanted: np.interp(wanted, expected, times)
    )
