"""The dry run in the terminal: stages and time, arrivals, what they can show, tokens and cost, what will disappoint."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from llm_locust.analysis.words import NOT_MEASURED, number
from llm_locust.records import format_slo
from llm_locust.sizing.preview import (
    CHARACTERS_PER_TOKEN,
    PercentileAhead,
    Preview,
    StagePreview,
    Tokens,
    requests_to_tell,
)

TEN_MILLION = 10_000_000
"""From here on counts are in millions, or the table of arrivals outgrows 80 columns."""

_ENOUGH = "enough"


def preview_text(preview: Preview, width: int = 80) -> str:
    """The dry run as plain text of at most ``width`` columns."""
    text = io.StringIO()
    print_preview(preview, Console(file=text, width=width, color_system=None, legacy_windows=False))
    return text.getvalue()


def print_preview(preview: Preview, console: Console) -> None:
    """Print the dry run; 80 columns are enough. Text that may come from elsewhere is never read as markup."""
    _say(console, "Dry run: nothing is sent.", style="bold")
    if not preview.stages:
        _say(console, "There are no stages.")
    else:
        _section(console, "Stages, in seconds", _stages(preview))
        _say(console, _time(preview))
    open_stages = [stage for stage in preview.stages if stage.mode == "open"]
    if open_stages:
        _section(console, _arrivals_title(open_stages), _arrivals(preview, open_stages))
        _section(console, "What the requests of the window can show, if all are ok", _showing(preview, open_stages))
        _section(console, "Window that would be needed at this rate, in seconds", _windows(preview, open_stages))
    console.print()
    for line in (*_judgement(preview), *_tokens(preview), *_costs(preview), *_notes(preview)):
        _say(console, line)
    console.print()
    for warned in preview.warnings:
        stages = f"{_stage_list(warned.stages)}: " if warned.stages else ""
        _say(console, f"Warning: {stages}{warned.text}", style="yellow", starts="Warning: ")
    if not preview.warnings:
        _say(console, "No warnings.")


def _say(console: Console, line: str, *, style: str = "", starts: str = "") -> None:
    """A paragraph; only its beginning is coloured where ``starts`` is given. Colour repeats what the words say."""
    text = Text(line, style="" if starts else style)
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
    table.add_row(*map(Text, cells))


# --- tables --------------------------------------------------------------------------------------------------------


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
                stage.label + (f" r{stage.round}" if stage.round else ""),
                _seconds(stage.warmup_s),
                _seconds(stage.window_s),
                _seconds(stage.cooldown_at_most_s),
                _seconds(stage.drain_at_most_s),
                _seconds(stage.at_least_s),
                _seconds(stage.at_most_s),
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
                _count(stage.window_expected),
                _count(stage.window_planned),
                _count(stage.all_expected),
                _count(stage.all_planned),
                *_token_cells(stage.tokens),
            ),
        )
    if len(stages) > 1 and preview.expected is not None:
        _row(
            table,
            ("", "run", "", "", _count(preview.expected), _count(preview.planned), *_token_cells(preview.tokens)),
        )
    return table


def _token_cells(tokens: Tokens | None) -> tuple[str, str]:
    if tokens is None:
        return NOT_MEASURED, NOT_MEASURED
    return ("" if tokens.exact else "~") + _count(tokens.output_at_most, up=True), _count(tokens.input_estimated)


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
                _count(stage.samples),
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
        cells = [_ENOUGH if ahead.signed else _seconds(ahead.window_needed_s) for ahead in stage.percentiles]
        cells.append(_ENOUGH if stage.best_strength == "signed" else _seconds(stage.sign_window_needed_s))
        _row(table, (str(stage.number), _seconds(stage.window_s), *cells))
    return table


# --- sentences -----------------------------------------------------------------------------------------------------


def _time(preview: Preview) -> str:
    least = _duration(math.floor(preview.at_least_s))
    if preview.at_most_s is None:
        text = "The run lasts until it is stopped" + (f", at least {least}." if preview.at_least_s else ".")
    else:
        most = _duration(math.ceil(preview.at_most_s))
        text = f"The run takes at least {least}, at most {most}, and a little to get workers ready."
    if any(stage.mode == "open" for stage in preview.stages):
        text += " The cool-down ends early when the requests of the window have ended."
    return f"{text} A stage drains until its last request has ended or met --deadline ({number(preview.deadline_s)} s)."


def _judgement(preview: Preview) -> list[str]:
    lines = [f"Limits in ms: {format_slo(preview.slo) or 'none chosen'}"]
    gates = [
        f"{gate.name} {gate.relation} {gate.limit if isinstance(gate.limit, str) else number(gate.limit)}"
        + (f" (signed from {gate.requests_to_sign} requests)" if gate.requests_to_sign > 1 else "")
        for gate in preview.gates
    ]
    defaults = " (defaults)" if all(gate.default for gate in preview.gates) else ""
    lines.append(f"Gates{defaults}: {'; '.join(gates)}. These counts are for a batch without a failed or late request.")
    percents = [ahead.percent for stage in preview.stages[:1] for ahead in stage.percentiles]
    if percents:
        told = ", ".join(f"P{percent} below {requests_to_tell(percent)} requests" for percent in percents)
        lines.append(f"A percentile is signed when it has a 95 % upper bound. It is the maximum for {told}.")
    return lines


def _tokens(preview: Preview) -> list[str]:
    facts = preview.workload
    prompts = f", {_count(facts.prompts)} prompts" if facts.prompts is not None else ""
    lines = [f"Workload: {facts.name} ({facts.kind}{prompts})"]
    tokens = preview.tokens
    if tokens is None:
        lines.append("Tokens: not known, for a closed loop sends as much as the server takes.")
        return lines
    bound = "at most" if tokens.exact else "at most about (extrapolated from a sample)"
    lines.append(
        f"Tokens: output {bound} {_count(tokens.output_at_most, up=True)} (max_tokens of every planned prompt); input about "
        f"{_count(tokens.input_estimated)}, an estimate: characters / {CHARACTERS_PER_TOKEN}, without chat template."
    )
    return lines


def _costs(preview: Preview) -> list[str]:
    prices, cost = preview.prices, preview.cost
    parts = []
    if prices.per_hour is not None:
        rate = f"{number(prices.per_hour)} an hour"
        most = cost.machine_at_most
        spent = f"{number(cost.machine_at_least)} to {number(most)} ({rate})"
        parts.append("machine " + (spent if most is not None else f"{rate} until it is stopped"))
    if prices.input_per_million is not None:
        spent = "not known" if cost.input_estimated is None else f"about {number(cost.input_estimated)}"
        parts.append(f"input {spent} ({number(prices.input_per_million)} a million tokens)")
    if prices.output_per_million is not None:
        bound = "at most" if preview.tokens and preview.tokens.exact else "at most about"
        spent = "not known" if cost.output_at_most is None else f"{bound} {number(cost.output_at_most)}"
        parts.append(f"output {spent} ({number(prices.output_per_million)} a million tokens)")
    return [f"Cost estimate, in the currency of the prices: {'; '.join(parts)}."] if parts else []


def _notes(preview: Preview) -> list[str]:
    lines = []
    for stage in preview.stages:
        if stage.mode == "closed":
            lasts = ", and it lasts until it is stopped" if stage.window_s is None else ""
            lines.append(f"Note: stage {stage.number} is a closed loop: nothing is planned{lasts}.")
        elif stage.all_planned is None:
            lines.append(f"Note: the plan of stage {stage.number} is too large to draw it here: its counts are means.")
        if stage.idle_workers and stage.all_planned:
            lines.append(
                f"Note: in stage {stage.number} {stage.idle_workers} of {preview.workers} workers get no arrival. "
                "That is fine."
            )
    prompts = preview.workload.prompts
    if prompts is not None and preview.planned is not None and preview.planned > prompts:
        lines.append(
            f"Note: {_count(preview.planned)} arrivals share {_count(prompts)} prompts: one that comes again may be "
            "answered from the server's prefix cache."
        )
    return lines


# --- numbers -------------------------------------------------------------------------------------------------------


def _seconds(value: float | None) -> str:
    return NOT_MEASURED if value is None else number(value)


def _count(value: float | None, *, up: bool = False) -> str:
    """``1,234,567``; a mean below 100 keeps its decimals, ten million and more are ``12.3 M`` (never less, with ``up``)."""
    if value is None:
        return NOT_MEASURED
    if value >= TEN_MILLION:
        tenths = value / 1e5
        return f"{(math.ceil(tenths) if up else round(tenths)) / 10:,.1f} M"
    return number(value) if value < 100 else f"{round(value):,}"


def _duration(seconds: int) -> str:
    """``45 s``, ``3 min 30 s``, ``2 h 5 min``: seconds are kept, for what is cut off could flatter."""
    parts = [(seconds // 3600, "h"), (seconds // 60 % 60, "min"), (seconds % 60, "s")]
    return " ".join(f"{value} {unit}" for value, unit in parts if value) or "0 s"


def _stage_list(numbers: Sequence[int]) -> str:
    """``stages 1 to 3 and 5``."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and runs[-1][-1] == n - 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    words = [str(run[0]) if len(run) == 1 else f"{run[0]} {'and' if len(run) == 2 else 'to'} {run[-1]}" for run in runs]
    return f"stage{'s' if len(numbers) > 1 else ''} {', '.join(words)}"
