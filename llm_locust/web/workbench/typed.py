"""What a person typed into one field, as a value: blank is null, ``0`` is 0, and nothing is guessed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from llm_locust.records import UsageError
from llm_locust.records.text import one_line

MOST = 10**15
"""No number of any field is larger: such a one is a slip."""

_SHOWN = 60
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_SEPARATED = re.compile(r"[+-]?\d[\d.,'_\u00a0\u202f ]*", re.ASCII)
_WITH_UNIT = re.compile(rf"({_NUMBER.pattern})\s*([^\d\s,.][^\d]{{0,20}})", re.ASCII)

Value = TypeVar("Value")


class Refused(Exception):
    """What was typed cannot be used; every field that is wrong is named."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{field}: {message}" for field, message in fields.items()))
        self.fields = dict(fields)


class Fields:
    """The fields of one form, read one by one; what is wrong is collected, so that all of it is told at once."""

    def __init__(self, typed: Mapping[str, Any], known: tuple[str, ...]) -> None:
        """Begin with what was posted.

        Args:
            typed: The values by field: texts as they were typed, or values of JSON.
            known: The fields that the form has.
        """
        self._typed = typed
        self.wrong: dict[str, str] = {
            one_line(name, _SHOWN): "there is no such field" for name in typed if name not in known
        }

    def read(self, name: str, reader: Callable[[Any], Value]) -> Value | None:
        """The value of a field; ``None`` when it is blank, or wrong, which is noted."""
        typed = self._typed.get(name)
        if is_blank(typed):
            return None
        try:
            return reader(typed)
        except UsageError as error:
            self.wrong[name] = str(error)
            return None

    def refuse(self, name: str, why: str) -> None:
        """Note what is wrong with a field, unless something is already."""
        self.wrong.setdefault(name, why)

    def check(self) -> None:
        """Go on only if nothing is wrong.

        Raises:
            Refused: something is.
        """
        if self.wrong:
            raise Refused(self.wrong)


def is_blank(typed: object) -> bool:
    """Nothing was typed."""
    return typed is None or (isinstance(typed, str) and not typed.strip())


def text(typed: object) -> str:
    """One line of text.

    Raises:
        UsageError: it is no text.
    """
    if not isinstance(typed, str):
        raise UsageError(f"{_shown(typed)} is not text")
    line = one_line(typed)
    if not line:
        raise UsageError("it holds nothing that can be printed")
    return line


def number(typed: object, *, least: float = -MOST, most: float = MOST) -> int | float:
    """A plain number: ``12``, ``0.5``, ``1e-3``; whole ones as integers.

    Raises:
        UsageError: it is none, has a decimal comma, separators or a unit, or is out of range.
    """
    found = typed if isinstance(typed, int | float) and not isinstance(typed, bool) else _parsed(typed)
    if isinstance(found, float) and not math.isfinite(found):
        raise UsageError(f"{_shown(typed)} is not a finite number")
    if not least <= found <= most:
        if least >= 0 > found:
            raise UsageError(f"{_shown(typed)} is below 0, which it cannot be")
        raise UsageError(f"{_shown(typed)} is out of range: it is a number from {least:g} to {most:g}")
    return found


def whole(typed: object, *, least: int = 0, most: int = MOST) -> int:
    """A whole number.

    Raises:
        UsageError: it is none, or out of range.
    """
    found = number(typed, least=least, most=most)
    if isinstance(found, float):
        if not found.is_integer():
            raise UsageError(f"{_shown(typed)} is not a whole number")
        found = int(found)
    return found


def _parsed(typed: object) -> int | float:
    if not isinstance(typed, str):
        raise UsageError(f"{_shown(typed)} is not a number")
    line = typed.strip()
    if len(line) > _SHOWN:
        raise UsageError(f"{_shown(line)} is too long for a number")
    if _NUMBER.fullmatch(line):
        return int(line) if line.lstrip("+-").isdigit() else float(line)
    if "," in line and _SEPARATED.fullmatch(line):
        raise UsageError(
            f"{_shown(line)} has a comma: write a decimal point (1.5), and thousands without a separator (1500)"
        )
    if unit := _WITH_UNIT.fullmatch(line):
        raise UsageError(
            f"{_shown(line)} has a unit: write the bare number {unit[1]}; the unit stands beside the field"
        )
    if _SEPARATED.fullmatch(line):
        raise UsageError(f"{_shown(line)} has separators: write the digits alone (1500)")
    raise UsageError(f"{_shown(line)} is not a number")


def _shown(typed: object) -> str:
    return repr(one_line(str(typed), _SHOWN))
