"""Numbers in sentences never flatter."""

from __future__ import annotations

import pytest

from llm_locust.analysis.words import counts, number, percent, round_mark, with_round


@pytest.mark.parametrize(
    ("share", "down", "up"),
    [
        (0.975, "97.5 %", "97.5 %"),
        (0.94999, "94.99 %", "95 %"),
        (0.010001, "1 %", "1.01 %"),
        (0.29, "29 %", "29 %"),
        (1.0, "100 %", "100 %"),
        (0.0, "0 %", "0 %"),
        (None, "-", "-"),
    ],
)
def test_shares_are_cut_or_raised_never_rounded(share: float | None, down: str, up: str) -> None:
    assert percent(share) == down
    assert percent(share, up=True) == up


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        ("inf", "inf"),
        (0.0, "0"),
        (500.0, "500"),
        (33.33333, "33.33"),
        (0.0123456, "0.01235"),
        (12345.6, "12346"),
    ],
)
def test_numbers_have_four_digits_and_whole_parts_in_full(value: float | str | None, text: str) -> None:
    assert number(value) == text


def test_counts_name_the_commonest_first() -> None:
    assert counts({"timeout": 1, "ok": 80, "empty": 1}) == "80 ok, 1 empty, 1 timeout"


def test_people_count_rounds_from_1_and_the_first_needs_no_name() -> None:
    assert [with_round("2 req/s", k) for k in range(3)] == ["2 req/s", "2 req/s, round 2", "2 req/s, round 3"]
    assert [round_mark(k) for k in range(3)] == [None, "r2", "r3"]
