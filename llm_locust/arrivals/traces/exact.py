"""Numbers and dates as text to integers, exactly: no float comes between a time in a file and its nanoseconds.

Columns are read for all rows of a block at once, a character position at a time. What is not plainly written (a sign, an
exponent, a quote, white space) is left to the functions that read one cell.
"""

from __future__ import annotations

import datetime
import re
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from llm_locust.records import NS_PER_S

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NS_DIGITS = 9
"""Decimal digits of a second in nanoseconds."""

FIRST_YEAR, LAST_YEAR = 1678, 2261
"""Whole years whose nanoseconds an int64 holds."""

_MOST = 2**63 - 1
_MOST_DIGITS = 19
"""Decimal digits of the largest int64; no number of so many digits overflows an int64 unseen: it turns negative."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_DATE = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d+))? ?(Z|[+-]\d\d(?::?\d\d)?)?", re.ASCII | re.IGNORECASE
)
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()


def number(text: str, digits: int) -> int | None:
    """``text`` times ``10 ** digits``, further digits cut off (downwards); ``None`` when it is not a finite number.

    Raises:
        OverflowError: it does not fit an int64.
    """
    found = _scaled(text, digits)
    return None if found is None else found[0]


def whole_number(text: str) -> int | None:
    """``text`` as an integer, also if written ``472.0``; ``None`` when it is no whole number.

    Raises:
        OverflowError: it does not fit an int64.
    """
    found = _scaled(text, 0)
    return None if found is None or found[1] else found[0]


def _scaled(text: str, digits: int) -> tuple[int, bool] | None:
    """The number times ``10 ** digits`` and whether anything was cut off."""
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        return None
    value = Decimal(text)
    if not value:
        return 0, False
    # Judged by its size first: the power of ten of 1e999999999 must not be written out.
    if value.adjusted() + digits >= _MOST_DIGITS:
        raise OverflowError(text)
    sign, figures, exponent = value.as_tuple()
    if value.adjusted() + digits < 0:
        return -sign, True
    assert isinstance(exponent, int)  # it is a string for NaN and infinity only
    coefficient = int("".join(map(str, figures))) * (-1 if sign else 1)
    shift: int = exponent + digits
    scaled, rest = (coefficient * 10**shift, 0) if shift >= 0 else divmod(coefficient, 10**-shift)
    if abs(scaled) > _MOST:
        raise OverflowError(text)
    return scaled, rest != 0


def date_ns(text: str) -> int | None:
    """An ISO 8601 date and time in Unix nanoseconds, below which digits are cut; without an offset it is UTC.

    ``None`` when it is no such date.
    """
    found = _DATE.fullmatch(text.strip())
    if found is None:
        return None
    year, month, day, hour, minute, second = map(int, found.group(1, 2, 3, 4, 5, 6))
    zone = found.group(8) or "Z"
    try:
        days = datetime.date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        return None
    if not FIRST_YEAR <= year <= LAST_YEAR or hour > 23 or minute > 59 or second > 59:
        return None
    offset_s = 0
    if zone not in "Zz":
        if int(zone[1:3]) > 23:
            return None
        zone_minutes = int(zone[1:3]) * 60 + int(zone[3:].lstrip(":") or 0)
        offset_s = zone_minutes * 60 * (-1 if zone[0] == "-" else 1)
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset_s
    return seconds * NS_PER_S + int((found.group(7) or "0")[:NS_DIGITS].ljust(NS_DIGITS, "0"))


def numbers(text: Bytes, starts: Ints, ends: Ints, digits: int) -> tuple[Ints, Flags]:
    """Every cell ``text[starts:ends]`` times ``10 ** digits``, and which cells were plain digits with at most a point.

    The value of a cell that was not plain means nothing.
    """
    widths = ends - starts
    value = np.zeros(len(starts), np.int64)
    decimals = np.zeros(len(starts), np.int64)
    point = np.zeros(len(starts), np.bool_)
    plain = widths > 0
    for at in range(min(int(widths.max(initial=0)), _MOST_DIGITS + 1)):
        char, inside = _characters(text, starts, widths, at)
        digit = char - np.uint8(48)  # wraps around: everything but a digit is above 9
        is_digit = inside & (digit < 10)
        is_point = inside & (char == 46)
        plain &= ~inside | is_digit | (is_point & ~point)
        value = np.where(is_digit, value * 10 + digit, value)
        decimals += is_digit & point
        point |= is_point
    written = widths - point
    plain &= (written > 0) & (written <= _MOST_DIGITS) & (decimals <= digits)
    scale = 10 ** np.where(plain, digits - decimals, 0)
    plain &= (value >= 0) & (value <= _MOST // scale)
    return value * np.where(plain, scale, 0), plain


def dates_ns(text: Bytes, starts: Ints, ends: Ints) -> tuple[Ints, Flags]:
    """Every cell, an ISO 8601 date and time in UTC, in Unix nanoseconds, and which cells were plain.

    Plain is ``YYYY-MM-DD hh:mm:ss``, perhaps with up to nine decimals, perhaps with ``Z`` or ``+00:00``.
    """
    widths = ends - starts
    plain = (widths >= 19) & (widths <= 35)
    parts = np.zeros((6, len(starts)), np.int64)
    for at, form in enumerate("0000-11-22 33:44:55"):
        char, _ = _characters(text, starts, widths, at)
        if form.isdigit():
            digit = char - np.uint8(48)
            plain &= digit < 10
            parts[int(form)] = parts[int(form)] * 10 + digit
        else:
            plain &= (char == ord(form)) | ((char == ord("T")) if form == " " else False)
    year, month, day, hour, minute, second = parts
    plain &= (
        (year >= FIRST_YEAR)
        & (year <= LAST_YEAR)
        & (month >= 1)
        & (month <= 12)
        & (day >= 1)
        & (hour <= 23)
        & (minute <= 59)
        & (second <= 59)
    )
    months = np.where(plain, (year - 1970) * 12 + month - 1, 0).astype("M8[M]")
    dates = months.astype("M8[D]") + np.where(plain, day - 1, 0)
    plain &= dates.astype("M8[M]") == months  # 31 June is in July
    seconds = dates.astype(np.int64) * 86_400 + hour * 3600 + minute * 60 + second
    fraction, place = _fractions(text, starts, widths, plain)
    zone = text[starts[:, None] + np.minimum(place[:, None] + np.arange(6), np.maximum(widths - 1, 0)[:, None])]
    left = widths - place
    utc = (left == 0) | ((left == 1) & (zone[:, 0] == ord("Z")))
    utc |= (left == 6) & (zone == np.frombuffer(b"+00:00", np.uint8)).all(axis=1)
    return np.where(plain, seconds, 0) * NS_PER_S + fraction, plain & utc


def _fractions(text: Bytes, starts: Ints, widths: Ints, plain: Flags) -> tuple[Ints, Ints]:
    """The nanoseconds after the nineteenth character, and where in the cell they end; a point without digits stays."""
    char, inside = _characters(text, starts, widths, 19)
    reading = plain & inside & (char == ord("."))
    place = np.where(reading, 20, 19)
    value = np.zeros(len(starts), np.int64)
    digits = np.zeros(len(starts), np.int64)
    for at in range(20, 20 + NS_DIGITS):
        char, inside = _characters(text, starts, widths, at)
        digit = char - np.uint8(48)
        reading = reading & inside & (digit < 10)
        value = np.where(reading, value * 10 + digit, value)
        digits += reading
    place = np.where(digits > 0, place + digits, 19)
    return value * 10 ** (NS_DIGITS - digits), place


def _characters(text: Bytes, starts: Ints, widths: Ints, at: int) -> tuple[Bytes, Flags]:
    """The character at one place of every cell, and which cells are that long."""
    return text[np.minimum(starts + at, len(text) - 1)], at < widths
