"""Runs side by side: points lined up, each figure with its difference, and whether a difference is shown at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from llm_locust.analysis.compared_requests import LATENCIES, RunData, Sample, sample_of
from llm_locust.analysis.intervals import (
    bounded,
    difference_of_means,
    difference_of_percentiles,
    difference_of_ratios,
    difference_of_shares,
)
from llm_locust.analysis.judgement import SYNTHETIC
from llm_locust.analysis.points import Point, points
from llm_locust.analysis.quantiles import percentile
from llm_locust.analysis.settings import differing
from llm_locust.records import UsageError
from llm_locust.records.comparison import (
    ComparedFigure,
    ComparedRun,
    Comparison,
    FigureDifference,
    Method,
    PartComparison,
    PointComparison,
    SettingDifference,
)
from llm_locust.records.figures import Figure, Interval
from llm_locust.records.summary import StageSummary

PERCENTS = (50, 95, 99)
FEWEST_IN_PART = 5
"""Requests that a part of a window holds on average: with fewer, parts say more of when requests ended than of the rate."""
METHODS = (
    "Latencies: the bootstrap over the ok requests of all rounds together (20,000 resamples, a fixed seed), 95 %.",
    "Shares: Newcombe's hybrid score interval out of Wilson's.",
    "Rates: batch means, each window in ten parts, Welch's t.",
    "Share of prompt tokens from the cache: the ratio estimator over requests.",
    "All of them take the runs, and the requests or parts in each, to be independent. Requests that share a queue are not "
    "quite that, and no run tells how the same setting differs from day to day: the true intervals are wider.",
    "Of twenty intervals at 95 %, one leaves 0 out by chance.",
)


def compare_runs(runs: Sequence[RunData], allowed: Sequence[str] = ()) -> Comparison:
    """The runs after the first against the first.

    Args:
        runs: At least two, merged.
        allowed: Names of settings that may differ beside the one that is compared.

    Raises:
        UsageError: fewer than two runs, one given twice, settings that differ in more than one thing, or no point in common.
    """
    if len(runs) < 2:
        raise UsageError("a comparison needs at least two runs: llm-locust compare RUN_A RUN_B")
    ids = [run.manifest.run_id for run in runs]
    for run_id in ids:
        if ids.count(run_id) > 1:
            raise UsageError(f"run {run_id} was given twice: there is nothing to compare it with")
    of_runs = [{_key(point): point for point in points(run.summary.stages)} for run in runs]
    common = [key for key in of_runs[0] if all(key in found for found in of_runs)]
    settings = differing(
        [run.manifest for run in runs],
        [run.summary for run in runs],
        points_in_common=bool(common),
        allowed=allowed,
    )
    lined_up, left = _line_up(of_runs, common)
    compared, not_compared = [], left
    for of_point in lined_up:
        point, why = _compare_point(runs, of_point)
        if point is not None:
            compared.append(point)
        not_compared += why
    return Comparison(
        runs=[
            ComparedRun(
                label=_label(place),
                run_id=run.manifest.run_id,
                folder=run.folder,
                started_at=run.manifest.started_at,
                host=run.manifest.host,
                model=run.manifest.model,
                state=run.summary.state,
            )
            for place, run in enumerate(runs)
        ],
        settings=settings,
        compared=_sentence(settings),
        points=compared,
        not_compared=not_compared,
        methods=list(METHODS),
        limitations=_limitations(runs, settings),
    )


def _label(place: int) -> str:
    """``A`` to ``Z``, then numbers."""
    return chr(ord("A") + place) if place < 26 else str(place + 1)


# --- points ------------------------------------------------------------------------------------------------------------

_Key = tuple[Any, ...]


def _key(point: Point) -> _Key:
    stage = point.stages[0]
    return (stage.mode, stage.rate_rps, stage.concurrency, stage.arrivals, stage.condition)


def _line_up(of_runs: list[dict[_Key, Point]], common: list[_Key]) -> tuple[list[list[Point]], list[str]]:
    """The points that belong together, and what is said of the others.

    Where no point is in every run, the load itself is what is compared, and points stand in the order of their runs.

    Raises:
        UsageError: no point is in every run, and they are not as many in each either.
    """
    if common:
        left = [
            f"{point.name}: only in {', '.join(_label(at) for at, found in enumerate(of_runs) if key in found)}"
            for key, point in {key: point for found in of_runs for key, point in found.items()}.items()
            if key not in common
        ]
        return [[found[key] for found in of_runs] for key in common], left
    if len({len(found) for found in of_runs}) > 1 or not of_runs[0]:
        has = "; ".join(
            f"{_label(at)}: {', '.join(point.name for point in found.values()) or 'none'}"
            for at, found in enumerate(of_runs)
        )
        raise UsageError(
            f"the runs have no point in common, and not as many in each to line them up by place: {has}; "
            "compare runs of the same rates or concurrencies"
        )
    return [list(of) for of in zip(*(found.values() for found in of_runs), strict=True)], []


def _compare_point(runs: Sequence[RunData], of_point: list[Point]) -> tuple[PointComparison | None, list[str]]:
    notes: list[str] = []
    stages: list[list[StageSummary]] = []
    for place, point in enumerate(of_point):
        valid = [
            stage for stage in point.stages if stage.verdict.result not in ("invalid", "not_run") and stage.measured
        ]
        out = len(point.stages) - len(valid)
        if not valid:
            why = point.deciding.verdict.sentence
            return None, [f"{point.name}: {_label(place)} says nothing of the server: {why}"]
        if out:
            notes.append(f"{out} of {len(point.stages)} rounds of {_label(place)} are invalid and left out")
        notes += [f"{_label(place)} was cut short ({s.interrupted})" for s in valid if s.interrupted is not None]
        stages.append(valid)
    names = [point.name for point in of_point]
    slices = [name for name in _slices(stages[0]) if all(name in _slices(of) for of in stages[1:])]
    parts = []
    for name in (None, *slices):
        samples = [sample_of(run, of, name) for run, of in zip(runs, stages, strict=True)]
        parts.append(PartComparison(slice=name, figures=list(_figures(samples))))
        if name is None and any(sample.failed for sample in samples):
            notes.append("latencies are of ok requests only: hold them beside the error rate, for a failure has none")
    return PointComparison(names=names, rounds=[len(of) for of in stages], parts=parts, notes=notes), []


def _slices(stages: Sequence[StageSummary]) -> list[str]:
    return sorted({of.name for stage in stages for of in stage.slices})


# --- figures -----------------------------------------------------------------------------------------------------------


def _figures(samples: list[Sample]) -> Iterator[ComparedFigure]:
    for name in LATENCIES:
        for percent in PERCENTS:
            if any(len(sample.ok[name]) for sample in samples):
                yield _percentile(name, percent, samples)
    if any(sample.good is not None for sample in samples):
        yield _share("attainment", samples, lambda s: None if s.good is None else (s.good, s.measured))
        yield _rate("goodput_rps", samples, lambda s: s.goods_rps)
    yield _share("error_rate", samples, lambda s: (s.failed, s.measured))
    if any(sample.checked for sample in samples):
        yield _share("quality_rate", samples, lambda s: (s.passed, s.checked))
    yield _rate("completed_in_window_rps", samples, lambda s: s.completed_rps)
    yield _rate("output_tokens_in_window_tps", samples, lambda s: s.tokens_tps)
    if any(len(sample.cached[0]) for sample in samples):
        yield _cached(samples)
    if any(sample.hit_rates for sample in samples):
        yield _hit_rate(samples)


def _figure(
    name: str,
    method: Method | None,
    values: Sequence[float | None],
    counts: Sequence[int | None],
    interval: Callable[[int], tuple[Interval | None, str | None]],
) -> ComparedFigure:
    """A figure out of its values; ``interval`` gives that of the run at a place less the first, or why there is none."""
    differences = []
    first = values[0]
    for place in range(1, len(values)):
        value = values[place]
        if first is None or value is None:
            differences.append(FigureDifference(difference=None, reason="not measured in both"))
            continue
        found, why = interval(place)
        differences.append(
            FigureDifference(
                difference=value - first,
                relative=(value - first) / first if first else None,
                interval=found,
                shown=None if found is None else not found.low <= 0 <= found.high,
                reason=why if found is None else None,
            )
        )
    shown: list[Figure] = list(values)
    return ComparedFigure(name=name, values=shown, counts=list(counts), differences=differences, method=method)


def _percentile(name: str, percent: int, samples: list[Sample]) -> ComparedFigure:
    of = [sample.ok[name] for sample in samples]

    def interval(place: int) -> tuple[Interval | None, str | None]:
        for at in (0, place):
            if samples[at].missing[name]:
                return None, f"{name} is missing for {samples[at].missing[name]} requests of {_label(at)}"
            if not bounded(percent, len(of[at])):
                return None, f"too few requests in {_label(at)} ({len(of[at])}) for a bound on P{percent}"
        return difference_of_percentiles(of[place], of[0], percent), None

    values = [percentile(found, percent, bounds=False).value for found in of]
    known = [value if isinstance(value, float) else None for value in values]
    return _figure(f"{name}_p{percent}_ms", "bootstrap", known, [len(found) for found in of], interval)


def _share(name: str, samples: list[Sample], of: Callable[[Sample], tuple[int, int] | None]) -> ComparedFigure:
    counts = [of(sample) for sample in samples]

    def interval(place: int) -> tuple[Interval | None, str | None]:
        own, first = counts[place], counts[0]
        assert own is not None
        assert first is not None
        return difference_of_shares(*own, *first), None

    values = [None if pair is None or not pair[1] else pair[0] / pair[1] for pair in counts]
    return _figure(name, "newcombe", values, [None if pair is None else pair[1] for pair in counts], interval)


def _rate(name: str, samples: list[Sample], of: Callable[[Sample], list[float] | None]) -> ComparedFigure:
    parts = [of(sample) for sample in samples]

    def interval(place: int) -> tuple[Interval | None, str | None]:
        for at in (0, place):
            if samples[at].measured < FEWEST_IN_PART * len(parts[at] or []):
                return None, f"too few requests in {_label(at)} ({samples[at].measured}) to part its windows"
        return difference_of_means(parts[place] or [], parts[0] or []), None

    values = [float(np.mean(found)) if found else None for found in parts]
    return _figure(name, "batch_means", values, [None if found is None else len(found) for found in parts], interval)


def _cached(samples: list[Sample]) -> ComparedFigure:
    of = [sample.cached for sample in samples]

    def interval(place: int) -> tuple[Interval | None, str | None]:
        found = difference_of_ratios(*of[place], *of[0])
        return found, "too few requests" if found is None else None

    values = [float(hit.sum() / asked.sum()) if asked.sum() else None for hit, asked in of]
    return _figure("cached_prompt_share", "ratio", values, [len(hit) for hit, _ in of], interval)


def _hit_rate(samples: list[Sample]) -> ComparedFigure:
    why = "the server counts tokens, not requests: nothing to make an interval of"
    values = [float(np.mean(sample.hit_rates)) if sample.hit_rates else None for sample in samples]
    counts = [len(sample.hit_rates) if sample.hit_rates else None for sample in samples]
    return _figure("prefix_cache_hit_rate", None, values, counts, lambda place: (None, why))


# --- words -------------------------------------------------------------------------------------------------------------


def _sentence(settings: Sequence[SettingDifference]) -> str:
    of: Mapping[str, list[SettingDifference]] = {
        role: [setting for setting in settings if setting.role == role] for role in ("compared", "allowed")
    }
    if of["compared"]:
        setting = of["compared"][0]
        said = f"{setting.name}: {' against '.join(setting.values)}"
        beside = f", beside {', '.join(s.name for s in of['allowed'])}, which may differ" if of["allowed"] else ""
        return said + beside
    if of["allowed"]:
        return f"what may differ by --allow: {', '.join(setting.name for setting in of['allowed'])}"
    return (
        "nothing differs in what the runs say of themselves: a difference comes from what they do not say (options of the "
        "engine that it does not tell, the machine), or from chance"
    )


def _limitations(runs: Sequence[RunData], settings: Sequence[SettingDifference]) -> list[str]:
    found = [SYNTHETIC] if any(run.manifest.synthetic_engine for run in runs) else []
    unchecked = [_label(place) for place, run in enumerate(runs) if run.manifest.quality is None]
    if unchecked:
        of = "" if len(unchecked) == len(runs) else f" of {', '.join(unchecked)}"
        found.append(
            f"No quality check ran (--quality): nothing is said of the quality of the replies{of}, which may be what a "
            "faster setting paid with."
        )
    if any(run.manifest.workload.kind == "synthetic" for run in runs):
        found.append("The workload is synthetic: it supports no capacity conclusion.")
    if any(setting.name == "slo" for setting in settings):
        found.append("Each run is judged by its own limits: attainment and goodput are then of different things.")
    if any(setting.name == "output_token_source" for setting in settings):
        found.append("Output tokens were counted by different things: TPOT and token rates are not of one kind.")
    found += _cached_before(runs)
    cut = [_label(place) for place, run in enumerate(runs) if run.summary.state != "complete"]
    if cut:
        found.append(f"{', '.join(cut)} did not run to the end.")
    return found


def _cached_before(runs: Sequence[RunData]) -> list[str]:
    """Runs that a prefix cache may have helped, because another of them sent the same prompts to the same server before."""
    found = []
    for place, run in enumerate(runs):
        manifest = run.manifest
        before = [
            _label(at)
            for at, other in enumerate(runs)
            if other.manifest.started_at < manifest.started_at
            and other.manifest.host == manifest.host
            and other.manifest.workload.sha256 == manifest.workload.sha256
        ]
        if before and not manifest.options.get("reset_prefix_cache"):
            found.append(
                f"{_label(place)} sent the prompts that {' and '.join(before)} had sent to the same server before: unless "
                "it was started anew in between, they may have been in its prefix cache (--reset-prefix-cache empties it)."
            )
    return found
