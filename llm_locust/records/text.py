"""Text from elsewhere (a server, a file name, the command line) made fit for one line of a record, a log or a terminal."""

from __future__ import annotations

_FORMULA = frozenset("=+-@\t\r\n＝＋－＠")
"""What a spreadsheet (or an import filter of one) may take for the beginning of a formula or a command."""

LONGEST = 4_000
"""Characters of any text: no sentence of ours is as long, so what is cut came from elsewhere."""


def one_line(text: str, limit: int = LONGEST) -> str:
    """The text on one line of printable characters, at most ``limit`` of them; a cut shows as ``...``."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= limit else line[: limit - 3] + "..."


def inert_cell(text: str) -> str:
    """The text as a spreadsheet shows it and does nothing: an apostrophe before what it would take for a formula.

    Text that has its apostrophe keeps it as it is, so that writing twice changes nothing.
    """
    begin = text.lstrip(" \u00a0\u200b\ufeff\0")[:1]
    return f"'{text}" if begin in _FORMULA and begin else text
