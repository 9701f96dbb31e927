"""Pieces of Markdown: cells, tables, and text taken over from docstrings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

NOTE = "<!-- Written by `make docs` from the code. Change the code, not this page. -->\n"


def page(title: str, intro: str, *parts: str) -> str:
    """A whole page."""
    return "\n\n".join([f"# {title}", NOTE.strip(), intro.strip(), *(part.strip() for part in parts if part)]) + "\n"


def section(title: str, *parts: str, level: int = 2) -> str:
    """A heading and what stands under it."""
    return "\n\n".join([f"{'#' * level} {title}", *(part.strip() for part in parts if part)])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are Markdown already."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)


def text(said: str | None) -> str:
    """Plain text, or text of a docstring, as a cell: one line, and nothing in it that Markdown would take for its own."""
    if not said:
        return ""
    said = re.sub(r":(?:func|class|data|attr|mod|meth):`~?([^`]+)`", lambda found: f"``{_last(found[1])}``", said)
    for ours, in_a_file in (("None", "null"), ("True", "true"), ("False", "false")):
        said = said.replace(f"``{ours}``", f"``{in_a_file}``")
    pieces = re.split(r"``(.+?)``", " ".join(said.split()))
    return "".join(code(piece) if place % 2 else _inert(piece) for place, piece in enumerate(pieces))


def code(said: str) -> str:
    """Text as it is typed."""
    if not said:
        return ""
    said = " ".join(said.split()).replace("|", "\\|")
    return f"`` {said} ``" if "`" in said else f"`{said}`"


def codes(said: Iterable[str]) -> str:
    """Several of them."""
    return ", ".join(map(code, said))


def _last(name: str) -> str:
    return name.rpartition(".")[2] if name.startswith("llm_locust.") else name


def _inert(piece: str) -> str:
    return re.sub(r"([|<>*_\\\[\]])", r"\\\1", piece)
