"""Mapping files: which metrics of an engine are which of our figures. Data, so that an engine is added without code.

::

    engine = "vllm"                       # the name in server.csv and on the command line
    title = "vLLM"
    verified = true                       # held against a real page of this engine
    source = "a page of vLLM 0.32.0"      # what the names were taken from
    prefix = ["vllm:"]                    # metrics by which a page is known

    [replicas]
    engine = ["engine"]                   # labels that tell the engines of one page apart
    copies = ["tp_rank"]                  # labels of series that all say the same: the largest of them counts

    [gauges]
    waiting = "vllm:num_requests_waiting"
    kv_usage = ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"]     # in order of preference

    [counters]
    requests = { sum = ["a_total", "b_total"] }      # the sum of several; all must be there

    [histograms]                                     # seconds; scale is the factor to it
    ttft = { metric = 'first_response_ms{model="m"}', scale = 0.001 }        # only the series with these labels

    [facts]
    kv_cache_size_tokens = { metric = "vllm:cache_config_info", label = "kv_cache_size_tokens" }

Series of other labels are put together as the figure demands: :data:`llm_locust.telemetry.metrics.names.NAMES`. With
``like = "vllm"`` a file takes over all of another one that it does not say itself.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from llm_locust.records import UsageError
from llm_locust.telemetry.metrics.exposition import plain_name
from llm_locust.telemetry.metrics.names import NAMES, Kind

_ENGINES = Path(__file__).parent / "engines"

_SECTIONS: dict[str, Kind] = {"gauges": "gauge", "counters": "counter", "histograms": "histogram"}

_SUFFIXES = ("_bucket", "_sum", "_count")


class _Alternative(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    metric: str | None = None
    sum: list[str] | None = None
    scale: float = 1.0


class _Replicas(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    engine: list[str] = []
    copies: list[str] = []


class _Fact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    metric: str
    label: str


_Entry = str | _Alternative | list[str | _Alternative]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    engine: str
    title: str
    prefix: list[str]
    verified: bool = False
    source: str | None = None
    like: str | None = None
    replicas: _Replicas = _Replicas()
    gauges: dict[str, _Entry] = {}
    counters: dict[str, _Entry] = {}
    histograms: dict[str, _Entry] = {}
    facts: dict[str, _Fact] = {}


class Selector(NamedTuple):
    """Series of one metric: its name as :func:`plain_name` writes it, and labels that they must carry."""

    metric: str
    labels: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        inner = ",".join(f'{name}="{value}"' for name, value in self.labels)
        return f"{self.metric}{{{inner}}}" if inner else self.metric


class Alternative(NamedTuple):
    """One way to a figure: the sum of these metrics, all of which must be there, times a factor."""

    parts: tuple[Selector, ...]
    scale: float = 1.0

    def __str__(self) -> str:
        return " + ".join(map(str, self.parts))


class Mapping(NamedTuple):
    """A mapping file as it was read."""

    engine: str
    title: str
    verified: bool
    prefixes: tuple[str, ...]
    like: str | None
    engine_labels: tuple[str, ...]
    copy_labels: tuple[str, ...]
    figures: dict[str, tuple[Alternative, ...]]
    """By name, in order of preference."""
    facts: dict[str, tuple[str, str]]
    """Labels that hold facts, by name: metric and label."""
    wanted: frozenset[str]
    """Every sample name that is read."""

    def recognises(self, names: frozenset[str]) -> bool:
        """Whether a page with these metric names is of this engine."""
        return any(plain_name(name).startswith(self.prefixes) for name in names)


@cache
def known_engines() -> tuple[str, ...]:
    """The engines that there is a mapping for."""
    return tuple(sorted(path.stem for path in _ENGINES.glob("*.toml")))


@cache
def known_mapping(engine: str) -> Mapping:
    """The mapping of one of the engines that there is one for.

    Raises:
        UsageError: there is none of this name.
    """
    if engine not in known_engines():
        raise UsageError(
            f"no mapping for engine {engine!r}: there are {', '.join(known_engines())}; name a file of your own"
        )
    return load_mapping(_ENGINES / f"{engine}.toml")


def load_mapping(path: Path | str) -> Mapping:
    """Read and check a mapping file.

    Raises:
        UsageError: it is not there, is no TOML, or holds something else; file and key are named.
    """
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"mapping file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"mapping file {path}: not TOML: {error}") from None
    content = _with_taken_over(content, path)
    try:
        file = msgspec.convert(content, _File)
    except msgspec.ValidationError as error:
        raise UsageError(f"mapping file {path}: {_told(error)}") from None
    return _checked(file, path)


def _with_taken_over(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """What the file says on top of what the engine that it is like says."""
    like = content.get("like")
    if like is None:
        return content
    if like not in known_engines():
        raise UsageError(f"mapping file {path}: like = {like!r}: there are {', '.join(known_engines())}")
    base = tomllib.loads((_ENGINES / f"{like}.toml").read_text(encoding="utf-8"))
    for own in ("engine", "title", "prefix", "verified", "source", "like"):
        base.pop(own, None)
    merged = {**base, **content}
    for name, section in base.items():
        if isinstance(section, dict) and isinstance(content.get(name), dict):
            merged[name] = {**section, **content[name]}
    return merged


def _told(error: msgspec.ValidationError) -> str:
    text, _, place = str(error).replace("`", "").partition(" - at ")
    place = place.removeprefix("$").removeprefix(".").replace("[...]", " (one of its entries)")
    return f"{place}: {text[:1].lower() + text[1:]}" if place else text[:1].lower() + text[1:]


def _checked(file: _File, path: Path) -> Mapping:
    if not file.prefix:
        raise UsageError(f"mapping file {path}: prefix: name at least one, by which a page is known")
    figures: dict[str, tuple[Alternative, ...]] = {}
    for section, kind in _SECTIONS.items():
        entries: dict[str, _Entry] = getattr(file, section)
        for name, entry in entries.items():
            place = f"mapping file {path}, {section}.{name}"
            _check_name(name, kind, section, place)
            entries_of = entry if isinstance(entry, list) else [entry]
            if not entries_of:
                raise UsageError(f'{place}: names no metric: write name or name{{label="value"}}')
            figures[name] = tuple(_alternative(one, kind, place) for one in entries_of)
    if not figures:
        raise UsageError(f"mapping file {path}: maps nothing: write [gauges], [counters] or [histograms]")
    facts = {name: (plain_name(fact.metric), fact.label) for name, fact in file.facts.items()}
    return Mapping(
        engine=file.engine,
        title=file.title,
        verified=file.verified,
        prefixes=tuple(plain_name(prefix) for prefix in file.prefix),
        like=file.like,
        engine_labels=tuple(file.replicas.engine),
        copy_labels=tuple(file.replicas.copies),
        figures=figures,
        facts=facts,
        wanted=frozenset([*_sample_names(figures), *(metric for metric, _ in facts.values())]),
    )


def _check_name(name: str, kind: Kind, section: str, place: str) -> None:
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(NAMES)}"
        raise UsageError(f"{place}: no figure is called {name!r}; {hint}")
    if NAMES[name][0] != kind:
        right = next(title for title, of in _SECTIONS.items() if of == NAMES[name][0])
        raise UsageError(f"{place}: {name} is a {NAMES[name][0]}: write it under [{right}], not [{section}]")


def _alternative(given: str | _Alternative, kind: Kind, place: str) -> Alternative:
    if isinstance(given, str):
        given = _Alternative(metric=given)
    if (given.metric is None) == (given.sum is None):
        raise UsageError(f'{place}: write either metric = "..." or sum = ["...", "..."]')
    names = given.sum if given.metric is None else [given.metric]
    if not names:
        raise UsageError(f'{place}: sum names no metric: write sum = ["...", "..."]')
    if not 0 < given.scale < float("inf"):
        raise UsageError(f"{place}: scale must be a positive number, not {given.scale:g}")
    if kind == "histogram" and len(names) > 1:
        raise UsageError(f"{place}: histograms of different metrics cannot be added: name one metric")
    return Alternative(tuple(_selector(name, place) for name in names), given.scale)


def _selector(text: str, place: str) -> Selector:
    """``name{label="value"}`` to its parts, by the parser that reads the pages."""
    try:
        sample = next(s for family in text_string_to_metric_families(f"{text} 0\n") for s in family.samples)
    except (ValueError, StopIteration):
        raise UsageError(f'{place}: {text!r} is no metric: write name or name{{label="value"}}') from None
    return Selector(plain_name(sample.name), tuple(sorted(sample.labels.items())))


def _sample_names(figures: dict[str, tuple[Alternative, ...]]) -> Iterator[str]:
    for name, alternatives in figures.items():
        for alternative in alternatives:
            for part in alternative.parts:
                if NAMES[name][0] == "histogram":
                    yield from (part.metric + suffix for suffix in _SUFFIXES)
                else:
                    yield part.metric
