"""A comparison of runs as Markdown and in the terminal, by the same cells."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from llm_locust.analysis.words import NOT_MEASURED, number, percent
from llm_locust.records.comparison import ComparedFigure, Comparison, FigureDifference, PartComparison, PointComparison
from llm_locust.records.figures import Figure
from llm_locust.report.inert import LONGEST_NAME, LONGEST_SENTENCE, escape, one_line
from llm_locust.report.markdown_pieces import bullets, escaped, table

NO_DIFFERENCE = "no difference shown"

_SHARES = frozenset({"attainment", "error_rate", "quality_rate", "cached_prompt_share", "prefix_cache_hit_rate"})

_NAMES = {
    "attainment": "attainment",
    "goodput_rps": "goodput, req/s",
    "error_rate": "error rate",
    "quality_rate": "quality: passed",
    "completed_in_window_rps": "completed, req/s",
    "output_tokens_in_window_tps": "output tokens/s",
    "cached_prompt_share": "prompt from cache",
    "prefix_cache_hit_rate": "server's hit rate",
}


def figure_name(name: str) -> str:
    """``TTFT P95, ms``; the word for any other figure."""
    if name in _NAMES:
        return _NAMES[name]
    latency, _, rest = name.partition("_p")
    return f"{latency.upper()} P{rest.removesuffix('_ms')}, ms"


def difference_words(name: str, of: FigureDifference) -> str:
    """``+12.3 (+5 %), 95 % from 3.1 to 21``, and what it shows; or why there is no interval."""
    if of.difference is None:
        return NOT_MEASURED
    said = _signed(name, of.difference)
    if of.relative is not None and name not in _SHARES:
        said += f" ({'+' if of.relative > 0 else ''}{number(of.relative * 100, 3)} %)"
    if of.interval is None:
        return f"{said}; no interval: {of.reason}"
    low, high = _signed(name, of.interval.low), _signed(name, of.interval.high)
    return f"{said}, 95 % {low} to {high}" + ("" if of.shown else f": {NO_DIFFERENCE}")


def value_words(name: str, value: Figure) -> str:
    """A value with its percent sign where it is a share."""
    if name in _SHARES:
        return percent(value if isinstance(value, float) else None, up=name == "error_rate")
    return number(value)


def _signed(name: str, value: float) -> str:
    """A difference with its sign; of shares in percentage points."""
    size = f"{number(abs(value) * 100, 3)} points" if name in _SHARES else number(abs(value))
    return f"{'-' if value < 0 else '+' if value > 0 else ''}{size}"


def _header(comparison: Comparison) -> list[str]:
    labels = [run.label for run in comparison.runs]
    return ["figure", labels[0], *(cell for label in labels[1:] for cell in (label, f"{label} - {labels[0]}"))]


def _row(figure: ComparedFigure) -> list[str]:
    cells = [figure_name(figure.name), value_words(figure.name, figure.values[0])]
    for value, difference in zip(figure.values[1:], figure.differences, strict=True):
        cells += [value_words(figure.name, value), difference_words(figure.name, difference)]
    return cells


def point_title(point: PointComparison, part: PartComparison) -> str:
    """``2 req/s, slice faq, 3 rounds``; of points that are called differently each name."""
    same = len(set(point.names)) == 1
    name = point.names[0] if same else " against ".join(point.names)
    rounds = " against ".join(map(str, point.rounds)) if len(set(point.rounds)) > 1 else str(point.rounds[0])
    of = f", slice {part.slice}" if part.slice is not None else ""
    return f"{name}{of}, {rounds} round{'' if rounds == '1' else 's'}"


def _setting_lines(comparison: Comparison) -> list[str]:
    words = {"allowed": "differs too, as --allow says", "noted": "differs too"}
    return [
        f"{setting.name}: {' against '.join(setting.values)} ({words[setting.role]})"
        for setting in comparison.settings
        if setting.role in words
    ]


def _run_line(comparison: Comparison, place: int) -> str:
    run = comparison.runs[place]
    return f"{run.label} = {run.run_id}, {run.started_at}, {run.host}, {run.model or 'no model named'}"


def render_comparison(comparison: Comparison) -> str:
    """The comparison as Markdown."""
    parts = [
        "# Comparison",
        f"**Compared: {escape(comparison.compared, LONGEST_SENTENCE)}.**",
        bullets(escape(_run_line(comparison, place), LONGEST_SENTENCE) for place in range(len(comparison.runs))),
    ]
    if lines := _setting_lines(comparison):
        parts.append(bullets(escape(line, LONGEST_SENTENCE) for line in lines))
    header = _header(comparison)
    for point in comparison.points:
        for part in point.parts:
            rows = escaped([_row(figure) for figure in part.figures])
            left = [True] + [place % 2 == 1 for place in range(len(header) - 1)]
            parts += [f"## {escape(point_title(point, part), LONGEST_NAME)}", table(header, rows, left)]
        if point.notes:
            parts.append(bullets(escape(note, LONGEST_SENTENCE) for note in point.notes))
    if comparison.not_compared:
        parts += ["## Not compared", bullets(escape(why, LONGEST_SENTENCE) for why in comparison.not_compared)]
    parts += ["## How the intervals were made", bullets(map(escape, comparison.methods))]
    if comparison.limitations:
        parts += ["## What it does not say", bullets(map(escape, comparison.limitations))]
    return "\n\n".join(parts) + "\n"


def print_comparison(comparison: Comparison, console: Console) -> None:
    """The comparison in the terminal. Text from elsewhere is neither read as markup nor sent to it as it is."""

    def line(text: str, style: str = "") -> None:
        console.print(Text(one_line(text, LONGEST_SENTENCE), style=style))

    line(f"Compared: {comparison.compared}", "bold")
    for place in range(len(comparison.runs)):
        line(_run_line(comparison, place))
    for text in _setting_lines(comparison):
        line(text)
    for point in comparison.points:
        for part in point.parts:
            console.print()
            line(point_title(point, part), "bold")
            console.print(_table(comparison, part))
        for note in point.notes:
            line(note)
    console.print()
    for why in comparison.not_compared:
        line(f"Not compared: {why}")
    for text in (*comparison.methods, *comparison.limitations):
        line(text)


def _table(comparison: Comparison, part: PartComparison) -> Table:
    shown = Table(box=box.SIMPLE, pad_edge=False)
    for place, name in enumerate(_header(comparison)):
        value = place % 2 == 1 or (place and place % 2 == 0 and name in {run.label for run in comparison.runs})
        shown.add_column(name, justify="right" if value else "left", no_wrap=place == 0)
    for figure in part.figures:
        shown.add_row(*(Text(one_line(cell, LONGEST_NAME)) for cell in _row(figure)))
    return shown
