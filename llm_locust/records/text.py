"""Text from elsewhere (a server, a file name, the command line) made fit for one line of a record, a log or a terminal."""

from __future__ import annotations

LONGEST = 4_000
"""Characters of any text: no sentence of ours is as long, so what is cut came from elsewhere."""


def one_line(text: str, limit: int = LONGEST) -> str:
    """The text on one line of printable characters, at most ``limit`` of them; a cut shows as ``...``."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= limit else line[: limit - 3] + "..."
