"""The search for the capacity boundary: up the ladder, then between the last pass and the first fail."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_locust.analysis.search import BoundarySearch
from llm_locust.records.summary import Result


def run(search: BoundarySearch, judge: Callable[[float], Result], at_most: int = 200) -> list[float]:
    """Every rate that was tried, in order."""
    tried: list[float] = []
    while (rate := search.next_rate()) is not None:
        assert len(tried) < at_most, f"no end: {tried[-5:]}"
        tried.append(rate)
        search.tell(rate, judge(rate))
    return tried


def up_to(capacity_rps: float) -> Callable[[float], Result]:
    return lambda rate: "pass" if rate <= capacity_rps else "fail"


def scripted(*results: Result) -> Callable[[float], Result]:
    left = list(results)
    return lambda rate: left.pop(0)


def boundary(search: BoundarySearch) -> tuple[float | None, float | None]:
    return search.last_pass_rps, search.first_fail_rps


def test_the_ladder_is_climbed_and_the_gap_halved_until_it_is_as_small_as_asked() -> None:
    search = BoundarySearch([1, 2, 4], resolution=0.2)
    # sqrt(2 x 4) = 2.83 passes, sqrt(2.83 x 4) = 3.36 fails: 3.36 / 2.83 is 1.19.
    assert run(search, up_to(3.0)) == [1, 2, 4, 2.83, 3.36]
    assert boundary(search) == (2.83, 3.36)


def test_a_ladder_in_any_order_is_climbed_from_below_and_each_rung_once() -> None:
    assert run(BoundarySearch([4, 1, 2, 1], resolution=1.0), up_to(8.0)) == [1, 2, 4]


def test_a_ladder_that_passes_whole_has_no_first_fail() -> None:
    search = BoundarySearch([1, 2])
    assert run(search, up_to(100.0)) == [1, 2]
    assert boundary(search) == (2, None)


def test_a_single_rate_is_doubled_until_it_fails() -> None:
    search = BoundarySearch([1.5], resolution=1.0)
    assert run(search, up_to(7.0)) == [1.5, 3.0, 6.0, 12.0]
    assert boundary(search) == (6.0, 12.0)


def test_no_rung_above_the_first_that_fails_is_tried() -> None:
    assert max(run(BoundarySearch([1, 2, 4, 8, 16], resolution=0.5), up_to(2.5))) == 4


def test_when_the_lowest_rung_fails_it_is_halved_until_something_passes_and_then_narrowed() -> None:
    search = BoundarySearch([8, 16], resolution=0.5)
    assert run(search, up_to(3.0)) == [8, 4, 2, 2.83]
    assert boundary(search) == (2.83, 4)


@pytest.mark.parametrize("lowest", [1.0, 3.0, 7.0, 0.1])
def test_a_service_that_fails_at_a_sixty_fourth_is_not_searched_further(lowest: float) -> None:
    search = BoundarySearch([lowest, 2 * lowest])
    tried = run(search, lambda rate: "fail")
    assert len(tried) == 7
    assert tried[0] == lowest
    assert tried[-1] == pytest.approx(lowest / 64, rel=0.01)
    assert boundary(search)[0] is None


@pytest.mark.parametrize("nothing", ["undetermined", "invalid", "not_run"])
def test_a_result_that_says_nothing_is_asked_for_once_more(nothing: Result) -> None:
    search = BoundarySearch([1, 2], resolution=1.0)
    assert run(search, scripted("pass", nothing, "fail")) == [1, 2, 2]
    assert boundary(search) == (1, 2)


def test_a_rate_that_says_nothing_twice_ends_the_search_with_what_is_known() -> None:
    search = BoundarySearch([1, 2, 4])
    assert run(search, scripted("pass", "undetermined", "invalid")) == [1, 2, 2]
    assert boundary(search) == (1, None)


def test_every_rate_may_say_nothing_once() -> None:
    search = BoundarySearch([1, 2], resolution=1.0)
    assert run(search, scripted("undetermined", "pass", "invalid", "fail")) == [1, 1, 2, 2]


def test_a_rate_that_failed_in_one_round_has_failed() -> None:
    search = BoundarySearch([1, 2])
    search.tell(1, "pass")
    search.tell(2, "pass")
    search.tell(2, "fail")
    for result in ("pass", "undetermined"):
        search.tell(2, result)
        assert boundary(search) == (1, 2)


def test_a_rate_that_passed_in_one_round_and_fails_in_the_next_has_failed() -> None:
    search = BoundarySearch([1])
    for result in ("pass", "pass", "fail"):
        search.tell(1, result)
    assert boundary(search) == (None, 1)


def test_the_search_ends_after_so_many_results_whatever_they_were() -> None:
    search = BoundarySearch([1], resolution=1e-9, most_stages=5)
    assert len(run(search, up_to(3.3))) == 5
    assert boundary(search) == (2.83, 3.36)


def test_a_pass_above_a_fail_is_no_pass() -> None:
    search = BoundarySearch([1, 2, 4])
    for rate, result in ((1.0, "pass"), (4.0, "pass"), (2.0, "fail")):
        search.tell(rate, result)
    assert boundary(search) == (1, 2)


def test_rates_between_are_such_as_can_be_said() -> None:
    tried = run(BoundarySearch([1, 3], resolution=0.01), up_to(math.pi / 2))
    assert all(rate == float(f"{rate:.3g}") for rate in tried)


@pytest.mark.parametrize("rates", [[], [0.0], [-1.0], [1.0, math.inf], [math.nan]])
def test_a_search_begins_with_rates(rates: list[float]) -> None:
    with pytest.raises(ValueError, match="greater than 0"):
        BoundarySearch(rates)


@given(
    capacity_rps=st.floats(0.02, 900.0),
    ladder=st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0, 8.0, 20.0]), min_size=1, max_size=6),
    resolution=st.sampled_from([0.02, 0.1, 0.5]),
)
def test_whatever_the_capacity_the_last_interval_holds_it(
    capacity_rps: float, ladder: Sequence[float], resolution: float
) -> None:
    search = BoundarySearch(ladder, resolution=resolution, most_stages=100)
    tried = run(search, up_to(capacity_rps))
    assert len(tried) == len(set(tried))  # exact results need no second look
    passing, failing = boundary(search)
    assert passing is None or passing <= capacity_rps
    assert failing is None or failing > capacity_rps
    if failing is None:  # only a ladder of several rungs ends without having failed
        assert len(set(ladder)) > 1
        assert passing == max(ladder)
    elif passing is None:
        assert capacity_rps < min(ladder) / 60
    else:
        assert failing / passing - 1 <= resolution
