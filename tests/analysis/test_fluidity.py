"""Deadlines along a stream, by hand: early tokens leave slack, late ones reset, a long silence misses several."""

from __future__ import annotations

import numpy as np
import pytest

from llm_locust.analysis.fluidity import stream_misses


def judged(ttft: float, gaps_ms: list[float], *, first: float = 100.0, each: float = 50.0) -> tuple[int, int]:
    us = np.array([round(gap * 1000) for gap in gaps_ms], np.uint32)
    due, missed = stream_misses(
        np.array([ttft]), us, np.array([0]), np.array([len(us)]), first, np.array([each], dtype=np.float64)
    )
    return int(due[0]), int(missed[0])


@pytest.mark.parametrize(
    ("ttft", "gaps", "due_and_missed"),
    [
        (100, [50, 50, 50], (4, 0)),  # equal to the deadline meets it
        (100, [51, 50], (3, 1)),  # a millisecond late, and the next is due from there
        (40, [110, 50], (3, 0)),  # 60 ms of slack carry a gap of 110
        (40, [111], (2, 1)),
        (100, [20, 80, 50], (4, 0)),  # 30 ms saved by the second token are spent by the third
        (100, [20, 80, 51], (4, 1)),  # ... and gone for the fourth
        (100, [250], (6, 5)),  # five deadlines passed in the silence, and none was met by the token
        (100, [250, 50], (7, 5)),
        (160, [50], (3, 2)),  # 1 + floor(60 / 50) for the first token
        (101, [], (1, 1)),
        (100, [], (1, 0)),
    ],
)
def test_deadlines_by_hand(ttft: float, gaps: list[float], due_and_missed: tuple[int, int]) -> None:
    assert judged(ttft, gaps) == due_and_missed


def test_many_streams_are_judged_as_each_alone() -> None:
    random = np.random.default_rng(7)
    lengths = random.integers(0, 9, 40)
    gaps = [random.integers(1, 120, n).tolist() for n in lengths]
    ttft = random.integers(20, 300, 40)
    us = np.array([gap * 1000 for each in gaps for gap in each], np.uint32)
    at = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    due, missed = stream_misses(ttft.astype(float), us, at, lengths, 100.0, np.full(40, 50.0))
    assert list(zip(due, missed, strict=True)) == [judged(t, g) for t, g in zip(ttft, gaps, strict=True)]
