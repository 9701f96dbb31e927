"""A report as a reader's program sees it: its elements in order, their text, and whether every one is closed."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"meta", "link", "img", "br", "hr", "input"})


@dataclass
class Element:
    tag: str
    attributes: dict[str, str | None]
    text: str = ""
    children: list[Element] = field(default_factory=list)

    def all(self, tag: str, cls: str | None = None) -> list[Element]:
        """Descendants with a tag (and a class), in order."""
        found = []
        for child in self.children:
            if child.tag == tag and (cls is None or cls in (child.attributes.get("class") or "").split()):
                found.append(child)
            found += child.all(tag, cls)
        return found

    def one(self, tag: str, cls: str | None = None) -> Element:
        (found,) = self.all(tag, cls)
        return found

    def cells(self) -> list[list[str]]:
        """The rows of a table's body."""
        body = self.one("tbody")
        return [[" ".join(c.text.split()) for c in row.children if c.tag in ("th", "td")] for row in body.all("tr")]

    def outline(self) -> list[tuple[str, tuple[str, ...]]]:
        """Every element with the names of its attributes."""
        found = [(self.tag, tuple(self.attributes))]
        for child in self.children:
            found += child.outline()
        return found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Element("document", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        closed = self.open.pop()
        assert closed.tag == tag, f"</{tag}> closes <{closed.tag}>"

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.text += data


def read_page(html: str) -> Element:
    """The whole page; fails where an element is closed by another's end."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    (document,) = reader.open
    return document
