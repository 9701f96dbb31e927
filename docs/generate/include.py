"""Example files on pages: after ``<!-- file: NAME -->`` stands a block with the file as it is in ``docs/examples/``."""

from __future__ import annotations

import re
from pathlib import Path

from docs.generate.source import ROOT

DOCS = ROOT / "docs"
LANGUAGES = {".py": "python", ".toml": "toml", ".conf": "nginx"}
_MARKED = re.compile(r"(<!-- file: (\S+) -->)(?:\n```\w*\n.*?\n```)?", re.DOTALL)


def with_files(page: str) -> str:
    """A page with its example files as they are now."""
    return _MARKED.sub(lambda found: f"{found[1]}\n{_block(DOCS / 'examples' / found[2])}", page)


def pages_with_files() -> list[Path]:
    """Pages that show example files."""
    return [path for path in sorted(DOCS.rglob("*.md")) if "<!-- file: " in path.read_text(encoding="utf-8")]


def _block(path: Path) -> str:
    return f"```{LANGUAGES[path.suffix]}\n{path.read_text(encoding='utf-8').rstrip()}\n```"
