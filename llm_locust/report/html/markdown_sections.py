"""The sections of ``report.md`` as HTML: what is said there in full is said here in the same words, from one place.

Text from elsewhere is escaped in the Markdown already; here HTML in Markdown is off besides, and nothing becomes a link.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

TABLE_OPENS = '<div class="scroll" tabindex="0" role="region" aria-label="table">\n<table>\n'
"""A wide table scrolls in its own box, also by keyboard."""


class Part(NamedTuple):
    """What stands under one third-level heading, or before the first of them."""

    title: Markup | None
    body: Markup


class Section(NamedTuple):
    """What stands under one second-level heading."""

    title: Markup
    name: str
    """For the address within the page."""
    parts: list[Part]


def sections(markdown: str) -> list[Section]:
    """The second-level sections of a report, in order; what comes before the first is left out."""
    parser = _parser()
    tokens = parser.parse(markdown)
    found: list[Section] = []
    for heading, body in _cut(tokens, "h2"):
        if heading is None:
            continue
        title = _inline(parser, heading)
        parts = [
            Part(None if of is None else _inline(parser, of), _html(parser, rest)) for of, rest in _cut(body, "h3")
        ]
        kept = [part for part in parts if part.title is not None or part.body.strip()]
        found.append(Section(title, slug(heading.content), kept))
    return found


def slug(text: str) -> str:
    """``run-it-again``."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["link", "image", "autolink", "linkify"])
    parser.add_render_rule("table_open", lambda self, *_: TABLE_OPENS)
    parser.add_render_rule("table_close", lambda self, *_: "</table>\n</div>\n")
    parser.add_render_rule("th_open", _header_cell)
    return parser


def _header_cell(self: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    tokens[at].attrSet("scope", "col")
    return str(self.renderToken(tokens, at, options, env))


def _cut(tokens: Sequence[Token], tag: str) -> list[tuple[Token | None, list[Token]]]:
    """The tokens under each heading of a level, with the inline token of that heading; ``None`` before the first."""
    found: list[tuple[Token | None, list[Token]]] = [(None, [])]
    skip = 0
    for at, token in enumerate(tokens):
        if skip:
            skip -= 1
        elif token.type == "heading_open" and token.tag == tag:
            found.append((tokens[at + 1], []))
            skip = 2  # its text and its end
        else:
            found[-1][1].append(token)
    return found


def _inline(parser: MarkdownIt, token: Token) -> Markup:
    return Markup(parser.renderer.render([token], parser.options, {}))


def _html(parser: MarkdownIt, tokens: Sequence[Token]) -> Markup:
    return Markup(parser.renderer.render(list(tokens), parser.options, {}))
