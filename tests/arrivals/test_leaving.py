"""Users who leave: written as a share and a moment, drawn by seed and index alone."""

from __future__ import annotations

import pytest

from llm_locust.arrivals import leaves
from llm_locust.records import Outcome, UsageError, leaving_text, left_as_planned
from llm_locust.records.leaving import Leaving, parse_leaving


@pytest.mark.parametrize(
    ("text", "leaving"),
    [
        ("share=0.1,after=2s", Leaving(share=0.1, after_s=2.0)),
        ("share=0.1,after=1.5m", Leaving(share=0.1, after_s=90.0)),
        ("after=0.5, share=1", Leaving(share=1.0, after_s=0.5)),
        ("share=0.25,tokens=20", Leaving(share=0.25, after_events=20)),
    ],
)
def test_a_plan_is_a_share_and_a_time_or_a_number_of_tokens(text: str, leaving: Leaving) -> None:
    assert parse_leaving(text) == leaving
    assert parse_leaving(str(leaving)) == leaving


@pytest.mark.parametrize(
    "text",
    ["", "0.1", "share=0.1", "after=2s", "share=0.1,after=2s,tokens=3", "share=2,after=1s", "share=0,after=1s",
     "share=x,after=1s", "share=0.1,after=-1s", "share=0.1,tokens=1.5", "share=0.1,share=0.2,after=1s",
     "share=nan,after=1s", "share=0.1,when=2"],
)  # fmt: skip
def test_any_other_plan_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--cancel"):
        parse_leaving(text)


def leavers(share: float, seed: int = 1, count: int = 10_000) -> set[int]:
    plan = Leaving(share=share, after_s=1.0)
    return {index for index in range(count) if leaves(plan, seed, index)}


def test_the_share_holds_on_average() -> None:
    assert abs(len(leavers(0.1)) - 1000) < 120  # four standard deviations of a binomial of 10,000 draws


def test_the_draw_is_a_fixed_function_of_seed_and_index() -> None:
    assert leavers(0.1, count=60) == {11, 12, 39, 48, 54, 56, 57, 58}  # another set would be another load
    assert leavers(0.1) != leavers(0.1, seed=2)
    assert leavers(0.1) < leavers(0.2)


def test_a_share_of_one_is_everybody() -> None:
    assert len(leavers(1.0, count=1000)) == 1000


def test_a_row_says_that_its_user_left_as_planned_and_nothing_else_reads_so() -> None:
    said = leaving_text("2 s")
    assert said == "left as --cancel planned, after 2 s"
    assert left_as_planned(Outcome.CANCELLED, said)
    assert left_as_planned("cancelled", said)
    assert not left_as_planned(Outcome.STREAM_ERROR, said)  # the server's own words
    assert not left_as_planned(Outcome.CANCELLED, "interrupted")
    assert not left_as_planned(Outcome.CANCELLED, None)
