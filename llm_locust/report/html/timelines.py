"""Each stage over time: what was planned, sent and completed, what was in flight, and the server and its GPU under it.

All panels of a stage share their axis: seconds from the start of its window, warm-up before 0. Time is cut into bins, so a
stage of an hour is drawn like one of a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from llm_locust.analysis.server_series import Series, added, gauge_series, scrape_interval
from llm_locust.analysis.trend import span_means
from llm_locust.analysis.words import number
from llm_locust.records import NS_PER_S
from llm_locust.records.device_sample import DeviceSample
from llm_locust.records.server_sample import ServerSample
from llm_locust.records.summary import RunSummary, StageSummary
from llm_locust.report.html.axes import from_zero, linear_ticks, margins, units
from llm_locust.report.html.chart import Cell, Chart, Key
from llm_locust.report.html.run_data import Floats, RunData, StageData
from llm_locust.report.html.theme import STAND_IN, drawing, new_figure, svg_of

MOST_DRAWN = 24
"""Stages; of more, those that the verdict turns on and the first others are drawn, and the rest has its data only."""

MOST_BINS = 150

_WIDTHS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)

AROUND_S = 5.0
"""Samples this far outside a stage are looked at, to know its edges."""


_Sample = TypeVar("_Sample", ServerSample, DeviceSample)


class _Line(NamedTuple):
    column: str
    label: str
    role: str
    style: str
    values: Floats


def timelines(data: RunData) -> list[Chart]:
    """A chart for every stage that was run."""
    ran = [stage for stage in data.stages if len(stage.rows)]
    chosen = drawn_places([stage.summary for stage in ran], data.summary)
    return [_timeline(data, stage, drawn=place in chosen) for place, stage in enumerate(ran)]


def drawn_places(stages: Sequence[StageSummary], summary: RunSummary, most: int = MOST_DRAWN) -> set[int]:
    """Which stages are drawn: at the last passing and the first failing rate, and at the knee, before any others."""
    decides = {rate for rate in (summary.sustained_rate_rps, summary.first_failing_rate_rps) if rate is not None}
    knee = summary.knee.concurrency if summary.knee is not None else None

    def turns_on(stage: StageSummary) -> bool:
        return stage.concurrency == knee is not None if stage.mode == "closed" else stage.rate_rps in decides

    return set(sorted(range(len(stages)), key=lambda place: (not turns_on(stages[place]), place))[:most])


def bin_width(seconds: float, most: int = MOST_BINS) -> float:
    """The least round width that cuts so many seconds into at most ``most`` bins."""
    return next((width for width in _WIDTHS_S if seconds / width <= most), seconds / most)


def _timeline(data: RunData, stage: StageData, *, drawn: bool) -> Chart:
    width = bin_width(stage.end_s - stage.start_s)
    first = np.floor(stage.start_s / width + 1e-9)
    bins = max(1, int(np.ceil(stage.end_s / width - first - 1e-9)))
    edges: Floats = (first + np.arange(bins + 1)) * width  # 0, the start of the window, is an edge
    rates = [
        _Line("planned_rps", "planned", "muted", ":", _per_second(stage.seconds("planned_ns"), edges)),
        _Line("sent_rps", "sent", "s2", "--", _per_second(stage.seconds("sent_ns"), edges)),
        _Line("completed_rps", "completed", "s1", "-", _per_second(stage.seconds("complete_ns"), edges)),
    ]
    if stage.summary.mode == "closed":
        rates = rates[1:]
    levels = [
        _Line("in_flight", "in flight, client", "s8", "-", _in_flight(stage, edges)),
        *_server_levels(data, stage, edges),
    ]
    shares = [*_kv_cache(data, stage, edges), *_device_use(data, stage, edges)]
    columns: dict[str, Sequence[Cell]] = {
        "from_s": np.round(edges[:-1], 6).tolist(),
        "to_s": np.round(edges[1:], 6).tolist(),
    }
    columns |= {line.column: _cells(line.values) for line in (*rates, *levels, *shares)}
    name = f"timeline-{stage.key}"
    missing = _missing(data, levels, shares)
    caption = f"Per bin of {number(width)} s; 0 is the start of the window, shaded.{missing}"
    title = f"{stage.title}: {stage.summary.verdict.result}"
    if not drawn:
        return Chart(
            name,
            title,
            f"Not drawn: {MOST_DRAWN} stages are, those around the boundary and the first others. Here are its data.",
            columns,
        )
    panels = [("requests per second", rates), ("requests", levels), *([("%", shares)] if shares else [])]
    with drawing(name):
        figure = new_figure(150 + 120 * (len(panels) - 1) + 30)
        all_axes = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
        for axes, (unit, lines) in zip(all_axes, panels, strict=True):
            if stage.window_s is not None:
                axes.axvspan(0, stage.window_s, color=STAND_IN["grid"], alpha=0.45, linewidth=0, zorder=0)
            for line in lines:
                if line in rates:
                    axes.stairs(
                        line.values,
                        edges,
                        baseline=None,
                        color=STAND_IN[line.role],
                        linestyle=line.style,
                        linewidth=1.5,
                    )
                else:
                    known = ~np.isnan(line.values)
                    middles = (edges[:-1] + edges[1:]) / 2
                    axes.plot(
                        middles[known],
                        line.values[known],
                        color=STAND_IN[line.role],
                        linestyle=line.style,
                        linewidth=1.5,
                    )
            if unit == "%":
                from_zero(axes, [100.0, *(float(v) for line in lines for v in line.values)], room=1.02)
            else:
                from_zero(axes, [float(v) for line in lines for v in line.values])
            linear_ticks(axes, "y")
            units(axes, y=unit)
        all_axes[-1].set_xlim(edges[0], edges[-1])
        linear_ticks(all_axes[-1])
        all_axes[-1].set_xlabel("seconds from the start of the window", color=STAND_IN["muted"])
        margins(figure)
        keys = [Key(line.label, line.role, line.style) for line in (*rates, *levels, *shares)]
        svg = svg_of(figure, name, f"{stage.title} over time", _in_words(stage, levels, shares))
    return Chart(name, title, caption, columns, svg, keys)


def _per_second(times: Floats, edges: Floats) -> Floats:
    known = times[~np.isnan(times)]
    found: Floats = np.histogram(known, edges)[0] / np.diff(edges)
    return found


def _in_flight(stage: StageData, edges: Floats) -> Floats:
    sent, ended = stage.seconds("sent_ns"), stage.seconds("end_ns")
    known = ~np.isnan(sent)
    ends = np.where(np.isnan(ended), np.inf, ended)[known]
    found: Floats = span_means(sent[known], ends, (float(edges[0]), float(edges[-1])), len(edges) - 1)
    return found


def _server_levels(data: RunData, stage: StageData, edges: Floats) -> list[_Line]:
    lines = []
    for name, label, role, style in (
        ("running", "running, server", "s3", "--"),
        ("waiting", "waiting, server", "s4", "-."),
    ):
        per_target = _per_target(_near(data.server, stage))
        series = [gauge_series(samples, name, stage.origin_ns) for samples in per_target]
        interval = scrape_interval(series)
        if interval is None or not any(len(one.at) for one in series):
            continue
        values = _means(added(series, interval), edges)
        if not np.isnan(values).all():
            lines.append(_Line(f"server_{name}", label, role, style, values))
    return lines


def _kv_cache(data: RunData, stage: StageData, edges: Floats) -> list[_Line]:
    samples = _near(data.server, stage)
    values = _means(gauge_series(samples, "kv_usage_max", stage.origin_ns), edges, np.nanmax) * 100
    if np.isnan(values).all():
        return []
    return [_Line("kv_cache_max_pct", "KV cache, fullest engine", "s6", "-", values)]


def _device_use(data: RunData, stage: StageData, edges: Floats) -> list[_Line]:
    """Use of the GPUs, on average over them; without a GPU the processors of the server, 100 being one core."""
    near = _near(data.devices, stage)
    for kind, field, column, label in (
        ("gpu", "utilisation_pct", "gpu_utilisation_pct", "GPU busy"),
        ("process", "cpu_pct", "server_cpu_pct", "CPU of the server (100 is one core)"),
    ):
        known = [(s.at_ns, float(value)) for s in near if s.kind == kind and (value := getattr(s, field)) is not None]
        if known:
            at = np.array([(at_ns - stage.origin_ns) / NS_PER_S for at_ns, _ in known])
            values = _means(Series(at, np.array([value for _, value in known])), edges)
            if not np.isnan(values).all():
                return [_Line(column, label, "s5", "--", values)]
    return []


def _near(samples: Sequence[_Sample], stage: StageData) -> list[_Sample]:
    begin = stage.origin_ns + int((stage.start_s - AROUND_S) * NS_PER_S)
    end = stage.origin_ns + int((stage.end_s + AROUND_S) * NS_PER_S)
    return [sample for sample in samples if begin <= sample.at_ns < end]


def _per_target(samples: Iterable[ServerSample]) -> list[list[ServerSample]]:
    found: dict[str, list[ServerSample]] = {}
    for sample in samples:
        found.setdefault(sample.target, []).append(sample)
    return list(found.values())


def _means(series: Series, edges: Floats, of: Callable[[Floats], Floats] = np.nanmean) -> Floats:
    """The mean (or another figure) of the readings in each bin; NaN in a bin without any."""
    place = np.searchsorted(edges, series.at, side="right") - 1
    found: Floats = np.full(len(edges) - 1, np.nan)
    for at in np.unique(place[(place >= 0) & (place < len(found))]):
        found[at] = of(series.values[place == at])
    return found


def _cells(values: Floats) -> list[Cell]:
    return [None if np.isnan(value) else round(float(value), 6) for value in values]


def _missing(data: RunData, levels: Sequence[_Line], shares: Sequence[_Line]) -> str:
    """Why a panel is not there: a blank has its reason."""
    said = []
    if len(levels) == 1 and not shares:
        said.append(
            "the server's metrics were not read" if not data.server else "the server told nothing in this stage"
        )
    elif not any(line.column == "kv_cache_max_pct" for line in shares):
        said.append("no KV-cache use was told")
    if not any(line.column in ("gpu_utilisation_pct", "server_cpu_pct") for line in shares):
        said.append("no GPU was sampled" if data.devices else "the server's machine was not sampled")
    return f" Not drawn: {', '.join(said)}." if said else ""


def _in_words(stage: StageData, levels: Sequence[_Line], shares: Sequence[_Line]) -> str:
    of = stage.summary
    said = [f"{of.planned} planned, {of.attempted} attempted, {of.successful} of {of.measured} measured were ok"]
    for lines, unit in ((levels, ""), (shares, " %")):
        said += [f"{line.label}: at most {number(float(np.nanmax(line.values)))}{unit} (per bin)" for line in lines]
    return "; ".join(said) + "."
