"""Lengths of time are written in the same words wherever one is asked for."""

from __future__ import annotations

import pytest

from llm_locust.records import UsageError
from llm_locust.records.durations import parse_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("90s", 90.0), (" 1.5 m ", 90.0), ("2h", 7200.0), (".5", 0.5), ("3.", 3.0)],
)
def test_seconds_minutes_and_hours(text: str, seconds: float) -> None:
    assert parse_seconds(text, "--to") == seconds


@pytest.mark.parametrize("text", ["", "m", "5 min", "1d", "-1", "1e3", "nan", "1m30s", "9" * 400])
def test_other_words_are_refused_by_the_name_of_the_option(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--to"):
        parse_seconds(text, "--to")


def test_zero_is_a_place_and_no_length() -> None:
    assert parse_seconds("0s", "--from", allow_zero=True) == 0.0
    with pytest.raises(UsageError, match="--duration 0m: must be greater than 0"):
        parse_seconds("0m", "--duration")
