"""Token gaps as one flat array: percentiles, stalls and their way back to text."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from llm_locust.analysis.gaps import (
    COUNTED_UP_TO_US,
    GapCounts,
    count_gaps,
    gap_percentiles,
    gap_places,
    gap_texts,
    stalls,
)


def counted(*gaps: list[int], chosen: list[bool] | None = None) -> GapCounts:
    counts = np.array([len(each) for each in gaps])
    rows = pd.DataFrame({"gaps_at": gap_places(counts), "gaps_n": counts})
    flat = np.array([gap for each in gaps for gap in each], np.uint32)
    return count_gaps(rows, np.array(chosen or [True] * len(gaps)), flat)


def test_percentiles_are_nearest_rank_over_all_gaps_of_the_chosen_requests() -> None:
    found = gap_percentiles(counted([30_000, 10_000], [], [20_000, 9], [7], chosen=[True, True, True, False]), (50, 95))
    # 9, 10000, 20000, 30000 microseconds: the 2nd and the 4th.
    assert (found[50].value, found[95].value, found[95].n) == (10.0, 30.0, 4)
    assert found[95].at_maximum
    assert found[95].high is None


def test_gaps_of_seconds_and_minutes_count_too() -> None:
    long = COUNTED_UP_TO_US
    counts = counted([long, 3, long + 5, 71 * 60 * 1_000_000])
    assert counts.n == 4
    assert counts.total_us == 2 * long + 8 + 4_260_000_000
    assert counts.over(long) == (2, long + 5 + 4_260_000_000)
    assert [gap_percentiles(counts, (p,))[p].value for p in (25, 50, 75, 100)] == [
        0.003,
        long / 1000,
        (long + 5) / 1000,
        4_260_000.0,
    ]


def test_rows_in_another_order_than_their_gaps_are_counted_the_same() -> None:
    rows = pd.DataFrame({"gaps_at": [3, 0], "gaps_n": [1, 3]})
    counts = count_gaps(rows, np.array([True, False]), np.array([1, 2, 3, 40], np.uint32))
    assert (counts.n, counts.total_us) == (1, 40)


def test_a_stall_is_longer_than_the_chosen_limit() -> None:
    found = stalls(counted([10_000, 50_000, 50_001, 89_999]), 50.0)
    assert found is not None
    assert (found.chosen, found.threshold_ms, found.gaps, found.stalled) == (True, 50.0, 4, 2)
    assert found.share == 0.5
    assert found.time_share == 140_000 / 200_000


def test_without_a_limit_a_stall_is_longer_than_ten_median_gaps() -> None:
    found = stalls(counted([10_000, 10_000, 10_000, 100_000, 100_001]), None)
    assert found is not None
    assert (found.chosen, found.threshold_ms, found.stalled, found.share) == (False, 100.0, 1, 0.2)


def test_without_gaps_nothing_is_said() -> None:
    assert stalls(counted([], []), 50.0) is None
    assert gap_percentiles(counted([]), (95,))[95].value is None


@pytest.mark.parametrize("gaps", [[[0]], [[5, 10, 0, 99, 100]], [[1], [], [1_234_567_890, 7]], [[], []]])
def test_gaps_are_written_as_they_were_read(gaps: list[list[int]]) -> None:
    flat = np.array([gap for each in gaps for gap in each], np.uint32)
    texts = gap_texts(flat, np.array([len(each) for each in gaps]))
    assert texts == [" ".join(map(str, each)) for each in gaps]
