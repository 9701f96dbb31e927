"""Bytes of a metrics page to samples: Prometheus' text format and OpenMetrics, and whatever else comes back instead.

Only the lines of metrics that are wanted are parsed, one by one as samples: a page of vLLM has 600 lines of which some
200 are of use, and a line that nobody reads must not cost the scrape. Comments are left aside, since a mapping says what
a metric is; so repeated or contradicting families do no harm. Exemplars are cut off before the parser sees them.

From one scrape to the next only the numbers change: what stands before them is parsed once and remembered. So a page of vLLM
costs half a millisecond here and not five, as it must where the scraper shares its process with the load.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

_SAMPLE = re.compile(
    r"""[ \t]*(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*+)
        [ \t]*(?P<labels>\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?
        [ \t]*(?P<rest>[^#\s{][^#]*)(?:\#.*)?""",
    re.VERBOSE,
)

_NAME = re.compile(r"[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t{]")

_HEAD = re.compile(r"""[a-zA-Z_:][a-zA-Z0-9_:]*(?:\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?""")
"""Name and labels of a sample line, without anything around them."""

_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
"""Values as pages write them nearly always; ``NaN``, ``+Inf`` and whatever else take the way through the parser."""

HEADS = 32_768
"""Heads of lines that are remembered: of a page of vLLM some 200 for each engine, in all some 25 MB at the very most."""

LINES_AT_A_TIME = 100
"""Lines read before others have their turn: 0.2 ms, or 2.5 ms when their heads were never seen before."""

_SHOWN = 60
"""Characters of a page that a message quotes."""


class Series(NamedTuple):
    """One sample line."""

    name: str
    """With colons as underscores, see :func:`plain_name`."""
    labels: dict[str, str]
    """Shared with the same series of other pages: not to be changed."""
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


def read_exposition(
    page: bytes, wanted: Collection[str] | None = None, pause: Callable[[], object] = lambda: None
) -> Exposition:
    """The samples of a page; never raises for what is on it.

    Args:
        page: The body of the answer, whole (whether it is whole is known from HTTP framing, not from here).
        wanted: Sample names, with suffixes, as :func:`plain_name` writes them; ``None`` for all.
        pause: Called every so many lines, to let others have their turn.
    """
    text = page.decode("utf-8", errors="replace").removeprefix("\ufeff")
    names: set[str] = set()
    lines: list[tuple[int, str]] = []
    # Not splitlines: a label may hold any of the further characters that it takes for line ends.
    for number, line in enumerate(text.split("\n"), 1):
        if number % (10 * LINES_AT_A_TIME) == 0:  # finding the name costs a tenth of reading the line
            pause()
        match = _NAME.match(line)
        if match is None:
            continue
        names.add(match[1])
        if wanted is None or plain_name(match[1]) in wanted:
            lines.append((number, line.rstrip("\r")))
    if not names or text.lstrip()[:1] in ("<", "{", "["):
        return Exposition([], frozenset(), _not_metrics(text))
    series = []
    for place, (number, line) in enumerate(lines, 1):
        if place % LINES_AT_A_TIME == 0:
            pause()
        found = _read_known(line) or _read_line(line)
        if found is None:
            return Exposition([], frozenset(names), f"line {number} is no sample of a metrics page: {_quoted(line)}")
        series.append(found)
    return Exposition(series, frozenset(names))


def _read_known(line: str) -> Series | None:
    """The same as :func:`_read_line` for a plain line, by its remembered head; ``None`` for any other line."""
    head, _, number = line.rpartition(" ")
    if _NUMBER.fullmatch(number) is None or math.isinf(value := float(number)):
        return None
    known = _head(head)
    return None if known is None else Series(known[0], known[1], value)


@lru_cache(maxsize=HEADS)
def _head(text: str) -> tuple[str, dict[str, str]] | None:
    """Name and labels; ``None`` when the text is anything but these two."""
    if _HEAD.fullmatch(text) is None:
        return None
    series = _read_line(f"{text} 0")
    return None if series is None else (series.name, series.labels)


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
        value = float(sample.value)
    except (ValueError, StopIteration, OverflowError):
        return None
    if sample.name != match["name"]:  # the parser takes whatever stands before a brace
        return None
    return Series(plain_name(sample.name), dict(sample.labels), value)


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
