"""Charts over the ladder: goodput and latency against the offered rate, throughput against concurrency.

Open and closed loops never share a chart, and each curve is of one arrival process. A stage whose generator fell short
says nothing of the server: it is marked, and no curve runs through it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from llm_locust.analysis.words import number, percent
from llm_locust.records.summary import StageSummary
from llm_locust.report.html.axes import from_zero, limit_line, linear_ticks, margins, span_axis, units
from llm_locust.report.html.chart import Chart, Key
from llm_locust.report.html.run_data import RunData
from llm_locust.report.html.theme import NARROW, STAND_IN, drawing, new_figure, svg_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEIGHT = 300
MOST_IN_WORDS = 12
"""Values that the alternative text of a chart names; for more it points to the data."""

LATENCIES = (
    ("ttft", "TTFT", "time to first token"),
    ("tpot", "TPOT", "time per output token"),
    ("e2e", "E2E", "end to end"),
)
PERCENTILES = ((50, "s3", ":"), (95, "s1", "-"), (99, "s4", "--"))

IN_SIGHT = 4
"""A limit is drawn while it is not more than so many times what was measured; the legend has its number anyhow."""

OFFERED, IN_FLIGHT = "offered rate, requests per second", "requests kept in flight"

Curve = Sequence[StageSummary]
Value = Callable[[StageSummary], float | None]
Columns = dict[str, list[str | int | float | None]]


def open_curves(data: RunData) -> list[list[StageSummary]]:
    """Open stages by arrival process and state of the server that they meet; the process with most rates comes first."""
    return _curves(data, "open")


def closed_curves(data: RunData) -> list[list[StageSummary]]:
    """Closed-loop stages by the state of the server that they meet."""
    return _curves(data, "closed")


def _curves(data: RunData, mode: str) -> list[list[StageSummary]]:
    found: dict[tuple[object, object], list[StageSummary]] = {}
    for stage in data.stages:
        of = stage.summary
        if of.mode == mode and _place(of) is not None and of.verdict.result != "not_run":
            found.setdefault((of.condition is not None, (of.arrivals, of.condition)), []).append(of)
    for curve in found.values():
        curve.sort(key=lambda of: (_place(of) or 0.0, of.round))
    ordered = sorted(found.items(), key=lambda item: (item[0][0], -len({_place(of) for of in item[1]})))
    return [curve for _, curve in ordered]


def curve_name(curve: Curve) -> str:
    """``open, poisson`` or ``closed loop``: its arrival mode, its process, what sets it apart."""
    of = curve[0]
    parts = ["closed loop"] if of.mode == "closed" else ["open", of.arrivals or "poisson"]
    return ", ".join([*parts, *([of.condition] if of.condition else [])])


def goodput_chart(data: RunData) -> Chart | None:
    """Goodput and what completed in the window against the offered rate; ``None`` without open stages."""
    curves = open_curves(data)
    if not curves:
        return None
    name = "goodput-against-rate"
    summary = data.summary
    stages = [of for curve in curves for of in curve]
    top = max(_place(of) or 0.0 for of in stages)
    needed = _attainment_needed(stages)
    keys: list[Key] = []
    with drawing(name):
        figure = new_figure(HEIGHT)
        axes = figure.add_subplot()
        axes.set_xlim(0, top * 1.06)
        keys += _boundary(axes, data, top)
        axes.plot([0, top], [0, top], color=STAND_IN["muted"], linestyle=":", linewidth=1.2)
        keys.append(Key("all that is offered", "muted", ":"))
        if needed is not None and any(of.goodput_rps is not None for of in stages):
            axes.plot([0, top], [0, needed * top], color=STAND_IN["limit"], linestyle="--", linewidth=1.4)
            keys.append(Key(f"gate: attainment {percent(needed)} of what is offered", "limit", "--"))
        for place, curve in enumerate(curves):
            completed, good = (("s2", "s1"), ("s6", "s5"))[min(place, 1)]
            label = curve_name(curve)
            if _draw(axes, curve, _completed, completed, "--", linked=place == 0, worst=min):
                keys.append(Key(f"completed in the window ({label})", completed, "--" if place == 0 else "dot"))
            if _draw(axes, curve, _good, good, "-", linked=place == 0, worst=min):
                keys.append(Key(f"goodput ({label})", good, "-" if place == 0 else "dot"))
        if any(_not_judged(of) for of in stages):
            keys.append(Key("stage that was not judged: no curve runs through it", "muted", "cross"))
        from_zero(axes, [top, *(of.completed_in_window_rps for of in stages)])
        linear_ticks(axes, "y")
        linear_ticks(axes)
        units(axes, y="requests per second", x="offered rate, requests per second")
        margins(figure, top=58)
        svg = svg_of(
            figure, name, "Goodput and completed requests against the offered rate", _goodput_words(data, stages)
        )
    caption = "Good: met every limit. Completed: ended in the window, good or not."
    if not summary.slo:
        caption = "No limits were chosen (--slo), so there is no goodput. Completed: ended in the window."
    elif all(of.goodput_rps is None for of in stages):
        why = next((of.goodput_unavailable for of in stages if of.goodput_unavailable), "nothing was measured")
        caption += f" Goodput is not available: {why}."
    if any(of.round for of in stages):
        caption += " Each dot is a round; the line runs through the worst."
    return Chart(name, "Goodput against the offered rate", caption, _rate_columns(stages), svg, keys)


def latency_charts(data: RunData) -> list[Chart]:
    """TTFT, TPOT and E2E against the offered rate, and against the concurrency of closed loops: P50, P95, P99."""
    found = []
    for curves in (open_curves(data), closed_curves(data)):
        if curves:
            found += [_latency(data, curves, *latency) for latency in LATENCIES]
    return [chart for chart in found if chart is not None]


def _latency(data: RunData, curves: Sequence[Curve], name: str, short: str, words: str) -> Chart | None:
    """The first curve is drawn in full; of the others (a burst, a replay) the P95."""
    curve, stages = curves[0], [of for curve in curves for of in curve]
    limit = data.summary.slo.get(name)
    parts = [(f"P{at}", _percentile(f"{name}_p{at}_ms"), " ms") for at, _, _ in PERCENTILES]
    values = [known for of in stages for _, value, _ in parts if (known := value(of)) is not None]
    if not values:
        return None
    is_open = curve[0].mode == "open"
    file = f"latency-{name}-{'against-rate' if is_open else 'against-concurrency'}"
    title = f"{short}, {words}"
    with drawing(file):
        figure = new_figure(HEIGHT - 50, NARROW)
        axes = figure.add_subplot()
        axes.set_xlim(0, _furthest(stages) * 1.06)
        keys = []
        for (label, value, _), (_, role, style) in zip(parts, PERCENTILES, strict=True):
            if _draw(axes, curve, value, role, style, linked=True, worst=max):
                keys.append(Key(label, role, style))
        keys += [
            Key(f"P95 ({curve_name(other)})", "s5", "dot")
            for other in curves[1:]
            if _draw(axes, other, parts[1][1], "s5", "-", linked=False, worst=max)
        ]
        if limit is not None:
            keys.append(Key(f"limit {number(limit)} ms", "limit", "--"))
            if limit <= IN_SIGHT * max(values):
                limit_line(axes, limit)
                values.append(limit)
        span_axis(axes, values, "y")
        linear_ticks(axes)
        units(axes, y="ms", x=OFFERED if is_open else IN_FLIGHT)
        margins(figure)
        said = _in_words(curve, parts)
        svg = svg_of(figure, file, f"{title}: P50, P95 and P99 ({curve_name(curve)})", said)
    columns = _identity(stages)
    for at, _, _ in PERCENTILES:
        found = [of.percentiles.get(f"{name}_p{at}_ms") for of in stages]
        columns[f"{name}_p{at}_ms"] = [of.value if of is not None else None for of in found]
        columns[f"{name}_p{at}_ms_low"] = [of.low if of is not None else None for of in found]
        columns[f"{name}_p{at}_ms_high"] = [of.high if of is not None else None for of in found]
        columns["n"] = [of.n if of is not None else None for of in found]
    columns["limit_ms"] = [limit] * len(stages)
    caption = f"Over ok requests, {curve_name(curve)}." + (" No limit was chosen for it." if limit is None else "")
    return Chart(file, title, caption, columns, svg, keys)


def concurrency_charts(data: RunData) -> list[Chart]:
    """What closed loops got through against the number in flight; none without such stages."""
    curves = closed_curves(data)
    if not curves:
        return []
    charts = [
        _throughput(
            data, curves[0], "requests-against-concurrency", "Requests", "requests per second", _completed, _good
        ),
        _throughput(
            data, curves[0], "tokens-against-concurrency", "Output tokens", "output tokens per second", _tokens
        ),
    ]
    return [chart for chart in charts if chart is not None]


def _throughput(
    data: RunData, curve: Curve, name: str, what: str, unit: str, value: Value, good: Value | None = None
) -> Chart | None:
    drawn = [value(of) for of in curve]
    if all(found is None for found in drawn):
        return None
    knee = data.summary.knee.concurrency if data.summary.knee is not None else None
    title = f"{what} against concurrency"
    with drawing(name):
        figure = new_figure(HEIGHT - 40)
        axes = figure.add_subplot()
        axes.set_xlim(0, _furthest(curve) * 1.06)
        keys = []
        if _draw(axes, curve, value, "s2", "--", linked=True, worst=min):
            keys.append(Key(f"in the window ({curve_name(curve)})", "s2", "--"))
        if good is not None and _draw(axes, curve, good, "s1", "-", linked=True, worst=min):
            keys.append(Key(f"goodput ({curve_name(curve)})", "s1"))
            drawn += [good(of) for of in curve]
        if knee is not None:
            axes.axvline(knee, color=STAND_IN["pass"], linewidth=1.4)
            keys.append(Key(f"knee: {knee} in flight", "pass"))
        from_zero(axes, drawn)
        linear_ticks(axes, "y")
        linear_ticks(axes)
        units(axes, y=unit, x=IN_FLIGHT)
        margins(figure)
        svg = svg_of(figure, name, title, _in_words(curve, [("in the window", value, f" {unit}")]))
    caption = "A closed loop has no offered rate: it sends when a reply has come."
    return Chart(name, title, caption, _rate_columns(curve), svg, keys)


def _completed(of: StageSummary) -> float | None:
    return of.completed_in_window_rps


def _good(of: StageSummary) -> float | None:
    return of.goodput_rps


def _tokens(of: StageSummary) -> float | None:
    return of.output_tokens_in_window_tps


def _percentile(name: str) -> Value:
    def value(of: StageSummary) -> float | None:
        found = of.percentiles.get(name)
        return found.value if found is not None and isinstance(found.value, float | int) else None

    return value


def _furthest(stages: Sequence[StageSummary]) -> float:
    return max(_place(of) or 0.0 for of in stages)


def _place(of: StageSummary) -> float | None:
    return of.concurrency if of.mode == "closed" else of.rate_rps


def _not_judged(of: StageSummary) -> bool:
    return of.verdict.result in ("invalid", "not_run") or of.measured == 0


def _draw(
    axes: Axes,
    curve: Curve,
    value: Value,
    role: str,
    style: str,
    *,
    linked: bool,
    worst: Callable[[list[float]], float],
) -> bool:
    """A dot for every stage that was judged, a cross for one that was not, a line through the worst round of each place."""
    judged: dict[float, list[float]] = {}
    void: list[tuple[float, float]] = []
    for of in curve:
        at, found = _place(of), value(of)
        if at is None or found is None or not math.isfinite(found):
            continue
        if _not_judged(of):
            void.append((at, found))
        else:
            judged.setdefault(at, []).append(found)
    colour = STAND_IN[role]
    if linked and judged:
        axes.plot(list(judged), [worst(of) for of in judged.values()], color=colour, linestyle=style, zorder=3)
    dots = [(at, found) for at, of in judged.items() for found in of]
    if dots:
        marker = "o" if linked else "D"
        axes.plot(*zip(*dots, strict=True), color=colour, marker=marker, linestyle="none", zorder=4)
    if void:
        axes.plot(*zip(*void, strict=True), color=colour, marker="x", linestyle="none", markeredgewidth=1.6, zorder=4)
    return bool(dots or void)


def _attainment_needed(stages: Sequence[StageSummary]) -> float | None:
    limits = {
        gate.limit
        for of in stages
        for gate in of.verdict.gates
        if gate.name == "attainment" and gate.slice is None and isinstance(gate.limit, float | int)
    }
    return limits.pop() if len(limits) == 1 else None


def _boundary(axes: Axes, data: RunData, top: float) -> list[Key]:
    """The last rate that passed, the first that failed, and what lies between them."""
    last, first = data.summary.sustained_rate_rps, data.summary.first_failing_rate_rps
    keys = []
    if last is not None and first is not None:
        axes.axvspan(last, first, color=STAND_IN["grid"], linewidth=0, zorder=0.5)
        keys.append(Key("between them: not tested", "grid", "area"))
    for at, role, text, side in ((last, "pass", "sustained", "right"), (first, "fail", "first fail", "left")):
        if at is None:
            continue
        axes.axvline(at, color=STAND_IN[role], linewidth=1.4, zorder=1.2)
        flipped = at < 0.3 * top if side == "right" else at > 0.7 * top
        to_the = {"right": "left", "left": "right"}[side] if flipped else side
        axes.annotate(
            f"{text} {number(at)}",
            (at, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(-3 if to_the == "right" else 3, 30 if flipped else 16),  # above the unit; above the other one
            textcoords="offset points",
            ha=to_the,
            va="bottom",
            color=STAND_IN[role],
        )
        keys.append(Key(f"{text}: {number(at)} req/s", role))
    return sorted(keys, key=lambda key: key.style == "area")


def _identity(stages: Sequence[StageSummary]) -> Columns:
    return {
        "stage": [of.stage for of in stages],
        "round": [of.round for of in stages],
        "arrival_mode": [of.mode for of in stages],
        "arrivals": [of.arrivals for of in stages],
        "condition": [of.condition for of in stages],
        "offered_rps": [of.rate_rps for of in stages],
        "concurrency": [of.concurrency for of in stages],
        "result": [of.verdict.result for of in stages],
        "strength": [of.verdict.strength for of in stages],
    }


def _rate_columns(stages: Sequence[StageSummary]) -> Columns:
    return _identity(stages) | {
        "measured": [of.measured for of in stages],
        "achieved_rate_rps": [of.achieved_rate_rps for of in stages],
        "completed_in_window_rps": [of.completed_in_window_rps for of in stages],
        "goodput_rps": [of.goodput_rps for of in stages],
        "attainment": [of.attainment for of in stages],
        "attainment_low": [of.attainment_interval.low if of.attainment_interval else None for of in stages],
        "attainment_high": [of.attainment_interval.high if of.attainment_interval else None for of in stages],
        "error_rate": [of.error_rate for of in stages],
        "output_tokens_in_window_tps": [of.output_tokens_in_window_tps for of in stages],
    }


def _in_words(curve: Curve, parts: Sequence[tuple[str, Value, str]]) -> str:
    if len(curve) > MOST_IN_WORDS:
        return f"{len(curve)} stages, {curve_name(curve)}; the values are in the CSV file beside the report."
    said = []
    for of in curve:
        values = ", ".join(f"{name} {number(value(of))}{unit}" for name, value, unit in parts)
        place = f"{number(_place(of))} {'in flight' if of.mode == 'closed' else 'req/s offered'}"
        said.append(f"{place}: {values} ({of.verdict.result})")
    return "; ".join(said) + "."


def _goodput_words(data: RunData, stages: Sequence[StageSummary]) -> str:
    parts = [("goodput", _good, " req/s"), ("completed", _completed, " req/s")]
    return f"{_in_words(stages, parts)} {data.summary.verdict}"
