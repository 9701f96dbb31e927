"""A page as HTML text. Whatever it holds is text: made one inert line, then escaped, wherever the template puts it."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from llm_locust.report.html.chart import Key
from llm_locust.report.html.page import Page
from llm_locust.report.html.theme import DASHES, STAND_IN
from llm_locust.report.inert import LONGEST, one_line

_HERE = Path(__file__).parent


def render(page: Page, charts_dir: str) -> str:
    """The whole file.

    Args:
        page: What is on it.
        charts_dir: The folder beside the file that holds the data of the charts.
    """
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=inert,
    )
    template = environment.get_template("report.html.j2")
    css = Markup(palette() + (_HERE / "report.css").read_text(encoding="utf-8"))
    return template.render(page=page, charts_dir=charts_dir, css=css, swatch=swatch)


def palette() -> str:
    """The colours of every page of ours, light and dark, as CSS variables."""
    return (_HERE / "palette.css").read_text(encoding="utf-8")


def inert(value: object) -> object:
    """What the template prints: markup made here stays, any other text becomes one printable line, then to be escaped."""
    return value if isinstance(value, Markup) else one_line(str(value), LONGEST)


def swatch(key: Key) -> Markup:
    """The sample of a line or an area in a legend."""
    if key.role not in STAND_IN:
        raise ValueError(f"no such colour: {key.role}")
    colour = f"var(--c-{key.role})"
    if key.style == "area":
        mark = f'<rect width="26" height="10" rx="2" fill="{colour}"/>'
    elif key.style == "cross":
        mark = f'<path d="M9 1L17 9M17 1L9 9" stroke="{colour}" stroke-width="2"/>'
    elif key.style == "dot":
        mark = f'<circle cx="13" cy="5" r="4" fill="{colour}"/>'
    else:
        dash = f' stroke-dasharray="{DASHES[key.style]}"' if DASHES[key.style] else ""
        mark = f'<path d="M0 5H26" stroke="{colour}" stroke-width="2.4"{dash}/>'
    return Markup('<svg viewBox="0 0 26 10" aria-hidden="true">{}</svg>').format(Markup(mark))
