"""How bursty arrivals are: the variation of their gaps, and of their counts at a time scale.

Both compare with Poisson, whose figures are 1: equal gaps give 0, bursts give more. Gaps see bursts of a few arrivals;
counts in wide bins see a rate that comes and goes, which hardly shows in the gaps. Offsets are sorted nanoseconds from
the start, as a plan or a trace has them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from llm_locust.arrivals.stationary import Offsets
from llm_locust.records import NS_PER_S


def gap_cv(offset_ns: Offsets) -> float | None:
    """The coefficient of variation of the gaps: standard deviation (of n - 1) / mean.

    ``None`` below two gaps, or when all arrivals are at one instant.
    """
    gaps = np.diff(offset_ns)
    if len(gaps) < 2 or gaps.mean() == 0:
        return None
    return float(gaps.std(ddof=1) / gaps.mean())


def bin_counts(offset_ns: Offsets, bin_s: float, duration_s: float) -> npt.NDArray[np.int64]:
    """Arrivals in each whole bin of ``bin_s`` seconds from the start; what is left of the duration is left out.

    Raises:
        ValueError: bins of less than a nanosecond.
    """
    bin_ns = round(bin_s * NS_PER_S)
    if bin_ns < 1:
        raise ValueError(f"bins of {bin_s} s: an offset is a whole number of nanoseconds")
    bins = round(duration_s * NS_PER_S) // bin_ns
    place = np.asarray(offset_ns) // bin_ns
    return np.bincount(place[(place >= 0) & (place < bins)], minlength=bins)


def dispersion(offset_ns: Offsets, bin_s: float, duration_s: float) -> float | None:
    """The index of dispersion of counts: variance (of n - 1) / mean over the whole bins (Cox and Lewis, 1966).

    Of n bins of a Poisson process it is 1, give or take a standard error of ``sqrt(2 / (n - 1))``. ``None`` below two
    bins, or when all are empty.
    """
    counts = bin_counts(offset_ns, bin_s, duration_s)
    if len(counts) < 2 or not counts.any():
        return None
    return float(counts.var(ddof=1) / counts.mean())
