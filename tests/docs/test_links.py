"""Links between pages lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, anchors, markdown_pages, prose


def _links(page: Path) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", prose(page))


@pytest.mark.parametrize("page", markdown_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file_and_its_anchor(page: Path) -> None:
    for link in _links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link}: there is no {target}"
        assert target.is_relative_to(ROOT), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{link}: no heading there makes this anchor"


def test_every_page_of_the_documentation_is_reached_from_its_index() -> None:
    reached, open_ = {DOCS / "index.md"}, [DOCS / "index.md"]
    while open_:
        page = open_.pop()
        for link in _links(page):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target.suffix == ".md" and target.exists() and target not in reached:
                reached.add(target)
                open_.append(target)
    assert set(DOCS.rglob("*.md")) <= reached


def test_every_example_file_is_named_on_a_page() -> None:
    said = "\n".join(page.read_text(encoding="utf-8") for page in markdown_pages())
    for path in (DOCS / "examples").iterdir():
        assert path.name == "__pycache__" or path.name in said, path
