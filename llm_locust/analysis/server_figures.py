"""A stage as its server saw it: counters, histograms and gauges of the samples around the measurement window.

Counters and histograms are taken from the last sample before the window to the first after it, since pages are only read now
and then; so they may hold a little more than the window. What a server observes when a request ends (vLLM: queue time, end
to end) is of the requests that ended then, not of the batch that arrived. Replicas that are targets of their own add up;
where one of them was not read, there is no sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from llm_locust.analysis.histograms import add_histograms, bucket_percentile, counter_delta, histogram_delta
from llm_locust.analysis.server_series import (
    HOLE_INTERVALS,
    Series,
    added,
    gauge_series,
    longest_hole,
    scrape_interval,
    series_trend,
    span_means_of,
)
from llm_locust.analysis.words import number
from llm_locust.records import NS_PER_S
from llm_locust.records.evidence import StageTelemetry
from llm_locust.records.figures import InFlightTrend
from llm_locust.records.gates import PERCENTS
from llm_locust.records.server_figures import BucketPercentile, ServerFigures
from llm_locust.records.server_sample import COUNTER_COLUMNS, HISTOGRAM_COLUMNS, CumulativeHistogram, ServerSample

SAME_PROCESS_S = 1.0
"""Start times of one process that differ by less are one: engines compute them from a clock that is being set."""


T = TypeVar("T")


class _Target(NamedTuple):
    """One address and what was read there."""

    name: str
    read: list[ServerSample]
    """In order of time."""
    failed: list[ServerSample]
    around: list[ServerSample]
    """From the last before the window to the first after it; empty when one of the two is missing."""
    why_not: str | None
    """Why there are none."""
    resets: list[bool]
    """For each of ``around`` but the first."""
    mixed: str | None
    """Why counters of this address mean nothing, when several processes answer there."""


class _NoFigure(Exception):
    """There is no figure; the text says why."""


def server_figures(
    samples: Sequence[ServerSample],
    window: tuple[int, int],
    *,
    arrivals: int | None = None,
    interval_s: float | None = None,
) -> ServerFigures:
    """The figures of one window (or of a whole run) from all samples of the run.

    Args:
        samples: Of all targets, in any order.
        window: Start and end in Unix nanoseconds on the master's clock, half open.
        arrivals: Requests offered inside the window, by which a trend is told from noise; ``None``: no trends.
        interval_s: The scrape interval; ``None`` to take the usual time between samples.
    """
    start_ns, end_ns = window
    names = sorted({sample.target for sample in samples})
    targets = [_target(name, [s for s in samples if s.target == name], start_ns, end_ns) for name in names]
    inside = [sample for sample in samples if start_ns <= sample.at_ns < end_ns]
    read = [sample for target in targets for sample in target.read]
    around = [target.around for target in targets if target.around]
    found = _Found(targets, start_ns, (end_ns - start_ns) / NS_PER_S, arrivals, interval_s)
    counters = {name: found.asked(name, partial(found.counter, name)) for name in COUNTER_COLUMNS}
    percentiles = found.percentiles()
    hit_rate = found.asked("prefix_cache_hit_rate", found.hit_rate)
    running, waiting = (found.gauge(name) for name in ("running", "waiting"))
    kv_peak = found.asked("kv_cache_peak_pct", found.kv_peak)
    kv_mean = found.asked("kv_cache_mean_pct", found.kv_mean)
    return ServerFigures(
        targets=names,
        engines=sorted({sample.engine for sample in read if sample.engine is not None}),
        verified=bool(read) and all(sample.verified is True for sample in read),
        samples=sum(sample.error is None for sample in inside),
        failed_scrapes=sum(sample.error is not None for sample in inside),
        stopped=[said for target in targets if (said := _stopped(target, start_ns, end_ns)) is not None],
        counters_from_ns=min((samples[0].at_ns for samples in around), default=None),
        counters_to_ns=max((samples[-1].at_ns for samples in around), default=None),
        resets=sum(sum(target.resets) for target in targets),
        running_peak=running.peak,
        running_mean=running.mean,
        running_trend=running.trend,
        waiting_peak=waiting.peak,
        waiting_mean=waiting.mean,
        waiting_trend=waiting.trend,
        kv_cache_peak_pct=kv_peak,
        kv_cache_mean_pct=kv_mean,
        prefix_cache_hit_rate=hit_rate,
        preemptions=_whole(counters["preemptions"]),
        evictions=_whole(counters["evictions"]),
        rejections=_whole(counters["rejections"]),
        requests=_whole(counters["requests"]),
        prompt_tokens=_whole(counters["prompt_tokens"]),
        generation_tokens=_whole(counters["generation_tokens"]),
        percentiles=percentiles,
        reasons=found.reasons,
        notes=[*_reset_notes(targets), *found.notes],
    )


def stage_telemetry(figures: ServerFigures) -> StageTelemetry:
    """The figures in the form that an evidence record takes.

    A percentile in the last bucket has no value there: that it is above the bound is in ``figures`` alone.
    """
    queue = figures.percentiles.get("queue_time_p95_ms")
    return StageTelemetry(
        queue_time_p95_ms=queue.value_ms if queue is not None else None,
        running_peak=figures.running_peak,
        running_trend=figures.running_trend.state if figures.running_trend is not None else None,
        waiting_peak=figures.waiting_peak,
        waiting_trend=figures.waiting_trend.state if figures.waiting_trend is not None else None,
        kv_cache_peak_pct=None if figures.kv_cache_peak_pct is None else min(100.0, figures.kv_cache_peak_pct),
        prefix_cache_hit_rate=figures.prefix_cache_hit_rate,
        preemptions=figures.preemptions,
        evictions=figures.evictions,
    )


def _target(name: str, samples: list[ServerSample], start_ns: int, end_ns: int) -> _Target:
    samples = sorted(samples, key=lambda sample: sample.at_ns)
    read = [sample for sample in samples if sample.error is None]
    failed = [sample for sample in samples if sample.error is not None]
    first = max((k for k, sample in enumerate(read) if sample.at_ns <= start_ns), default=None)
    last = next((k for k, sample in enumerate(read) if sample.at_ns >= end_ns), None)
    why_not = None
    if not read:
        why_not = f"no page of {name} could be read" + (f": {failed[-1].error}" if failed else "")
    elif first is None:
        why_not = f"{name} was not read before the window"
    elif last is None:
        into = (read[-1].at_ns - start_ns) / NS_PER_S
        of = (end_ns - start_ns) / NS_PER_S
        error = next((f": {sample.error}" for sample in failed if sample.at_ns > read[-1].at_ns), "")
        why_not = f"{name} was not read after the window; the last page came at {number(into)} of {number(of)} s{error}"
    around = read[first : last + 1] if first is not None and last is not None else []
    resets = [_started_over(a, b) for a, b in pairwise(around)]
    return _Target(name, read, failed, around, why_not, resets, _mixed(name, around, resets))


def _stopped(target: _Target, start_ns: int, end_ns: int) -> str | None:
    """That an address answered no more at the end of the window, nor when it was asked next; ``None`` when it did."""
    ending = [sample for sample in target.failed if start_ns <= sample.at_ns < end_ns]
    begun = [sample.at_ns for sample in target.read if sample.at_ns < end_ns]
    if not ending or (begun and begun[-1] > ending[-1].at_ns):
        return None
    later = sorted((s for s in (*target.read, *target.failed) if s.at_ns >= end_ns), key=lambda sample: sample.at_ns)
    if later and later[0].error is None:  # one page that was missed
        return None
    first = next(sample for sample in ending if not begun or sample.at_ns > begun[-1])
    if not begun or begun[-1] < start_ns:
        return f"{target.name} did not answer in the window: {first.error}"
    into, of = (begun[-1] - start_ns) / NS_PER_S, (end_ns - start_ns) / NS_PER_S
    return f"{target.name} stopped answering; its last page came at {number(into)} of {number(of)} s: {first.error}"


def _started_over(before: ServerSample, after: ServerSample) -> bool:
    """Whether counting started over: another process, or any counter that fell (then all of them did)."""
    starts = (before.process_start_s, after.process_start_s)
    if starts[0] is not None and starts[1] is not None and abs(starts[0] - starts[1]) >= SAME_PROCESS_S:
        return True
    for name in COUNTER_COLUMNS:
        a, b = getattr(before, name), getattr(after, name)
        if a is not None and b is not None and b < a:
            return True
    for name in HISTOGRAM_COLUMNS:
        a, b = getattr(before, name), getattr(after, name)
        if a is not None and b is not None and b.count < a.count:
            return True
    return False


def _mixed(name: str, around: list[ServerSample], resets: list[bool]) -> str | None:
    """Several processes behind one address show: an old one comes back, or counters keep falling."""
    seen: list[float] = []
    for sample in around:
        start = sample.process_start_s
        if start is None or (seen and abs(seen[-1] - start) < SAME_PROCESS_S):
            continue
        if any(abs(earlier - start) < SAME_PROCESS_S for earlier in seen):
            return f"different processes answer in turn at {name}: ask each replica at an address of its own"
        seen.append(start)
    if not seen and sum(resets) > 1:
        return (
            f"the counters at {name} fell {sum(resets)} times: it restarts over and over, or several replicas answer there "
            "(ask each at an address of its own)"
        )
    return None


class _Gauge(NamedTuple):
    peak: int | None = None
    mean: float | None = None
    trend: InFlightTrend | None = None


class _Found:
    """Figures one by one; where there is none, the reason is kept under its name."""

    def __init__(
        self, targets: list[_Target], start_ns: int, seconds: float, arrivals: int | None, interval_s: float | None
    ) -> None:
        self._targets = targets
        self._start_ns = start_ns
        self._seconds = seconds
        self._arrivals = arrivals
        self._interval_s = interval_s
        self.reasons: dict[str, str] = {}
        self.notes: list[str] = []

    def asked(self, name: str, figure: Callable[[], T]) -> T | None:
        """The figure, or its reason kept."""
        try:
            return figure()
        except _NoFigure as reason:
            self.reasons[name] = str(reason)
            return None

    def counter(self, name: str) -> float:
        """How much a counter rose, all targets together."""
        deltas = []
        for target in self._counted():
            self._ask_exported(target, name)
            delta = counter_delta([getattr(sample, name) for sample in target.around], target.resets)
            assert delta is not None  # told before and after the window
            deltas.append(delta)
        return sum(deltas)

    def hit_rate(self) -> float:
        """Hits / queries."""
        hits, queries = self.counter("prefix_cache_hits"), self.counter("prefix_cache_queries")
        if queries == 0:
            raise _NoFigure("no token was looked up in the prefix cache")
        if hits > queries:
            raise _NoFigure(f"more tokens found ({number(hits)}) than looked up ({number(queries)})")
        return hits / queries

    def percentiles(self) -> dict[str, BucketPercentile]:
        """Of every histogram that was exported."""
        found = {}
        for name in HISTOGRAM_COLUMNS:
            histogram = self.asked(name, partial(self._histogram, name))
            if histogram is None:
                continue
            for percent in PERCENTS:
                percentile = bucket_percentile(histogram, percent)
                if percentile is None:
                    self.reasons[name] = "nothing was observed"
                    break
                found[f"{name}_p{percent}_ms"] = percentile
        return found

    def gauge(self, name: str) -> _Gauge:
        """Peak, mean and trend of a gauge that adds up over targets."""
        series = self.asked(name, partial(self._added, name))
        if series is None:
            return _Gauge()
        return _Gauge(
            peak=round(float(series.within(self._seconds).values.max())),
            mean=self.asked(f"{name}_mean", partial(self._level, name, series)),
            trend=self.asked(f"{name}_trend", partial(self._trend, series)),
        )

    def kv_peak(self) -> float:
        """Of the fullest engine, x 100."""
        each = (series.within(self._seconds).values for series in self._each("kv_usage_max"))
        return max(float(values.max()) for values in each) * 100

    def kv_mean(self) -> float:
        """Of all engines, x 100; a target with more engines weighs more."""
        means = [float(span_means_of(one, self._seconds, 1)[0]) for one in self._each("kv_usage_mean")]
        weights = [max(len(sample.kv_usage or "?") for sample in target.read) for target in self._targets]
        return float(np.average(means, weights=weights)) * 100

    def _counted(self) -> list[_Target]:
        if not self._targets:
            raise _NoFigure("no server was asked")
        for target in self._targets:
            if target.why_not is not None:
                raise _NoFigure(target.why_not)
            if target.mixed is not None:
                raise _NoFigure(target.mixed)
        return self._targets

    def _ask_exported(self, target: _Target, name: str) -> None:
        if all(getattr(sample, name) is None for sample in target.read):
            engine = next((sample.engine for sample in target.read if sample.engine is not None), None)
            raise _NoFigure(f"{target.name}{f' ({engine})' if engine else ''} does not export it")
        for sample, when in ((target.around[0], "before"), (target.around[-1], "after")):
            if getattr(sample, name) is None:
                raise _NoFigure(f"{target.name} did not export it {when} the window")

    def _histogram(self, name: str) -> CumulativeHistogram:
        deltas = []
        for target in self._counted():
            self._ask_exported(target, name)
            delta = histogram_delta([getattr(sample, name) for sample in target.around], target.resets)
            if delta is None:
                raise _NoFigure(f"the buckets of {target.name} changed")
            deltas.append(delta)
        total = add_histograms(deltas)
        if total is None:
            raise _NoFigure("the targets have no bucket in common")
        return total

    def _each(self, name: str) -> list[Series]:
        """The readings of a gauge inside the window (and beside it, for means), of every target."""
        if not self._targets:
            raise _NoFigure("no server was asked")
        found = []
        for target in self._targets:
            if not target.read:
                raise _NoFigure(target.why_not or "it was not read")
            series = gauge_series(target.read, name, self._start_ns)
            if len(series.at) == 0:
                self._ask_exported(target, name)
            if len(series.within(self._seconds).at) == 0:
                raise _NoFigure(f"no page of {target.name} was read inside the window")
            found.append(series)
        return found

    def _added(self, name: str) -> Series:
        for target in self._targets:
            if target.mixed is not None:
                raise _NoFigure(target.mixed)
        each = self._each(name)
        series = added(each, self._interval(each))
        if len(series.within(self._seconds).at) == 0:
            raise _NoFigure("the targets were never read at the same time")
        return series

    def _interval(self, each: Sequence[Series]) -> float:
        return self._interval_s or scrape_interval(each) or self._seconds

    def _level(self, name: str, series: Series) -> float:
        """The mean, unless too much of the window was not seen."""
        hole, interval = longest_hole(series, self._seconds), self._interval([series])
        if hole > HOLE_INTERVALS * interval:
            text = f"not read for {number(hole)} of {number(self._seconds)} s of the window"
            self.notes.append(f"{name}: {text}; its peak is of the rest.")
            raise _NoFigure(text)
        return round(float(span_means_of(series, self._seconds, 1)[0]), 6)

    def _trend(self, series: Series) -> InFlightTrend:
        if self._arrivals is None:
            raise _NoFigure("the number of arrivals, which tells a trend from noise, is not known")
        found = series_trend(series, self._seconds, self._arrivals)
        if found is None:
            inside = len(series.within(self._seconds).at)
            raise _NoFigure(f"{inside} samples are too few: some span of the window holds none")
        return found


def _reset_notes(targets: Sequence[_Target]) -> list[str]:
    notes = []
    for target in targets:
        times = sum(target.resets)
        if times and target.mixed is None:
            often = "once" if times == 1 else f"{times} times"
            notes.append(
                f"{target.name} started over {often} around the window; what it counted just before is not in the figures."
            )
    return notes


def _whole(count: float | None) -> int | None:
    return None if count is None else round(count)
