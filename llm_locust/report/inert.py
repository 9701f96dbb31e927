"""Text from elsewhere (a server, a file name, the command line) made inert: for a terminal, for Markdown, for a shell.

Written as it is, an escape sequence would move the cursor or set a title, a bidirectional override would let a failure
read as a pass, and ten thousand characters would push the verdict off the screen.
"""

from __future__ import annotations

import re
import shlex

from llm_locust.records.text import LONGEST, one_line

__all__ = ["LONGEST", "LONGEST_NAME", "LONGEST_SENTENCE", "escape", "one_line", "shell_word"]

LONGEST_SENTENCE = 1_000
"""Characters of what is said of one stage."""

LONGEST_NAME = 300
"""Characters of a name or an error; the request records hold no longer errors either."""

_MARKDOWN = re.compile(r"([\\`*_\[\]<#|~&$])")


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
