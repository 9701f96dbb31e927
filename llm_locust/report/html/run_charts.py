"""The run as a whole over time: failures by kind, and the load generator's own health.

Stages stand one after another on one axis of time under load; what lay between them (a pause, a person's lunch) is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from llm_locust.analysis.derived import mask
from llm_locust.analysis.quantiles import nearest_rank
from llm_locust.analysis.words import counts, number
from llm_locust.records import NS_PER_S, Outcome
from llm_locust.report.html.axes import from_zero, limit_line, linear_ticks, margins, span_axis, units
from llm_locust.report.html.chart import Cell, Chart, Key
from llm_locust.report.html.run_data import Floats, RunData, StageData
from llm_locust.report.html.theme import NARROW, STAND_IN, drawing, new_figure, svg_of
from llm_locust.report.html.timelines import bin_width
from llm_locust.report.inert import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEIGHT = 240
MOST_BINS = 200
JUST_BEFORE_S = 1e-6
MOST_KINDS = 6
"""Outcomes with a colour of their own; the rarer ones are drawn together."""

_KIND_ROLES = ("s4", "s2", "s3", "s5", "s6", "s7")


class Strip(NamedTuple):
    """The time under load, cut into bins: each stage begins where the one before it ended."""

    stages: Sequence[StageData]
    begins: list[float]
    """Where each stage begins, in seconds under load."""
    edges: Floats

    @property
    def width(self) -> float:
        """Seconds of a bin."""
        return float(self.edges[1] - self.edges[0])

    def place(self, number: int, seconds: Floats) -> Floats:
        """Seconds of a stage's own axis as seconds under load."""
        stage = self.stages[number]
        # A stage ends with its last request, which is to lie in it and not in the one that follows.
        last = stage.end_s - JUST_BEFORE_S
        inside: Floats = np.clip(seconds, stage.start_s, last) - stage.start_s + self.begins[number]
        return inside

    def bins(self, at: Floats) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        """The bin of each time."""
        return np.clip(np.searchsorted(self.edges, at, side="right") - 1, 0, len(self.edges) - 2)


def strip(data: RunData) -> Strip | None:
    """``None`` when no stage lasted."""
    stages = [stage for stage in data.stages if len(stage.rows) and stage.end_s > stage.start_s]
    if not stages:
        return None
    lengths = [stage.end_s - stage.start_s for stage in stages]
    total = sum(lengths)
    width = bin_width(total, MOST_BINS)
    edges: Floats = np.arange(0, int(np.ceil(total / width - 1e-9)) + 1, dtype=np.float64) * width
    return Strip(stages, [0.0, *np.cumsum(lengths)[:-1].tolist()], edges)


def failure_charts(data: RunData) -> list[Chart]:
    """Failures by kind: of each stage, and over time; none when nothing failed."""
    kinds = _kinds(data)
    if not kinds:
        return []
    found = [_by_stage(data, kinds)]
    along = strip(data)
    return [*found, _over_time(along, kinds)] if along is not None else found


def _kinds(data: RunData) -> list[str]:
    """The outcomes that some request of the run had, but for ok, the commonest first."""
    total: dict[str, int] = {}
    for stage in data.stages:
        for name, count in stage.rows["outcome"].value_counts().items():
            if name != Outcome.OK:
                total[str(name)] = total.get(str(name), 0) + int(count)
    return sorted(total, key=lambda name: (-total[name], name))


def _coloured(kinds: Sequence[str]) -> list[tuple[str, str, list[str]]]:
    """Label, role and outcomes of each band."""
    shown = kinds if len(kinds) <= MOST_KINDS else kinds[: MOST_KINDS - 1]
    bands = [(name.replace("_", " "), role, [name]) for name, role in zip(shown, _KIND_ROLES, strict=False)]
    rest = list(kinds[len(shown) :])
    return [*bands, (f"{len(rest)} rarer kinds", _KIND_ROLES[-1], rest)] if rest else bands


def _by_stage(data: RunData, kinds: Sequence[str]) -> Chart:
    name = "failures-by-stage"
    stages = [stage for stage in data.stages if stage.summary.measured]
    columns: dict[str, Sequence[Cell]] = {
        "stage": [stage.summary.stage for stage in stages],
        "round": [stage.summary.round for stage in stages],
        "label": [stage.summary.label for stage in stages],
        "measured": [stage.summary.measured for stage in stages],
        "ok": [stage.summary.successful for stage in stages],
    }
    columns |= {kind: [stage.summary.outcomes.get(kind, 0) for stage in stages] for kind in kinds}
    with drawing(name):
        figure = new_figure(max(110, 66 + 26 * len(stages)))
        axes = figure.add_subplot()
        left = np.zeros(len(stages))
        keys = []
        for label, role, of in _coloured(kinds):
            share = np.array(
                [
                    100 * sum(stage.summary.outcomes.get(kind, 0) for kind in of) / stage.summary.measured
                    for stage in stages
                ]
            )
            axes.barh(np.arange(len(stages)), share, left=left, height=0.62, color=STAND_IN[role], linewidth=0)
            left += share
            keys.append(Key(label, role, "area"))
        axes.set_yticks(np.arange(len(stages)), [_short(stage.title) for stage in stages])
        axes.set_ylim(len(stages) - 0.4, -0.6)
        axes.set_xlim(0, max(float(left.max(initial=0.0)) * 1.08, 1.0))
        axes.grid(visible=False, axis="y")
        axes.grid(visible=True, axis="x")
        linear_ticks(axes)
        axes.set_xlabel("% of the measured requests", color=STAND_IN["muted"])
        longest = max((len(_short(stage.title)) for stage in stages), default=0)
        margins(figure, top=10, left=min(170.0, 16 + 6.2 * longest))
        said = "; ".join(
            f"{stage.title}: {stage.summary.failed} of {stage.summary.measured} failed" for stage in stages[:12]
        )
        svg = svg_of(figure, name, "Failures by kind and stage", f"{said}.")
    return Chart(
        name, "By stage", "Everything but ok counts as failed and stays in the denominator.", columns, svg, keys
    )


def _short(text: str) -> str:
    return one_line(text, 26)


def _over_time(along: Strip, kinds: Sequence[str]) -> Chart:
    name = "failures-over-time"
    bins = len(along.edges) - 1
    per_kind = {kind: np.zeros(bins, np.int64) for kind in kinds}
    for place, stage in enumerate(along.stages):
        ended = stage.seconds("end_ns")
        ended = np.where(np.isnan(ended), stage.seconds("planned_ns"), ended)
        at = along.bins(along.place(place, np.where(np.isnan(ended), stage.start_s, ended)))
        outcomes = stage.rows["outcome"]
        for kind in kinds:
            per_kind[kind] += np.bincount(at[mask(outcomes == kind)], minlength=bins)
    columns = _bin_columns(along) | {kind: of.tolist() for kind, of in per_kind.items()}
    with drawing(name):
        figure = new_figure(HEIGHT)
        axes = figure.add_subplot()
        below = np.zeros(bins)
        keys = []
        for label, role, of in _coloured(kinds):
            height = np.sum([per_kind[kind] for kind in of], axis=0) / along.width
            axes.stairs(below + height, along.edges, baseline=below, fill=True, color=STAND_IN[role], linewidth=0)
            below = below + height
            keys.append(Key(label, role, "area"))
        from_zero(axes, below.tolist())
        _strip_axes(axes, along, "failed requests per second")
        margins(figure)
        total = {kind: int(of.sum()) for kind, of in per_kind.items()}
        svg = svg_of(figure, name, "Failures by kind over time", f"{counts(total)}, warm-up and cool-down included.")
    caption = "When they ended, warm-up and cool-down included; stages follow one another."
    return Chart(name, "Over time", caption, columns, svg, keys)


def generator_charts(data: RunData) -> list[Chart]:
    """Dispatch lag of every request, lateness of the event loop and use of the processor, over time."""
    along = strip(data)
    if along is None:
        return []
    charts = [
        _dispatch_lag(data, along),
        _health(data, along, "generator-loop-lag", "Event-loop lag", "loop_lag_ms", "ms",
                "Lateness of a 100 ms timer, worst of each report of a worker: every callback was late by as much."),
        _health(data, along, "generator-cpu", "Processor of the workers", "cpu_percent", "% of one core",
                "Each worker is one process; near 100 % it sends and reads late."),
    ]  # fmt: skip
    return [chart for chart in charts if chart is not None]


def _dispatch_lag(data: RunData, along: Strip) -> Chart | None:
    name = "generator-dispatch-lag"
    at = [along.place(k, stage.seconds("dispatched_ns")) for k, stage in enumerate(along.stages)]
    lag = [stage.rows["dispatch_lag_ms"].to_numpy(dtype=np.float64) for stage in along.stages]
    times, lags = np.concatenate(at), np.concatenate(lag)
    known = ~np.isnan(times) & ~np.isnan(lags)
    if not known.any():
        return None
    bins = along.bins(times[known])
    found = _grouped(bins, lags[known], len(along.edges) - 1, (50, 99, 100))
    lines = [
        ("P50", "dispatch_lag_p50_ms", "s3", ":"),
        ("P99", "dispatch_lag_p99_ms", "s1", "-"),
        ("largest", "dispatch_lag_max_ms", "s4", "--"),
    ]
    bounds = {stage.summary.generator.lag_bound_ms for stage in along.stages}
    return _lines(
        along, name, "Dispatch lag", "ms",
        "Dispatched minus planned, per bin. More than 1 % of a stage's arrivals over the bound, and more than one, void it. "
        "A closed loop plans nothing and has none.",
        [(label, column, role, style, values) for (label, column, role, style), values in zip(lines, found, strict=True)],
        bounds.pop() if len(bounds) == 1 else None,
    )  # fmt: skip


def _health(data: RunData, along: Strip, name: str, title: str, column: str, unit: str, caption: str) -> Chart | None:
    health = data.health
    at_ns = health["at_ns"].to_numpy(dtype=np.int64, na_value=0) if len(health) else np.empty(0, np.int64)
    values = health[column].to_numpy(dtype=np.float64, na_value=np.nan) if len(health) else np.empty(0)
    places: list[Floats] = []
    chosen: list[Floats] = []
    for k, stage in enumerate(along.stages):
        seconds = (at_ns - stage.origin_ns) / NS_PER_S
        inside = (seconds >= stage.start_s) & (seconds <= stage.end_s) & ~np.isnan(values)
        places.append(along.place(k, seconds[inside]))
        chosen.append(values[inside])
    every = np.concatenate(chosen)
    if not len(every):
        return None
    middle, largest = _grouped(along.bins(np.concatenate(places)), every, len(along.edges) - 1, (50, 100))
    lines = [
        ("median of the workers", f"{column}_median", "s3", ":", middle),
        ("largest", f"{column}_max", "s1", "-", largest),
    ]
    return _lines(along, name, title, unit, caption, lines, None)


def _lines(
    along: Strip,
    name: str,
    title: str,
    unit: str,
    caption: str,
    lines: Sequence[tuple[str, str, str, str, Floats]],
    bound: float | None,
) -> Chart:
    columns = _bin_columns(along)
    keys = []
    with drawing(name):
        figure = new_figure(HEIGHT, NARROW)
        axes = figure.add_subplot()
        middles = (along.edges[:-1] + along.edges[1:]) / 2
        every: list[float] = []
        for label, column, role, style, values in lines:
            known = ~np.isnan(values)
            columns[column] = [None if np.isnan(value) else round(float(value), 6) for value in values]
            axes.plot(middles[known], values[known], color=STAND_IN[role], linestyle=style, linewidth=1.5)
            keys.append(Key(label, role, style))
            every += values[known].tolist()
        if bound is not None:
            limit_line(axes, bound)
            keys.append(Key(f"bound of the P99: {number(bound)} {unit}", "limit", "--"))
            every.append(bound)
        if unit == "ms":
            span_axis(axes, [max(value, 0.01) for value in every], "y")  # below 10 microseconds nothing is told apart
        else:
            from_zero(axes, [*every, 100.0])
            linear_ticks(axes, "y")
        _strip_axes(axes, along, unit)
        margins(figure)
        said = "; ".join(
            f"{label}: at most {number(float(np.nanmax(values)))} {unit}" for label, _, _, _, values in lines
        )
        svg = svg_of(figure, name, f"{title} over time", f"{said}.")
    return Chart(name, title, caption, columns, svg, keys)


def _grouped(
    bins: np.ndarray[tuple[int], np.dtype[np.intp]], values: Floats, size: int, percents: Sequence[int]
) -> list[Floats]:
    """Nearest-rank percentiles of the values of each bin; NaN in a bin without any."""
    order = np.lexsort((values, bins))
    placed, ranked = bins[order], values[order]
    begin = np.searchsorted(placed, np.arange(size))
    end = np.searchsorted(placed, np.arange(size), side="right")
    found = []
    for percent in percents:
        of: Floats = np.full(size, np.nan)
        for k in np.flatnonzero(end > begin):
            of[k] = ranked[begin[k] + nearest_rank(percent, int(end[k] - begin[k])) - 1]
        found.append(of)
    return found


def _bin_columns(along: Strip) -> dict[str, Sequence[Cell]]:
    """Where each bin lies, and the stage in which it begins."""
    starts = along.edges[:-1]
    stage = np.clip(np.searchsorted(np.array(along.begins), starts + 1e-9, side="right") - 1, 0, len(along.stages) - 1)
    return {
        "from_s_under_load": np.round(starts, 6).tolist(),
        "to_s_under_load": np.round(along.edges[1:], 6).tolist(),
        "stage": [along.stages[k].summary.stage for k in stage],
        "round": [along.stages[k].summary.round for k in stage],
    }


def _strip_axes(axes: Axes, along: Strip, unit: str) -> None:
    axes.set_xlim(along.edges[0], along.edges[-1])
    for begin in along.begins[1:]:
        axes.axvline(begin, color=STAND_IN["muted"], linewidth=0.8, linestyle=":", zorder=0.8)
    linear_ticks(axes)
    linear_ticks(axes, "y") if axes.get_yscale() == "linear" else None
    units(axes, y=unit, x="seconds under load; upright lines: a stage begins")
