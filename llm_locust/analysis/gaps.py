"""The gaps between output events of many requests, held once as one flat array of integers.

A table's rows say where their gaps are (:data:`GAPS_AT`, :data:`GAPS_N`), so rows can be sorted and picked while the array
stays as it was read. A hundred million gaps are 400 MB so, and several gigabytes as text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from llm_locust.analysis.derived import Bools
from llm_locust.analysis.quantiles import nearest_rank
from llm_locust.records.summary import Percentile, StallFigures

GAPS_AT, GAPS_N = "gaps_at", "gaps_n"
"""Columns beside those of the contract: the place of a row's first gap in the array, and how many it has."""

ROWS_AT_ONCE = 10_000

COUNTED_UP_TO_US = 1 << 22
"""Gaps below four seconds are counted by their value, the few longer ones are kept as they are."""

STALL_MEDIANS = 10
"""Without a ``max_gap`` limit, a stall is a gap longer than so many median gaps."""

Us = npt.NDArray[np.uint32] | npt.NDArray[np.int64]


def gap_places(counts: npt.NDArray[np.int64], first: int = 0) -> npt.NDArray[np.int64]:
    """Where each row's gaps begin, when they follow one another from ``first`` on."""
    return first + np.concatenate(([0], np.cumsum(counts)[:-1])) if len(counts) else np.zeros(0, np.int64)


def picked_gaps(us: Us, at: npt.NDArray[np.int64], n: npt.NDArray[np.int64]) -> Us:
    """The gaps of some rows, one row's after the other's."""
    if len(at) and (at[1:] == at[:-1] + n[:-1]).all():
        return us[int(at[0]) : int(at[-1] + n[-1])]
    inside = np.arange(int(n.sum())) - np.repeat(np.cumsum(n) - n, n)
    picked: Us = us[np.repeat(at, n) + inside]
    return picked


def gap_texts(us: Us, counts: npt.NDArray[np.int64]) -> list[str]:
    """The ``gaps_us`` cells of rows whose gaps follow one another; empty for a row without."""
    digits = np.ones(len(us), np.int64)
    power = 10
    while len(us) and power <= int(us.max()):
        digits += us >= power
        power *= 10
    ends = np.cumsum(digits + 1)
    text = np.full(int(ends[-1]) if len(ends) else 0, ord(" "), np.uint8)
    value, place = us.copy(), ends - 2
    while len(value):
        higher = value // 10
        text[place] = value - higher * 10 + ord("0")
        more = higher > 0
        value, place = higher[more], place[more] - 1
    whole = text.tobytes().decode("ascii")
    stops = np.concatenate(([0], ends))[np.cumsum(counts)].tolist()
    cells = []
    begin = 0
    for stop in stops:
        cells.append(whole[begin : max(begin, stop - 1)])
        begin = stop
    return cells


class GapCounts(NamedTuple):
    """How often each length of gap came among some requests; exact, in microseconds."""

    of_length: npt.NDArray[np.int64]
    """At place k the number of gaps of k microseconds."""
    longer: npt.NDArray[np.int64]
    """Those of :data:`COUNTED_UP_TO_US` and more, sorted."""

    @property
    def n(self) -> int:
        """How many gaps there are."""
        return int(self.of_length.sum()) + len(self.longer)

    @property
    def total_us(self) -> int:
        """Their sum."""
        return int(self.of_length @ np.arange(len(self.of_length))) + int(self.longer.sum())

    def over(self, limit_us: float) -> tuple[int, int]:
        """How many are longer than a limit, and their sum in microseconds."""
        first = min(int(limit_us) + 1, len(self.of_length)) if limit_us >= 0 else 0
        part = self.of_length[first:]
        longer = self.longer[self.longer > limit_us]
        return int(part.sum()) + len(longer), int(part @ np.arange(first, len(self.of_length))) + int(longer.sum())


def count_gaps(rows: pd.DataFrame, chosen: Bools, us: Us) -> GapCounts:
    """Count the gaps of the chosen rows."""
    total = np.zeros(0, np.int64)
    longer: list[npt.NDArray[np.int64]] = []
    for gaps in _in_chunks(rows, chosen, us):
        short = gaps < COUNTED_UP_TO_US
        if not short.all():
            longer.append(gaps[~short].astype(np.int64))
            gaps = gaps[short]
        found = np.bincount(gaps)
        if len(found) > len(total):
            total, found = found, total
        total[: len(found)] += found
    return GapCounts(total, np.sort(np.concatenate([np.empty(0, np.int64), *longer])))


def _in_chunks(rows: pd.DataFrame, chosen: Bools, us: Us) -> Iterator[Us]:
    """The gaps of the chosen rows in the order in which they lie in memory."""
    n = rows[GAPS_N].to_numpy()
    places = np.flatnonzero(chosen & (n > 0))
    at = rows[GAPS_AT].to_numpy()
    places = places[np.argsort(at[places], kind="stable")]
    for start in range(0, len(places), ROWS_AT_ONCE):
        part = places[start : start + ROWS_AT_ONCE]
        yield picked_gaps(us, at[part], n[part])


def gap_percentiles(counts: GapCounts, percents: tuple[int, ...], missing: int = 0) -> dict[int, Percentile]:
    """Nearest-rank percentiles of all gaps, in milliseconds, without bounds: gaps are nowhere near independent."""
    n = counts.n
    if n == 0:
        return {percent: Percentile(value=None, n=0, missing=missing) for percent in percents}
    passed = np.cumsum(counts.of_length)
    found = {}
    for percent in percents:
        rank = nearest_rank(percent, n)
        counted = int(passed[-1]) if len(passed) else 0
        us = int(np.searchsorted(passed, rank)) if rank <= counted else int(counts.longer[rank - counted - 1])
        found[percent] = Percentile(value=us / 1000, n=n, at_maximum=rank == n and percent < 100, missing=missing)
    return found


def stalls(counts: GapCounts, limit_ms: float | None) -> StallFigures | None:
    """How much of the stream stood still; ``None`` without gaps.

    A stall is a gap longer than the chosen ``max_gap`` limit, or, where none was chosen, longer than ten times the median
    gap of these requests: no latency limit is built in, but a stream that stops for ten usual gaps has visibly stopped.
    """
    n = counts.n
    if n == 0:
        return None
    median = gap_percentiles(counts, (50,))[50].value
    assert isinstance(median, float)
    threshold_ms = limit_ms if limit_ms is not None else STALL_MEDIANS * median
    stalled, stalled_us = counts.over(threshold_ms * 1000)
    total_us = counts.total_us
    return StallFigures(
        threshold_ms=threshold_ms,
        chosen=limit_ms is not None,
        gaps=n,
        stalled=stalled,
        share=stalled / n,
        time_share=stalled_us / total_us if total_us else None,
    )
