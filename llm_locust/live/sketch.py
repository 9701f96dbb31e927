"""Percentiles of many values in bounded memory: counts in buckets whose bounds grow by a constant factor.

The mapping is that of DDSketch (Masson, Rim, Lee: "DDSketch: a fast and fully-mergeable quantile sketch with
relative-error guarantees", VLDB 2019). With gamma = (1 + a) / (1 - a), bucket i holds the values in (gamma^(i-1), gamma^i];
2 gamma^i / (gamma + 1) is then within a relative error of a of any of them. Negative values mirror the positive ones, and
what is nearer to 0 than :data:`SMALLEST` is 0. Buckets have integer keys in the order of their values, so that a percentile
is a running sum, and two sketches are merged by adding their counts.

Values wait in a list and are put in their buckets some hundred at a time: one at a time would cost ten times as much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

ERROR = 0.005
"""The relative error against the nearest-rank percentile of the same values."""
SMALLEST, LARGEST = 1e-6, 1e9
"""Smaller values count as 0, larger ones as this: of milliseconds a nanosecond and eleven days."""
PENDING = 1024
"""So many values wait at most."""

GAMMA = (1 + ERROR) / (1 - ERROR)
_PER_LOG = 1 / math.log(GAMMA)
_FIRST = math.ceil(math.log(SMALLEST) * _PER_LOG)
"""The index of the bucket with key 1."""
_LAST_KEY = math.ceil(math.log(LARGEST) * _PER_LOG) - _FIRST + 1

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def nearest_rank(percent: int, n: int) -> int:
    """The 1-based rank ``ceil(percent / 100 * n)``, in integers."""
    return max(1, -(-percent * n // 100))


class Sketch:
    """Values, as counts of buckets: at most 6,910 of them, as many as lie between the least and the greatest value.

    Args:
        folds: How often neighbouring buckets were put together: each time doubles the error.
        beside: Is given the same values, as arrays, some hundred at a time.
    """

    __slots__ = (
        "_beside",
        "_count",
        "_counts",
        "_first",
        "_folds",
        "_least",
        "_most",
        "_pending",
        "_total",
        "_waiting",
    )

    def __init__(self, folds: int = 0, beside: Callable[[Floats], object] | None = None) -> None:
        self._folds = folds
        self._beside = beside
        self._first = 0
        """The key of the first of the counts."""
        self._counts: Counts = np.zeros(0, np.int64)
        self._count = 0
        self._total = 0.0
        self._least, self._most = math.inf, -math.inf
        self._waiting: list[float] = []
        self._pending: list[Floats] = []

    def add(self, value: float) -> None:
        """Add one finite value."""
        self._waiting.append(value)
        if len(self._waiting) >= PENDING:
            self.settle()

    def add_many(self, values: Floats) -> None:
        """Add finite values; the array is kept until they are in their buckets, and not changed."""
        if len(values):
            self._pending.append(values)
            if len(self._pending) >= PENDING // 16:
                self.settle()

    def merge(self, other: Sketch) -> None:
        """Add what the other holds, which is left as it is.

        Raises:
            ValueError: their buckets differ, one having been folded more often.
        """
        if other._folds != self._folds:
            raise ValueError(f"a sketch of {other._folds} folds does not go into one of {self._folds}")
        other.settle()
        if other._count:
            self._add_counts(other._first, other._counts)
            self._count += other._count
            self._total += other._total
            self._least, self._most = min(self._least, other._least), max(self._most, other._most)

    def folded(self, folds: int) -> Sketch:
        """The same values in fewer buckets, each of which holds two to the power of ``folds`` of the former ones."""
        self.settle()
        found = Sketch(self._folds + folds)
        found._count, found._total, found._least, found._most = self._count, self._total, self._least, self._most
        if self._count:
            keys = _folded(self._first + np.arange(len(self._counts)), folds)
            found._first = int(keys[0])
            found._counts = np.bincount(keys - keys[0], self._counts).astype(np.int64)
        return found

    @property
    def count(self) -> int:
        """How many values."""
        self.settle()
        return self._count

    @property
    def mean(self) -> float | None:
        """Their mean, exact; ``None`` of none."""
        self.settle()
        return self._total / self._count if self._count else None

    @property
    def max(self) -> float | None:
        """The greatest, exact; ``None`` of none."""
        self.settle()
        return self._most if self._count else None

    @property
    def error(self) -> float:
        """The relative error of a percentile."""
        gamma = GAMMA ** (1 << self._folds)
        return (gamma - 1) / (gamma + 1)

    def percentiles(self, percents: Iterable[int]) -> list[float | None]:
        """Nearest-rank percentiles (rank ``ceil(percent / 100 * n)``), each within :attr:`error`; ``None`` of no values.

        Where the rank is the last one (P99 of less than 100 values), it is the greatest value itself.
        """
        self.settle()
        if not self._count:
            return [None for _ in percents]
        passed = np.cumsum(self._counts)
        ranks = [nearest_rank(percent, self._count) for percent in percents]
        places = np.searchsorted(passed, ranks)
        return [
            self._most if rank == self._count else self._value(self._first + int(place))
            for rank, place in zip(ranks, places, strict=True)
        ]

    def percentile(self, percent: int) -> float | None:
        """One of :meth:`percentiles`."""
        return self.percentiles((percent,))[0]

    def _value(self, key: int) -> float:
        """What stands for the values of a bucket, but nothing that lies outside of all that was seen."""
        value = 0.0
        if key:
            width = 1 << self._folds
            upper = GAMMA ** (_FIRST - 1 + abs(key) * width)
            value = math.copysign(2 * upper / (1 + GAMMA**width), key)
        return min(max(value, self._least), self._most)

    def settle(self) -> None:
        """Put what waits in its buckets."""
        if self._waiting:
            self._pending.append(np.array(self._waiting, np.float64))
            self._waiting.clear()
        if not self._pending:
            return
        values = np.concatenate(self._pending) if len(self._pending) > 1 else self._pending[0]
        self._pending.clear()
        if self._beside is not None:
            self._beside(values)
        self._count += len(values)
        self._total += float(values.sum())
        least, most = float(values.min()), float(values.max())
        self._least, self._most = min(self._least, least), max(self._most, most)
        size = np.abs(values)
        with np.errstate(divide="ignore"):
            keys = np.ceil(np.log(size) * _PER_LOG) - (_FIRST - 1)
        # The logarithm of 0 is minus infinity, which the lower bound makes key 0.
        keys = np.where(size < SMALLEST, 0, np.clip(keys, 1, _LAST_KEY)).astype(np.int64)
        if least < 0:
            keys = np.where(values < 0, -keys, keys)
        keys = _folded(keys, self._folds)
        first = int(keys.min())
        self._add_counts(first, np.bincount(keys - first))

    def _add_counts(self, first: int, counts: Counts) -> None:
        end = first + len(counts)
        if not len(self._counts):
            self._first, self._counts = first, counts.astype(np.int64)
            return
        own_end = self._first + len(self._counts)
        if first < self._first or end > own_end:
            low, high = min(first, self._first), max(end, own_end)
            grown = np.zeros(high - low, np.int64)
            grown[self._first - low : own_end - low] = self._counts
            self._first, self._counts = low, grown
        self._counts[first - self._first : end - self._first] += counts


def _folded(keys: Counts, folds: int) -> Counts:
    """Keys of buckets that are two to the power of ``folds`` times as wide; 0 stays 0."""
    if not folds:
        return keys
    found: Counts = np.sign(keys) * -(-np.abs(keys) >> folds)
    return found
