"""Texts that turn a figure into a number of users. Requests in flight are not people, and no record says that they are."""

from __future__ import annotations

import re

_WHO = r"(?:users?|people|persons|customers?|subscribers?|employees|seats)"
_MANY = (
    r"(?:\d[\d.,_]*\s*(?:k|m|thousand|million)?|(?:a|one|two|several|many)\s+(?:dozen|hundred|thousand|million)"
    r"|(?:dozens|hundreds|thousands|millions)\s+of)"
)
# Up to two words may stand between ("500 concurrent users"), but none that starts another thought ("8 slots for users").
_WORD = r"(?!(?:per|for|by|with|from|to|and|or|in|on|at|as|not)\b)[a-z-]+\s+"

_STATED = rf"{_MANY}[\s-]+(?:{_WORD}){{0,2}}?{_WHO}"
_ASSIGNED = rf"{_WHO}\s*(?:[:=~≈]|served|supported)+\s*(?:up to\s+)?\d[\d.,_]*"

_CLAIM = re.compile(rf"(?<![\w.])(?:{_STATED}|{_ASSIGNED})(?![\w-])", re.IGNORECASE)

_FIELD = re.compile(
    r"(?:^|_)(?:users|user_(?:count|number)|people|persons|customers|subscribers|employees|seats)(?:_|$)", re.IGNORECASE
)


def claimed_users(text: str) -> str | None:
    """The words of a text that state a number of users; ``None`` when it states none."""
    found = _CLAIM.search(text)
    return found.group().strip() if found else None


def names_users(field: str) -> bool:
    """Whether a field's name says that it holds users (``concurrent_users``, ``supported_users_max``)."""
    return _FIELD.search(field) is not None
