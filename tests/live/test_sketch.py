"""A sketch's percentiles against the nearest-rank ones of the same values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_locust.analysis.quantiles import nearest_rank as rank_of_the_merge
from llm_locust.live.sketch import ERROR, LARGEST, PENDING, SMALLEST, Sketch, nearest_rank

SLACK = 1 + 1e-9
"""Of floating point, at the very edge of a bucket."""

magnitudes = st.floats(math.log10(SMALLEST), math.log10(LARGEST)).map(lambda exponent: 10**exponent)
values = st.one_of(st.just(0.0), magnitudes, magnitudes.map(lambda value: -value))
samples = st.lists(st.one_of(values, st.sampled_from([0.0, 1.0, 20.0, 20.0001])), min_size=1, max_size=60)
percents = st.integers(1, 100)


def exact(among: list[float], percent: int) -> float:
    return sorted(among)[-(-percent * len(among) // 100) - 1]


def assert_within(found: float | None, true: float, error: float = ERROR) -> None:
    assert found is not None
    assert abs(found - true) <= error * abs(true) * SLACK + (SMALLEST if abs(true) <= SMALLEST else 0.0)


@settings(max_examples=60)
@given(samples, percents)
def test_every_percentile_is_within_the_error_of_the_nearest_rank_one(among: list[float], percent: int) -> None:
    sketch = Sketch()
    for value in among:
        sketch.add(value)
    assert_within(sketch.percentile(percent), exact(among, percent))


@settings(max_examples=60)
@given(samples, samples, percents)
def test_merged_sketches_know_what_one_of_all_values_knows(one: list[float], other: list[float], percent: int) -> None:
    first, second, both = Sketch(), Sketch(), Sketch()
    first.add_many(np.array(one))
    second.add_many(np.array(other))
    both.add_many(np.array(one + other))
    first.merge(second)
    assert first.percentile(percent) == both.percentile(percent)
    assert (first.count, first.max) == (both.count, both.max)
    assert first.mean == pytest.approx(both.mean, rel=1e-12, abs=1e-12 * sum(map(abs, one + other)))
    assert second.count == len(other)


@settings(max_examples=60)
@given(samples, st.integers(0, 4), percents)
def test_folding_doubles_the_error_each_time(among: list[float], folds: int, percent: int) -> None:
    sketch = Sketch()
    sketch.add_many(np.array(among))
    folded = sketch.folded(folds)
    assert folded.error == pytest.approx(ERROR * 2**folds, rel=0.01)
    assert_within(folded.percentile(percent), exact(among, percent), folded.error)
    born_folded = Sketch(folds)
    born_folded.add_many(np.array(among))
    assert born_folded.percentile(percent) == folded.percentile(percent)


@pytest.mark.parametrize(
    "among",
    [
        np.random.default_rng(1).lognormal(3, 2, 20_000),
        np.random.default_rng(2).pareto(0.5, 20_000) + 1e-3,
        np.concatenate([np.full(9_500, 1.0), np.full(500, 60_000.0)]),
        np.concatenate([np.zeros(5_000), np.random.default_rng(3).exponential(1e-3, 5_000)]),
        -np.random.default_rng(4).lognormal(0, 3, 9_999),
    ],
    ids=["lognormal", "heavy tail", "two values", "mostly zero", "negative"],
)
def test_many_values_of_wild_distributions(among: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    among = np.clip(among, -LARGEST, LARGEST)
    sketch = Sketch()
    for part in np.array_split(among, 37):
        sketch.add_many(part)
    for percent, found in zip((1, 50, 95, 99, 100), sketch.percentiles((1, 50, 95, 99, 100)), strict=True):
        assert_within(found, exact(among.tolist(), percent))
    assert sketch.max == among.max()
    assert sketch.count == len(among)


def test_count_mean_and_greatest_are_exact() -> None:
    sketch = Sketch()
    for value in (3.0, 0.0, 1.5):
        sketch.add(value)
    assert (sketch.count, sketch.mean, sketch.max) == (3, 1.5, 3.0)
    assert sketch.percentiles((34, 100)) == [pytest.approx(1.5, rel=ERROR), 3.0]


def test_no_values_have_no_percentile() -> None:
    sketch = Sketch()
    assert sketch.percentiles((50, 99)) == [None, None]
    assert (sketch.count, sketch.mean, sketch.max) == (0, None, None)
    sketch.merge(Sketch())
    assert sketch.folded(2).percentile(50) is None


def test_its_size_is_bounded_whatever_comes() -> None:
    sketch = Sketch()
    everything = np.geomspace(1e-300, 1e300, 5_000)
    sketch.add_many(np.concatenate([-everything, everything, [0.0]]))
    assert sketch.count == 10_001
    assert len(sketch._counts) == 6_911  # two signs of 3,455 buckets, and 0
    assert sketch.percentile(99) == pytest.approx(LARGEST, rel=ERROR)


def test_values_wait_no_longer_than_there_is_room() -> None:
    seen: list[int] = []
    sketch = Sketch(beside=lambda values: seen.append(len(values)))
    for _ in range(PENDING + 1):
        sketch.add(1.0)
    assert seen == [PENDING]
    assert sketch.count == PENDING + 1
    assert seen == [PENDING, 1]


def test_sketches_of_other_folds_do_not_mix() -> None:
    with pytest.raises(ValueError, match="1 folds"):
        Sketch().merge(Sketch(1))


@settings(max_examples=50)
@given(percents, st.integers(1, 10**6))
def test_ranks_are_those_of_the_merge(percent: int, n: int) -> None:
    assert nearest_rank(percent, n) == rank_of_the_merge(percent, n)
