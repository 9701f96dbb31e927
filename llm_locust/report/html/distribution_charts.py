"""Distributions: latencies, gaps between tokens and lengths, as curves of a few hundred points whatever the run's size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from llm_locust.analysis.derived import floats
from llm_locust.analysis.gaps import GapCounts, count_gaps
from llm_locust.analysis.words import number
from llm_locust.report.html.axes import limit_line, linear_ticks, margins, span_axis, units
from llm_locust.report.html.chart import Cell, Chart, Key
from llm_locust.report.html.rate_charts import LATENCIES
from llm_locust.report.html.run_data import Floats, PointData, RunData
from llm_locust.report.html.theme import NARROW, STAND_IN, drawing, new_figure, svg_of

HEIGHT = 230

MOST_CURVES = 8
"""In one chart; its data hold all of them."""

SHARES: npt.NDArray[np.float64] = np.array([*np.arange(1, 100) / 100, 0.995, 0.999, 1.0])
"""Where a distribution is read: every percent, and its tail."""

BINS = 40
"""Of a histogram."""


def latency_distributions(data: RunData) -> list[Chart]:
    """The cumulative distribution of TTFT, TPOT and E2E over the ok requests of every point, its rounds together."""
    found = []
    for name, short, words in LATENCIES:
        curves = [
            (
                point,
                _quantiles(
                    np.concatenate([_known(stage.rows[f"{name}_ms"].to_numpy()[stage.ok]) for stage in point.stages])
                ),
            )
            for point in data.points
        ]
        limit = data.summary.slo.get(name)
        chart = _cumulative(f"distribution-{name}", f"{short}, {words}", "ok requests", curves, limit, data)
        found += [chart] if chart is not None else []
    return found


def stream_distributions(data: RunData) -> list[Chart]:
    """Gaps between output events, and the longest gap of each request, over the ok requests of every point."""
    gaps = [
        (point, _gap_quantiles([count_gaps(stage.rows, stage.ok, data.gaps_us) for stage in point.stages]))
        for point in data.points
    ]
    longest = [
        (
            point,
            _quantiles(
                np.concatenate([_known(stage.rows["max_gap_ms"].to_numpy()[stage.ok]) for stage in point.stages])
            ),
        )
        for point in data.points
    ]
    limit = data.summary.slo.get("max_gap")
    charts = [
        _cumulative("distribution-itl", "ITL, gaps between output events", "gaps", gaps, None, data),
        _cumulative("distribution-longest-gap", "Longest gap of a request", "ok requests", longest, limit, data),
    ]
    return [chart for chart in charts if chart is not None]


def length_charts(data: RunData) -> list[Chart]:
    """Input and output tokens of the measured ok requests, as asked for and as got."""
    found = []
    for name, title, asked, got, words in (
        ("input-tokens", "Input tokens", "input_tokens_asked", "prompt_tokens", ("asked for", "counted")),
        ("output-tokens", "Output tokens", "max_tokens", "output_tokens", ("limit asked for", "generated")),
    ):
        pairs = [
            np.concatenate([np.empty(0), *(_known(floats(stage.rows[column])[stage.ok]) for stage in data.stages)])
            for column in (asked, got)
        ]
        chart = _histogram(f"workload-{name}", title, pairs, words)
        found += [chart] if chart is not None else []
    return found


def _known(values: Floats) -> Floats:
    known: Floats = values[~np.isnan(values)]
    return known


def _quantiles(values: Floats) -> Floats | None:
    """Nearest-rank quantiles at :data:`SHARES`; ``None`` of no values."""
    if not len(values):
        return None
    ranks = np.clip(np.ceil(SHARES * len(values) - 1e-9).astype(np.int64), 1, len(values))
    found: Floats = np.sort(values)[ranks - 1]
    return found


def _gap_quantiles(counted: Sequence[GapCounts]) -> Floats | None:
    """The same of gaps that are counted by their length, in milliseconds."""
    size = max((len(of.of_length) for of in counted), default=0)
    total = np.zeros(size, np.int64)
    for of in counted:
        total[: len(of.of_length)] += of.of_length
    longer = np.sort(np.concatenate([np.empty(0, np.int64), *(of.longer for of in counted)]))
    passed = np.cumsum(total)
    short = int(passed[-1]) if size else 0
    n = short + len(longer)
    if n == 0:
        return None
    ranks = np.clip(np.ceil(SHARES * n - 1e-9).astype(np.int64), 1, n)
    us = np.where(ranks <= short, np.searchsorted(passed, ranks), 0)
    if len(longer):
        us = np.where(ranks > short, longer[np.clip(ranks - short - 1, 0, len(longer) - 1)], us)
    found: Floats = us / 1000
    return found


def shown_points(data: RunData, points: Sequence[PointData]) -> list[PointData]:
    """The points that a chart has room for: both sides of the boundary, and the others spread evenly."""
    if len(points) <= MOST_CURVES:
        return list(points)
    sides = (data.summary.sustained_rate_rps, data.summary.first_failing_rate_rps)
    kept = [k for k, point in enumerate(points) if point.stages[0].summary.rate_rps in sides and None not in sides][:2]
    for k in np.linspace(0, len(points) - 1, MOST_CURVES).round().astype(int).tolist():
        if len(kept) < MOST_CURVES and k not in kept:
            kept.append(k)
    return [points[k] for k in sorted(kept)]


def _cumulative(
    name: str,
    title: str,
    of_what: str,
    curves: Sequence[tuple[PointData, Floats | None]],
    limit: float | None,
    data: RunData,
) -> Chart | None:
    known = [(point, values) for point, values in curves if values is not None]
    if not known:
        return None
    shown = shown_points(data, [point for point, _ in known])
    drawn = [(point, values) for point, values in known if point in shown]
    columns: dict[str, list[Cell]] = {"share": SHARES.tolist()}
    for point, values in known:
        columns[f"{point.name} (ms)"] = np.round(values, 6).tolist()
    keys = []
    with drawing(name):
        figure = new_figure(HEIGHT, NARROW)
        axes = figure.add_subplot()
        for place, (point, values) in enumerate(drawn):
            role = f"r{1 + round(place * (MOST_CURVES - 1) / max(len(drawn) - 1, 1))}"
            style = ("-", "--", "-.", ":")[place % 4]
            axes.plot(
                values, SHARES * 100, color=STAND_IN[role], linestyle=style, drawstyle="steps-post", linewidth=1.6
            )
            keys.append(Key(f"{point.name} ({point.result})", role, style))
        ends = [float(v) for _, values in drawn for v in (values[0], values[-1])]
        if limit is not None:
            keys.append(Key(f"limit {number(limit)} ms", "limit", "--"))
            if min(ends) / 4 <= limit <= 4 * max(ends):
                limit_line(axes, limit, "x")
                ends.append(limit)
        span_axis(axes, ends, "x")
        axes.set_ylim(0, 101)
        linear_ticks(axes, "y")
        units(axes, y=f"% of {of_what} within", x="ms")
        margins(figure)
        medians = "; ".join(
            f"{p.name}: half within {number(float(v[49]))} ms, 95 % within {number(float(v[94]))} ms" for p, v in drawn
        )
        svg = svg_of(figure, name, f"{title}: cumulative distribution", f"{medians}.")
    left_out = len(known) - len(drawn)
    caption = f"Share of the measured {of_what} that took at most so long; rounds together."
    if left_out:
        caption += f" {left_out} of {len(known)} points are in the data only."
    return Chart(name, title, caption, columns, svg, keys)


def _histogram(name: str, title: str, pair: Sequence[Floats], words: tuple[str, str]) -> Chart | None:
    together = np.concatenate(pair)
    if not len(together):
        return None
    low, high = float(together.min()), float(together.max())
    if low == high:
        edges = np.array([low - 0.5, low + 0.5])
    else:
        # Whole numbers: no bin may be narrower than one, or some could never be filled.
        width = max(1.0, np.ceil((high - low + 1) / BINS))
        edges = np.arange(low - 0.5, high + 0.5 + width, width)
    counts = [np.histogram(values, edges)[0] for values in pair]
    columns: dict[str, Sequence[Cell]] = {
        "from_tokens": np.ceil(edges[:-1]).tolist(),
        "to_tokens": np.floor(edges[1:]).tolist(),
    }
    keys = []
    said = []
    with drawing(name):
        figure = new_figure(HEIGHT, NARROW)
        axes = figure.add_subplot()
        for values, bars, role, fill, word in zip(pair, counts, ("s2", "s1"), (False, True), words, strict=True):
            columns[word.replace(" ", "_")] = bars.tolist() if len(values) else [None] * len(bars)
            if not len(values):
                continue
            if fill:
                axes.stairs(bars, edges, fill=True, color=STAND_IN[role], alpha=0.35)
            axes.stairs(bars, edges, color=STAND_IN[role], linewidth=1.6, linestyle="-" if fill else "--")
            keys.append(
                Key(f"{word}: mean {number(float(values.mean()))}, {len(values)} requests", role, "-" if fill else "--")
            )
            least, mean, most = (number(float(of)) for of in (values.min(), values.mean(), values.max()))
            said.append(f"{word}: {least} to {most} tokens, mean {mean}")
        axes.set_xlim(edges[0] - 0.02 * (edges[-1] - edges[0]), edges[-1] + 0.02 * (edges[-1] - edges[0]))
        axes.set_ylim(0, max(int(bars.max()) for bars in counts) * 1.08)
        linear_ticks(axes)
        linear_ticks(axes, "y")
        units(axes, y="requests", x="tokens")
        margins(figure)
        svg = svg_of(figure, name, f"{title} of the measured ok requests", "; ".join(said) + ".")
    caption = "Measured ok requests of all stages."
    for values, word in zip(pair, words, strict=True):
        if not len(values):
            caption += f" Nothing is known of what was {word}."
    return Chart(name, title, caption, columns, svg, keys)
