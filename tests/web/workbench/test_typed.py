"""What was typed into a field: blank is null, 0 is 0, and what is no plain number is refused with the reason."""

from __future__ import annotations

import pytest

from llm_locust.records import UsageError
from llm_locust.web.workbench.typed import Fields, Refused, number, text, whole
from tests.web.workbench.asking import COMMA, unit


@pytest.mark.parametrize(
    ("typed", "value"),
    [("0", 0), ("12", 12), (" 1.5 ", 1.5), ("1e-3", 0.001), (".5", 0.5), ("5.", 5.0), ("+2", 2), (7, 7), (0.0, 0.0)],
)
def test_a_plain_number_is_taken_as_it_stands(typed: object, value: float) -> None:
    found = number(typed)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("1,5", f"'1,5' {COMMA}"),
        ("1.500,25", f"'1.500,25' {COMMA}"),
        ("500 ms", unit("500 ms", "500")),
        ("95%", unit("95%", "95")),
        ("1 500", "'1 500' has separators: write the digits alone (1500)"),
        ("abc", "'abc' is not a number"),
        ("nan", "'nan' is not a number"),
        ("٣", "'٣' is not a number"),
        ("1e999", "'1e999' is not a finite number"),
        ("1e16", "'1e16' is out of range: it is a number from -1e+15 to 1e+15"),
        ("9" * 5000, f"'{'9' * 57}...' is too long for a number"),
        (True, "'True' is not a number"),
        ([1], "'[1]' is not a number"),
        ({"a": 1}, "\"{'a': 1}\" is not a number"),
        (float("inf"), "'inf' is not a finite number"),
    ],
)
def test_what_is_no_plain_number_is_refused_with_the_reason(typed: object, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        number(typed)
    assert str(caught.value) == message


def test_a_whole_number_has_no_fraction_and_is_not_below_0() -> None:
    assert whole("100.0") == 100
    with pytest.raises(UsageError, match=r"^'1\.5' is not a whole number$"):
        whole("1.5")
    with pytest.raises(UsageError, match=r"^'-1' is below 0, which it cannot be$"):
        whole("-1")


def test_text_is_one_line_that_can_be_printed() -> None:
    assert text(" two\nlines\u202e\x1b[31m ") == "two lines [31m"
    with pytest.raises(UsageError, match="holds nothing that can be printed"):
        text("\x00")
    with pytest.raises(UsageError, match="is not text"):
        text(5)


def test_every_wrong_field_is_named_at_once_and_blank_ones_are_null() -> None:
    fields = Fields({"a": "1,5", "b": " ", "c": None, "d": "0", "e": "x"}, ("a", "b", "c", "d"))
    assert [fields.read(name, number) for name in "abcd"] == [None, None, None, 0]
    with pytest.raises(Refused) as caught:
        fields.check()
    assert list(caught.value.fields) == ["e", "a"]
    assert caught.value.fields["e"] == "there is no such field"
