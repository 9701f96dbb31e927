"""Markdown pages as the tests of the documentation read them: headings, links, and blocks of commands with their markers.

A block of commands is fenced as ``shell``. What stands as a comment on the line before it says how it is tested::

    <!-- not run: needs vLLM -->        its options are held against the parsers, nothing is started
    <!-- in the background -->          it is started, and goes on while the page's other blocks are run

A page of ``docs/how-to`` is not run at all: it is there to be adapted.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
READMES = [path for path in (ROOT / "README.md", ROOT / "README.zh-CN.md") if path.exists()]


class Block(NamedTuple):
    """One fenced block."""

    page: Path
    line: int
    language: str
    text: str
    marker: str
    """What the comment before it says; empty without one."""

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """Its commands, a continued line as one, without comments."""
        joined = re.sub(r"\\\n\s*", " ", self.text)
        return [line for line in (_without_comment(line).strip() for line in joined.splitlines()) if line]


def _without_comment(line: str) -> str:
    quote = ""
    for place, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "#" and (place == 0 or line[place - 1].isspace()):
            return line[:place]
    return line


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found, lines = [], page.read_text(encoding="utf-8").splitlines()
    start: int | None = None
    for number, line in enumerate(lines):
        if not line.strip().startswith("```"):
            continue
        if start is None:
            start = number
            continue
        before = next((text.strip() for text in reversed(lines[:start]) if text.strip()), "")
        marker = re.fullmatch(r"<!--\s*(.*?)\s*-->", before)
        language = lines[start].strip().removeprefix("```").strip()
        body = "\n".join(lines[start + 1 : number])
        found.append(Block(page, start + 1, language, body, marker[1] if marker else ""))
        start = None
    return found


def prose(page: Path) -> str:
    """The page without its fenced blocks and code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S))


def headings(page: Path) -> list[tuple[int, str]]:
    """Level and text of each heading."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return [(len(found[1]), found[2].strip()) for found in re.finditer(r"^(#{1,6}) (.+)$", text, flags=re.M)]


def anchors(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them of its headings."""
    found: set[str] = set()
    for _, heading in headings(page):
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-")
        again = sum(1 for other in found if re.fullmatch(rf"{re.escape(slug)}(-\d+)?", other))
        found.add(f"{slug}-{again}" if again else slug)
    return found


def markdown_pages() -> list[Path]:
    """Every page that a user reads."""
    own = [ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
    beside = sorted(
        path for folder in ("benchmarks", "docker", "locustfiles") for path in (ROOT / folder).rglob("*.md")
    )
    return [*READMES, *(path for path in own if path.exists()), *sorted(DOCS.rglob("*.md")), *beside]
