"""Counts per fixed bound, beside the sketches: what a Prometheus histogram is made of; a sketch's buckets do not fit it.

The bounds of TTFT, TPOT, ITL and E2E are those of vLLM's own histograms, which for TTFT and TPOT begin with those that
OpenTelemetry recommends for generative AI servers: client and engine are then interpolated between the same bounds and can
be drawn over each other. Added below them are bounds for engines that make a token in under 10 ms, or a whole reply in under
300 ms. Waits, which are to stay in the milliseconds, have bounds of their own around the 5 ms of a valid generator.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

import msgspec
import numpy as np
import numpy.typing as npt

_FIRST_TOKEN_MS = (
    1.0, 5.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 250.0, 500.0, 750.0, 1_000.0, 2_500.0, 5_000.0, 7_500.0, 10_000.0,
    20_000.0, 40_000.0, 80_000.0, 160_000.0,
)  # fmt: skip
_TOKEN_MS = (
    2.5, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 150.0, 200.0, 300.0, 400.0, 500.0, 750.0, 1_000.0, 2_500.0, 5_000.0, 7_500.0,
    10_000.0, 20_000.0, 40_000.0, 80_000.0,
)  # fmt: skip
_REPLY_MS = (
    50.0, 100.0, 200.0, 300.0, 500.0, 800.0, 1_000.0, 1_500.0, 2_000.0, 2_500.0, 5_000.0, 10_000.0, 15_000.0, 20_000.0,
    30_000.0, 40_000.0, 50_000.0, 60_000.0, 120_000.0, 240_000.0, 480_000.0, 960_000.0,
)  # fmt: skip
_WAIT_MS = (
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0, 5_000.0, 10_000.0, 30_000.0,
    60_000.0,
)  # fmt: skip

BOUNDS_MS: dict[str, tuple[float, ...]] = {
    "ttft": _FIRST_TOKEN_MS,
    "tpot": _TOKEN_MS,
    "itl": _TOKEN_MS,
    "e2e": _REPLY_MS,
    "max_gap": _TOKEN_MS,
    "client_wait": _WAIT_MS,
    "dispatch_lag": _WAIT_MS,
    "cap_wait": _WAIT_MS,
}
"""Upper bounds in milliseconds, rising, by the names of :data:`~llm_locust.live.snapshot.LATENCIES`. A value that equals a
bound belongs to it, as in Prometheus; what is above the last is only in the count."""


class Buckets(msgspec.Struct, frozen=True, kw_only=True):
    """A histogram at one moment, in milliseconds."""

    bounds_ms: tuple[float, ...]
    cumulative: tuple[int, ...]
    """How many values there were up to each bound, as many as there are bounds."""
    count: int
    """All values, those above the last bound included."""
    sum_ms: float


class GroupBuckets(msgspec.Struct, frozen=True, kw_only=True):
    """The histograms of one :class:`~llm_locust.live.snapshot.GroupView`, with the same slice and user class."""

    stage: int
    slice: str | None
    user: str | None
    latencies: dict[str, Buckets]
    """By the names of :data:`BOUNDS_MS`; one without a value yet is left out."""


class FixedBuckets:
    """Counts values as they come.

    Args:
        bounds_ms: Upper bounds, rising.
    """

    __slots__ = ("_bounds_ms", "_counts", "_sum_ms")

    def __init__(self, bounds_ms: tuple[float, ...]) -> None:
        self._bounds_ms = bounds_ms
        self._counts = [0] * (len(bounds_ms) + 1)
        self._sum_ms = 0.0

    def add(self, ms: float) -> None:
        """One value."""
        self._counts[bisect_left(self._bounds_ms, ms)] += 1
        self._sum_ms += ms

    def add_many(self, ms: npt.NDArray[np.float64]) -> None:
        """Many values at once: the gaps of a reply."""
        if not ms.size:
            return
        found = np.bincount(np.searchsorted(self._bounds_ms, ms, side="left"), minlength=len(self._counts))
        self._counts = [had + int(more) for had, more in zip(self._counts, found, strict=True)]
        self._sum_ms += float(ms.sum())

    @property
    def count(self) -> int:
        """All values."""
        return sum(self._counts)

    def view(self) -> Buckets:
        """As it stands now."""
        total, cumulative = 0, []
        for count in self._counts:
            total += count
            cumulative.append(total)
        return Buckets(bounds_ms=self._bounds_ms, cumulative=tuple(cumulative[:-1]), count=total, sum_ms=self._sum_ms)


def added(views: Iterable[Buckets]) -> Buckets | None:
    """Histograms of the same bounds as one; ``None`` of none."""
    parts = list(views)
    if not parts:
        return None
    return Buckets(
        bounds_ms=parts[0].bounds_ms,
        cumulative=tuple(map(sum, zip(*(part.cumulative for part in parts), strict=True))),
        count=sum(part.count for part in parts),
        sum_ms=sum(part.sum_ms for part in parts),
    )
