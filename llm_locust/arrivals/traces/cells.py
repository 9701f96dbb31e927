"""One value of a trace as text, whatever the file: its integer, or the error that names file, line and field."""

from __future__ import annotations

from llm_locust.arrivals.traces.exact import NS_DIGITS, number, whole_number
from llm_locust.arrivals.traces.lines import TraceFile, shown

MOST_TOKENS = 2**31 - 1
"""What an int32 holds."""

MS_DIGITS = 6
"""Decimal digits of a millisecond in nanoseconds."""

_UNITS = {NS_DIGITS: ("seconds", "milliseconds"), MS_DIGITS: ("milliseconds", "nanoseconds")}
"""A unit, and the one in which a number that is too large for it will have been written."""


def token_count(file: TraceFile, line: int, field: str, text: str) -> int:
    """A count of tokens; ``472.0`` is 472.

    Raises:
        UsageError: it is no whole number, is negative or too large.
    """
    try:
        value = whole_number(text)
    except OverflowError:
        value = MOST_TOKENS + 1
    if value is None:
        raise file.bad(line, f"{field} is {shown(text)}, not a whole number")
    if value < 0:
        raise file.bad(line, f"{field} is {shown(text)}: a length cannot be negative")
    if value > MOST_TOKENS:
        raise file.bad(line, f"{field} is {shown(text)}: more tokens than any request has")
    return value


def time_ns(file: TraceFile, line: int, field: str, text: str, digits: int = NS_DIGITS) -> int:
    """A time in seconds (or, with ``digits`` 6, milliseconds) as nanoseconds, below which digits are cut.

    Raises:
        UsageError: it is no finite number, or too large for its unit.
    """
    unit, smaller = _UNITS[digits]
    try:
        value = number(text, digits)
    except OverflowError:
        raise file.bad(line, f"{field} is {shown(text)}: too large for {unit}; is it in {smaller}?") from None
    if value is None:
        raise file.bad(line, f"{field} is {shown(text)}, not a number of {unit}")
    return value
