"""The dry run in the terminal: stages and time, arrivals, what they can show, tokens and cost, what will disappoint."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from llm_locust.analysis.words import NOT_MEASURED, number, round_mark
from llm_locust.report import preview_sentences as sentences
from llm_locust.report.inert import LONGEST_NAME, one_line
from llm_locust.report.quantities import count
from llm_locust.sizing import PercentileAhead, Preview, StagePreview, Tokens

_ENOUGH = "enough"


def preview_text(preview: Preview, width: int = 80) -> str:
    """The dry run as plain text of at most ``width`` columns."""
    text = io.StringIO()
    print_preview(preview, Console(file=text, width=width, color_system=None, legacy_windows=False))
    return text.getvalue()


def print_preview(preview: Preview, console: Console) -> None:
    """Print the dry run; 80 columns are enough.

    Text that may come from elsewhere is neither read as markup nor sent to the terminal as it is.
    """
    _say(console, "Dry run: nothing is sent.", style="bold")
    if not preview.stages:
        _say(console, "There are no stages.")
    else:
        _section(console, "Stages, in seconds", _stages(preview))
        _say(console, sentences.time(preview))
    open_stages = [stage for stage in preview.stages if stage.mode == "open"]
    if open_stages:
        _section(console, _arrivals_title(open_stages), _arrivals(preview, open_stages))
        _section(console, "What the requests of the window can show, if all are ok", _showing(preview, open_stages))
        _section(console, "Window that would be needed at this rate, in seconds", _windows(preview, open_stages))
    console.print()
    for line in sentences.after_the_tables(preview):
        _say(console, line)
    console.print()
    for warned in preview.warnings:
        _say(console, sentences.warning(warned), style="yellow", starts="Warning: ")
    if not preview.warnings:
        _say(console, "No warnings.")


def _say(console: Console, line: str, *, style: str = "", starts: str = "") -> None:
    """A paragraph; only its beginning is coloured where ``starts`` is given. Colour repeats what the words say."""
    text = Text(one_line(line), style="" if starts else style)
    if starts:
        text.stylize(style, 0, len(starts))
    console.print(text)


def _section(console: Console, title: str, table: Table) -> None:
    console.print()
    _say(console, title, style="bold")
    console.print(table)


def _table(*columns: tuple[str, str]) -> Table:
    """A table of right-aligned columns of two header lines; those of one line hold words: aligned left, and folded."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
    for name, unit in columns:
        table.add_column(Text(f"{name}\n{unit}"), justify="right" if unit else "left", no_wrap=bool(unit))
    return table


def _row(table: Table, cells: Iterable[str]) -> None:
    table.add_row(*(Text(one_line(cell, LONGEST_NAME)) for cell in cells))


def _stages(preview: Preview) -> Table:
    table = _table(
        ("#", ""),
        ("stage", ""),
        ("warm-up", "s"),
        ("window", "s"),
        ("cool-down", "at most"),
        ("drain", "at most"),
        ("all", "at least"),
        ("all", "at most"),
    )
    for stage in preview.stages:
        _row(
            table,
            (
                str(stage.number),
                " ".join(filter(None, (stage.label, round_mark(stage.round)))),
                number(stage.warmup_s),
                number(stage.window_s),
                number(stage.cooldown_at_most_s),
                number(stage.drain_at_most_s),
                number(stage.at_least_s),
                number(stage.at_most_s),
            ),
        )
    return table


def _arrivals_title(stages: Sequence[StagePreview]) -> str:
    seeds = sorted({stage.seed for stage in stages})
    seed = f"seed {seeds[0]}" if len(seeds) == 1 else "the seed of each stage"
    return f"Arrivals (mean: rate x time; planned: exactly, with {seed})"


def _arrivals(preview: Preview, stages: Sequence[StagePreview]) -> Table:
    table = _table(
        ("#", ""),
        ("offered", "req/s"),
        ("window", "mean"),
        ("window", "planned"),
        ("in all", "mean"),
        ("in all", "planned"),
        ("output", "tokens <="),
        ("input", "tokens ~"),
    )
    for stage in stages:
        _row(
            table,
            (
                str(stage.number),
                number(stage.rate_rps),
                count(stage.window_expected),
                count(stage.window_planned),
                count(stage.all_expected),
                count(stage.all_planned),
                *_token_cells(stage.tokens),
            ),
        )
    if len(stages) > 1 and preview.expected is not None:
        _row(
            table,
            ("", "run", "", "", count(preview.expected), count(preview.planned), *_token_cells(preview.tokens)),
        )
    return table


def _token_cells(tokens: Tokens | None) -> tuple[str, str]:
    if tokens is None:
        return NOT_MEASURED, NOT_MEASURED
    return ("" if tokens.exact else "~") + count(tokens.output_at_most, up=True), count(tokens.input_estimated)


def _showing(preview: Preview, stages: Sequence[StagePreview]) -> Table:
    percents = [ahead.percent for ahead in stages[0].percentiles]
    table = _table(
        ("#", ""), ("window", "requests"), *((f"P{percent} is", "") for percent in percents), ("stage is at best", "")
    )
    for stage in stages:
        strength = f" ({stage.best_strength})" if stage.best_strength else ""
        _row(
            table,
            (
                str(stage.number),
                count(stage.samples),
                *map(_shows, stage.percentiles),
                f"{stage.best_result or NOT_MEASURED}{strength}",
            ),
        )
    return table


def _shows(ahead: PercentileAhead) -> str:
    if ahead.at_maximum is None:
        return NOT_MEASURED
    if ahead.at_maximum:
        return "the maximum"
    return "signed" if ahead.signed else "unsigned"


def _windows(preview: Preview, stages: Sequence[StagePreview]) -> Table:
    table = _table(
        ("#", ""),
        ("window", "now"),
        *((f"P{ahead.percent} signed", f"from {ahead.requests_needed}") for ahead in stages[0].percentiles),
        ("pass signed", f"from {preview.requests_to_sign}"),
    )
    for stage in stages:
        cells = [_ENOUGH if ahead.signed else number(ahead.window_needed_s) for ahead in stage.percentiles]
        cells.append(_ENOUGH if stage.best_strength == "signed" else number(stage.sign_window_needed_s))
        _row(table, (str(stage.number), number(stage.window_s), *cells))
    return table
