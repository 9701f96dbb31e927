"""Bytes of a metrics page to samples: Prometheus' text format and OpenMetrics, and whatever else comes back instead.

Only the lines of metrics that are wanted are parsed, one by one as samples: a page of vLLM has 600 lines of which a
hundred are of use, and a line that nobody reads must not cost the scrape. Comments are left aside, since a mapping says what
a metric is; so repeated or contradicting families do no harm. Exemplars are cut off before the parser sees them.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

_SAMPLE = re.compile(
    r"""[ \t]*(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
        [ \t]*(?P<labels>\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?
        [ \t]*(?P<rest>[^#\s{][^#]*)(?:\#.*)?""",
    re.VERBOSE,
)

_NAME = re.compile(r"[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t{]")

_SHOWN = 60
"""Characters of a page that a message quotes."""


class Series(NamedTuple):
    """One sample line."""

    name: str
    """With colons as underscores, see :func:`plain_name`."""
    labels: dict[str, str]
    value: float


class Exposition(NamedTuple):
    """What of a page could be read."""

    series: list[Series]
    names: frozenset[str]
    """All metric names on the page, wanted or not, as they are written."""
    error: str | None = None
    """Why nothing could be read, as one line."""


def plain_name(name: str) -> str:
    """``vllm:num_requests_running`` as ``vllm_num_requests_running``.

    Collectors that pass metrics on write it so: a colon is for recording rules.
    """
    return name.replace(":", "_")


def read_exposition(page: bytes, wanted: Collection[str] | None = None) -> Exposition:
    """The samples of a page; never raises for what is on it.

    Args:
        page: The body of the answer, whole (whether it is whole is known from HTTP framing, not from here).
        wanted: Sample names, with suffixes, as :func:`plain_name` writes them; ``None`` for all.
    """
    text = page.decode("utf-8", errors="replace").removeprefix("\ufeff")
    names: set[str] = set()
    lines: list[tuple[int, str]] = []
    # Not splitlines: a label may hold any of the further characters that it takes for line ends.
    for number, line in enumerate(text.split("\n"), 1):
        match = _NAME.match(line)
        if match is None:
            continue
        names.add(match[1])
        if wanted is None or plain_name(match[1]) in wanted:
            lines.append((number, line.rstrip("\r")))
    if not names or text.lstrip()[:1] in ("<", "{", "["):
        return Exposition([], frozenset(), _not_metrics(text))
    series = []
    for number, line in lines:
        found = _read_line(line)
        if found is None:
            return Exposition([], frozenset(names), f"line {number} is no sample of a metrics page: {_quoted(line)}")
        series.append(found)
    return Exposition(series, frozenset(names))


def _read_line(line: str) -> Series | None:
    match = _SAMPLE.fullmatch(line)
    if match is None:
        return None
    try:
        sample = next(
            sample
            for family in text_string_to_metric_families(f"{match['name']}{match['labels'] or ''} {match['rest']}")
            for sample in family.samples
        )
        return Series(plain_name(sample.name), dict(sample.labels), float(sample.value))
    except (ValueError, StopIteration, OverflowError):
        return None


def _not_metrics(text: str) -> str:
    start = text.lstrip()
    if not start:
        return "the page is empty"
    if start.startswith("<"):
        title = re.search(r"<title[^>]*>\s*([^<]*?)\s*</title", start, re.IGNORECASE)
        return "a web page, not metrics" + (f": {_quoted(title[1])}" if title and title[1] else "")
    if start[0] in "{[":
        return f"JSON, not metrics: {_quoted(start)}"
    if all(line.startswith("#") or not line.strip() for line in start.split("\n")):
        return "a metrics page without a single sample"
    return f"not a metrics page: {_quoted(start)}"


def _quoted(text: str) -> str:
    shown = " ".join("".join(char if char.isprintable() else " " for char in text[: 2 * _SHOWN]).split())
    return f"'{shown[:_SHOWN]}...'" if len(shown) > _SHOWN else f"'{shown}'"
