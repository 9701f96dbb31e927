"""Text from elsewhere (a server, a file name, the command line) made inert: for a terminal, for Markdown, for a shell.

Written as it is, an escape sequence would move the cursor or set a title, a bidirectional override would let a failure
read as a pass, and ten thousand characters would push the verdict off the screen.
"""

from __future__ import annotations

import re
import shlex

LONGEST = 4_000
"""Characters of any text: no sentence of ours is as long, so what is cut came from elsewhere."""

LONGEST_SENTENCE = 1_000
"""Characters of what is said of one stage."""

LONGEST_NAME = 300
"""Characters of a name or an error; the request records hold no longer errors either."""

_MARKDOWN = re.compile(r"([\\`*_\[\]<#|~&$])")


def one_line(text: str, limit: int = LONGEST) -> str:
    """The text on one line of printable characters, at most ``limit`` of them; a cut shows as ``...``."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= limit else line[: limit - 3] + "..."


def escape(text: str, limit: int = LONGEST) -> str:
    """The text as Markdown that shows it and does nothing, on one line of at most ``limit`` characters, also in a table."""
    return _MARKDOWN.sub(r"\\\1", one_line(text, limit))


def shell_word(argument: str) -> str:
    """One argument as a shell reads it, on one line: what cannot be printed is written as bash and zsh write it."""
    if argument.isprintable():
        return shlex.quote(argument)
    return "$'" + "".join(map(_shell_character, argument)) + "'"


def _shell_character(char: str) -> str:
    if char in "\\'":
        return "\\" + char
    if char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
