"""How finely a trace's times are told: what jitter may spread an arrival over without inventing anything."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FEWEST_STEPS = 5
"""Distances between distinct times below which nothing is concluded from them."""

BIN_ROWS = 2.0
"""Rows per distinct time from which times may be bins."""


def written_step_ns(time_ns: npt.NDArray[np.int64], unit_ns: int) -> int:
    """The largest power of ten of nanoseconds, at most ``unit_ns``, that all times are multiples of.

    Times of 5, 45 and 118.5 s are written to 0.1 s. ``unit_ns`` is the format's own unit, a power of ten.
    """
    step = unit_ns
    while step > 1 and (time_ns % step).any():
        step //= 10
    return step


def bin_ns(time_ns: npt.NDArray[np.int64]) -> int | None:
    """The width of the bins that a trace's arrivals were collected in; ``None`` when it does not look collected.

    It does when many rows share each time and the distinct times stand nearly evenly apart: 95 % of the distances are at
    least half of the median, which is then the width. Independent arrivals never do: their distances are exponential, and
    a twentieth of them is below 7 % of the median.

    Args:
        time_ns: Sorted.
    """
    distances = np.diff(time_ns)
    distances = distances[distances > 0]
    if len(distances) < FEWEST_STEPS or len(time_ns) < BIN_ROWS * (len(distances) + 1):
        return None
    low, median = np.quantile(distances, (0.05, 0.5), method="inverted_cdf")
    return int(median) if 2 * low >= median else None
