"""A metrics page as figures: which engine it is of, and its gauges, counters and histograms under our names.

Nothing here opens a socket. ``read_page(body)`` never raises for what a server sent: what could not be read is said in
``error``, what of it could not be used in ``notes``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from llm_locust.analysis.histograms import add_histograms
from llm_locust.records.server_sample import COUNTER_COLUMNS, HISTOGRAM_COLUMNS, CumulativeHistogram, ServerSample
from llm_locust.telemetry.metrics.exposition import Series, plain_name, read_exposition
from llm_locust.telemetry.metrics.mapping import Alternative, Mapping, Selector, known_engines, known_mapping
from llm_locust.telemetry.metrics.names import NAMES, Join


class NormalisedPage(msgspec.Struct, frozen=True, kw_only=True):
    """What a page said. A name that is missing was not said."""

    engine: str | None = None
    """The mapping that read it; ``None`` when none fits."""
    verified: bool = False
    error: str | None = None
    """Why there is nothing, as one line."""
    values: dict[str, float] = {}
    """Gauges and counters by name, all engines together."""
    by_engine: dict[str, dict[str, float]] = {}
    """Gauges by name and engine; one that gives itself no name is ``""``."""
    histograms: dict[str, CumulativeHistogram] = {}
    facts: dict[str, str] = {}
    """What the engine says of its settings, where all engines of the page say the same."""
    sources: dict[str, str] = {}
    """The metrics behind each figure."""
    notes: list[str] = []
    """What was there and could not be used."""


def detect(page: bytes) -> Mapping | None:
    """The mapping that fits a page best, by its metrics' prefixes; ``None`` when none does."""
    return _best(read_exposition(page, wanted=()).names)


def read_page(
    page: bytes, mapping: Mapping | None = None, pause: Callable[[], object] = lambda: None
) -> NormalisedPage:
    """Read a page.

    Args:
        page: The body of a 200, whole.
        mapping: The one to read it by; ``None`` to find out at every page (better remember what :func:`detect`
            said at the first).
        pause: Called every quarter of a millisecond or so, to let others have their turn.
    """
    if mapping is None:
        found = read_exposition(page, (), pause)
        if found.error is not None:
            return NormalisedPage(error=found.error)
        mapping = _best(found.names)
        if mapping is None:
            known = ", ".join(known_mapping(engine).title for engine in known_engines())
            return NormalisedPage(error=f"metrics of no engine that there is a mapping for ({known})")
    exposition = read_exposition(page, mapping.wanted, pause)
    error = exposition.error
    if error is None and not exposition.series:
        error = f"none of the {len(exposition.names)} metrics on the page is one of {mapping.title}"
    if error is not None:
        return NormalisedPage(engine=mapping.engine, verified=mapping.verified, error=error)
    return _Reader(mapping, exposition.series, pause).page()


def server_sample(page: NormalisedPage, *, at_ns: int, target: str, scrape_ms: float | None = None) -> ServerSample:
    """The row of ``server.csv`` for a page that was read.

    Args:
        page: What it said, or why it said nothing.
        at_ns: When its first byte came, on the master's clock.
        target: The address that was asked, without credentials.
        scrape_ms: From asking to the last byte.
    """
    kv_usage = page.by_engine.get("kv_usage")
    counters: dict[str, Any] = {name: page.values.get(name) for name in COUNTER_COLUMNS}
    histograms: dict[str, Any] = {name: page.histograms.get(name) for name in HISTOGRAM_COLUMNS}
    return ServerSample(
        at_ns=at_ns,
        target=target,
        engine=page.engine,
        verified=page.verified if page.engine is not None else None,
        error=page.error,
        scrape_ms=scrape_ms,
        process_start_s=page.values.get("process_start_s"),
        running=page.values.get("running"),
        waiting=page.values.get("waiting"),
        kv_usage=kv_usage,
        kv_usage_max=max(kv_usage.values()) if kv_usage else None,
        kv_usage_mean=math.fsum(kv_usage.values()) / len(kv_usage) if kv_usage else None,
        **counters,
        **histograms,
    )


def _best(names: frozenset[str]) -> Mapping | None:
    fitting = [m for m in map(known_mapping, known_engines()) if m.recognises(names)]
    # One that is like another is the narrower of the two: it has a mark of its own.
    narrower = {m.like for m in fitting}
    fitting = [m for m in fitting if m.engine not in narrower]
    return max(fitting, key=lambda m: sum(plain_name(name).startswith(m.prefixes) for name in names), default=None)


_Cells = dict[tuple[str, float], float]
"""Of one histogram: values by suffix and, of a bucket, its bound."""


class _Labels(NamedTuple):
    """A set of labels that can be a key."""

    pairs: tuple[tuple[str, str], ...]

    @staticmethod
    def of(labels: dict[str, str]) -> _Labels:
        return _Labels(tuple(sorted(labels.items())))

    def without(self, names: Sequence[str]) -> _Labels:
        return _Labels(tuple(pair for pair in self.pairs if pair[0] not in names))


class _Reader:
    """Puts the series of one page together by one mapping."""

    def __init__(self, mapping: Mapping, series: Sequence[Series], pause: Callable[[], object]) -> None:
        self._mapping = mapping
        self._pause = pause
        self._by_name: dict[str, list[Series]] = {}
        for one in series:
            self._by_name.setdefault(one.name, []).append(one)
        self._notes: list[str] = []

    def page(self) -> NormalisedPage:
        values: dict[str, float] = {}
        by_engine: dict[str, dict[str, float]] = {}
        histograms: dict[str, CumulativeHistogram] = {}
        sources: dict[str, str] = {}
        for name, alternatives in self._mapping.figures.items():
            kind, join = NAMES[name]
            chosen = next((a for a in alternatives if self._has(a, histogram=kind == "histogram")), None)
            if chosen is None:
                continue
            if kind == "histogram":
                self._pause()
                histogram = self._histogram(chosen)
                if histogram is not None:
                    histograms[name], sources[name] = histogram, str(chosen)
                continue
            engines = self._engines(chosen, join)
            if engines:
                values[name], sources[name] = _joined(engines.values(), join), str(chosen)
                if kind == "gauge" or name not in COUNTER_COLUMNS:
                    by_engine[name] = engines
        return NormalisedPage(
            engine=self._mapping.engine,
            verified=self._mapping.verified,
            values=values,
            by_engine=by_engine,
            histograms=histograms,
            facts=self._facts(),
            sources=sources,
            notes=self._notes,
        )

    def _has(self, alternative: Alternative, *, histogram: bool) -> bool:
        suffix = "_bucket" if histogram else ""
        return all(self._select(part, suffix) for part in alternative.parts)

    def _select(self, part: Selector, suffix: str = "") -> list[Series]:
        return [
            one
            for one in self._by_name.get(part.metric + suffix, ())
            if all(one.labels.get(name) == value for name, value in part.labels)
        ]

    def _engine(self, labels: dict[str, str]) -> str:
        return "/".join(labels[name] for name in self._mapping.engine_labels if name in labels)

    def _engines(self, alternative: Alternative, join: Join) -> dict[str, float]:
        """The value of each engine; nothing when a part of a sum is not a number, for the rest would not be the whole."""
        found: dict[str, float] = {}
        for part in alternative.parts:
            series = self._select(part)
            sound = [one for one in series if math.isfinite(one.value)]
            if len(sound) < len(series):
                self._notes.append(f"{part}: {len(series) - len(sound)} of {len(series)} series hold no number")
                if join == "sum":
                    return {}
            for engine, values in self._without_copies(sound, add=join == "sum").items():
                found[engine] = found.get(engine, 0.0) + (math.fsum(values) if join == "sum" else max(values))
        return {engine: value * alternative.scale for engine, value in found.items()}

    def _without_copies(self, series: Iterable[Series], *, add: bool) -> dict[str, list[float]]:
        """The values of each engine's series; of those that say the same (other ranks, ...) only the largest.

        Two series with the very same labels are of two processes whose pages were put together: counts of them add up.
        """
        same: dict[_Labels, list[float]] = {}
        for one in series:
            same.setdefault(_Labels.of(one.labels), []).append(one.value)
        largest: dict[_Labels, float] = {}
        for labels, values in same.items():
            apart = labels.without(self._mapping.copy_labels)
            value = math.fsum(values) if add else max(values)
            largest[apart] = max(largest.get(apart, value), value)
        engines: dict[str, list[float]] = {}
        for labels, value in largest.items():
            engines.setdefault(self._engine(dict(labels.pairs)), []).append(value)
        return engines

    def _histogram(self, alternative: Alternative) -> CumulativeHistogram | None:
        (part,) = alternative.parts
        cells: dict[_Labels, _Cells] = {}
        for suffix in ("_bucket", "_sum", "_count"):
            for one in self._select(part, suffix):
                of = cells.setdefault(_Labels.of(one.labels).without(("le",)), {})
                cell = (suffix, _bound(one.labels.get("le")) if suffix == "_bucket" else 0.0)
                of[cell] = of.get(cell, 0.0) + one.value
        largest: dict[_Labels, CumulativeHistogram] = {}
        for labels, of in cells.items():
            histogram = _cumulative(of, alternative.scale)
            if histogram is None:
                self._notes.append(f"{part}: its buckets are not those of a histogram")
                return None
            apart = labels.without(self._mapping.copy_labels)
            if apart not in largest or largest[apart].count < histogram.count:
                largest[apart] = histogram
        total = add_histograms(list(largest.values()))
        if total is None:
            self._notes.append(f"{part}: its series have no bucket in common")
        return total

    def _facts(self) -> dict[str, str]:
        found = {}
        for name, (metric, label) in self._mapping.facts.items():
            said = {one.labels[label] for one in self._by_name.get(metric, ()) if label in one.labels}
            if len(said) == 1:
                found[name] = said.pop()
        return found


def _joined(values: Iterable[float], join: Join) -> float:
    known = list(values)
    if join == "sum":
        return math.fsum(known)
    return math.fsum(known) / len(known) if join == "mean" else max(known)


def _bound(text: str | None) -> float:
    try:
        return math.nan if text is None else float(text)
    except ValueError:
        return math.nan


def _cumulative(cells: _Cells, scale: float) -> CumulativeHistogram | None:
    """The buckets of one series in order; ``None`` when they are not those of a cumulative histogram."""
    buckets = sorted((bound, n) for (suffix, bound), n in cells.items() if suffix == "_bucket")
    # NaN has no place in an order, so it is looked for apart.
    if any(math.isnan(bound) or not math.isfinite(n) for bound, n in buckets):
        return None
    finite = [(bound, n) for bound, n in buckets if bound < math.inf]
    count = cells.get(("_bucket", math.inf), cells.get(("_count", 0.0)))
    if not finite or count is None or not math.isfinite(count):
        return None
    counts = [0.0, *(n for _, n in finite), count]
    if any(b < a for a, b in pairwise(counts)):
        return None
    total = cells.get(("_sum", 0.0))
    return CumulativeHistogram(
        # A scaled bound is written with 12 digits: 70 * 0.001 is not 0.07 in floating point.
        le=tuple(float(f"{bound * scale:.12g}") for bound, _ in finite),
        n=tuple(counts[1:-1]),
        count=count,
        sum=total * scale if total is not None and math.isfinite(total) else None,
    )
