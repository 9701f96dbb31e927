"""Numbers and dates become integers exactly, the same a column at a time as one by one."""

from __future__ import annotations

import datetime
from decimal import ROUND_FLOOR, Decimal

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from llm_locust.arrivals.traces.exact import date_ns, dates_ns, number, numbers, whole_number


def column(cells: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The cells one after the other, with commas between."""
    raw = [cell.encode() for cell in cells]
    ends = np.cumsum([len(cell) + 1 for cell in raw]) - 1
    return np.frombuffer(b",".join(raw) + b",", np.uint8), ends - [len(cell) for cell in raw], ends


@pytest.mark.parametrize(
    ("text", "digits", "value"),
    [
        ("0.1", 9, 100_000_000),
        ("0.3", 1, 3),
        (" 7 ", 0, 7),
        ("1700000000.123456789", 9, 1_700_000_000_123_456_789),
        ("0.0000000019", 9, 1),
        ("-0.0000000011", 9, -2),
        ("-1.5", 0, -2),
        ("1.7e9", 0, 1_700_000_000),
        ("1e-30", 9, 0),
        ("-1e-999999999", 9, -1),
        ("9223372036854775807", 0, 2**63 - 1),
        ("0e999999999", 9, 0),
        (".5", 1, 5),
        ("5.", 0, 5),
    ],
)
def test_a_number_is_exact_and_cut_downwards(text: str, digits: int, value: int) -> None:
    assert number(text, digits) == value


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "-Infinity", "1_0", "0x1", "1,5", "1e", "--1", "١", "1 2"])
def test_what_is_no_number_is_none(text: str) -> None:
    assert number(text, 0) is None


@pytest.mark.parametrize("text", ["9223372036854775808", "1e19", "1e999999999"])
def test_a_number_that_does_not_fit_is_an_overflow(text: str) -> None:
    with pytest.raises(OverflowError):
        number(text, 0)


def test_a_whole_number_may_have_a_point() -> None:
    assert [whole_number(text) for text in ("472.0", "4720e-1", "472.5", "x")] == [472, 472, None, None]


NUMBERS = st.one_of(
    st.from_regex(r"[0-9]{1,21}(\.[0-9]{0,12})?", fullmatch=True),
    st.from_regex(r"[-+ .0-9eE]{0,8}", fullmatch=True),
    st.text(max_size=6),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=8), st.sampled_from([0, 6, 9]))
@example(["9223372036854775807", "9223372036854775808", "9999999999999999999", "18446744073709551617"], 0)
@example(["9.223372036854775807", "9223372036.854775808", "9223372036.854775807"], 9)
def test_a_column_reads_as_its_cells_do_or_leaves_them_to_be_read_alone(cells: list[str], digits: int) -> None:
    values, plain = numbers(*column(cells), digits)
    for cell, value, is_plain in zip(cells, values.tolist(), plain.tolist(), strict=True):
        if is_plain:
            assert value == number(cell, digits) == int(Decimal(cell).scaleb(digits).to_integral_value(ROUND_FLOOR))
        elif cell.isascii() and cell.isdigit():
            # Nothing simple is left to the slow way: only what may not fit into 63 bits by its number of digits.
            assert len(cell) + digits > 18


@pytest.mark.parametrize(
    "text",
    [
        "2023-02-29 00:00:00", "2023-13-01 00:00:00", "2023-00-01 00:00:00", "2023-01-00 00:00:00", "2023-01-01 24:00:00",
        "2023-01-01 00:60:00", "2023-01-01 00:00:60", "2023-01-01", "23-01-01 00:00:00", "2023/01/01 00:00:00",
        "2023-01-01 00:00:00.", "2023-01-01 00:00:00 CET", "2023-01-01 00:00:00+99:00", "1677-01-01 00:00:00",
        "2262-01-01 00:00:00", "NaT", "now", "",
    ],
)  # fmt: skip
def test_what_is_no_date_is_none_and_not_plain(text: str) -> None:
    assert date_ns(text) is None
    _, plain = dates_ns(*column(["2023-01-01 00:00:00", text]))
    assert plain.tolist() == [True, False]


EPOCH = datetime.datetime(1970, 1, 1)


@settings(max_examples=300, deadline=None)
@given(
    st.datetimes(datetime.datetime(1678, 1, 1), datetime.datetime(2261, 12, 31)).map(
        lambda at: at.replace(microsecond=0)
    ),
    st.from_regex(r"(\.[0-9]{1,12})?", fullmatch=True),
    st.sampled_from(["", "Z", "+00:00", "+05:30", "-0800", "+01"]),
    st.sampled_from([" ", "T"]),
)
def test_a_date_is_its_nanoseconds_whichever_way_it_is_read(
    at: datetime.datetime, fraction: str, zone: str, between: str
) -> None:
    text = at.isoformat(between) + fraction + zone
    minutes = {"+05:30": 330, "-0800": -480, "+01": 60}.get(zone, 0)
    since = at - EPOCH - datetime.timedelta(minutes=minutes)
    due = (since.days * 86_400 + since.seconds) * 10**9 + int(fraction[1:10].ljust(9, "0") if fraction else 0)
    assert date_ns(text) == due
    values, plain = dates_ns(*column([text, "x"]))
    assert not plain[1]
    assert plain[0] == (zone in ("", "Z", "+00:00") and len(fraction) <= 10)
    if plain[0]:
        assert values[0] == due
