"""``llm-locust trace``: what is in a production trace, before it is replayed."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec
import numpy as np
from rich.console import Console
from rich.text import Text

from llm_locust.analysis.trace_figures import LengthFigures, TraceFigures, trace_figures
from llm_locust.analysis.words import number, percent
from llm_locust.arrivals.traces import FORMATS, Replay, read_trace, replay
from llm_locust.cli.seconds_option import a_place
from llm_locust.cli.trace_plot import bar_lines, check_picture, draw
from llm_locust.report.inert import LONGEST_NAME, one_line
from llm_locust.report.quantities import count, duration

_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))

_FORMAT_LIST = "\b\nFormats:\n" + "\n".join(f"  {of.name:<9} {of.about}" for of in FORMATS.values())


@click.command("trace", epilog=_FORMAT_LIST)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--format", "format_name", type=click.Choice(list(FORMATS)), help="Default: as the file's first line suggests."
)
@click.option(
    "--from", "from_s", callback=a_place, metavar="S", help="Start of a slice, from the first row on (90, 90s, 5m)."
)
@click.option("--to", "to_s", callback=a_place, metavar="S", help="End of the slice.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON, without a plot.")
@click.option(
    "--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw arrivals into FILE.png or FILE.svg."
)
def command(
    file: Path, format_name: str | None, from_s: float | None, to_s: float | None, as_json: bool, plot: Path | None
) -> None:
    """Say what is in the trace FILE: rows, rates, burstiness, lengths, conversations, shared prefixes.

    Every row that is left out is counted by its reason; a row that is wrong ends the command with its line.

    \b
    Exit status: 0 the trace can be used
                 2 it cannot; file, line and reason are named
    """
    if plot is not None:
        check_picture(plot)
    trace = read_trace(file, format_name)
    played = replay(trace, start_s=from_s, end_s=to_s, random=np.random.default_rng(0))  # nothing here is random
    figures = trace_figures(played)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(figures), indent=2).decode())
    else:
        print_figures(figures, played, Console(), found=format_name is None)
    if plot is not None:
        draw(played, plot)
        click.echo(f"Plot: {plot}", err=as_json)


def print_figures(figures: TraceFigures, played: Replay, console: Console, *, found: bool) -> None:
    """Print what a person wants to know of a trace. What comes from the file is neither obeyed nor read as markup."""
    for name, text in _lines(figures, found=found):
        # Wrapped by hand: what goes on stands under what it belongs to.
        for index, part in enumerate(Text(text).wrap(console, max(20, console.width - 13))):
            console.print(Text(f"{name if index == 0 else '':<12} {part.plain.rstrip()}"), soft_wrap=True)
    console.print()
    for bars in bar_lines(played, console.width, ascii_only=console.options.ascii_only):
        console.print(Text(bars), soft_wrap=True)


def _lines(figures: TraceFigures, *, found: bool) -> list[tuple[str, str]]:
    """Every figure as a name and a sentence."""
    dropped = ", ".join(f"{rows:,} dropped ({why})" for why, rows in figures.dropped.items()) or "none dropped"
    lines = [
        ("Trace", one_line(figures.file, LONGEST_NAME)),
        ("Format", figures.format + (" (by its first line)" if found else "")),
        ("SHA-256", figures.sha256),
        ("Rows", f"{figures.read:,} read, {figures.used:,} used, {dropped}"),
        ("Times", f"{figures.unit}; resolution {_resolution(figures.resolution_ns)}"),
        (
            "Span",
            f"{number(figures.from_s, 7)} to {number(figures.to_s, 7)} s: {_span(figures.seconds)}, "
            f"{figures.arrivals:,} arrivals",
        ),
        (
            "Rate",
            f"mean {number(figures.mean_rps)} a second, {number(figures.mean_per_minute)} a minute; "
            f"peak {figures.peak_per_second:,} in a second, {figures.peak_per_minute:,} in a minute",
        ),
        (
            "Burstiness",
            f"gap CV {number(figures.gap_cv)}; index of dispersion {number(figures.dispersion_1s)} at 1 s, "
            f"{number(figures.dispersion_10s)} at 10 s (Poisson: 1)",
        ),
        ("Input", _lengths(figures.input_tokens, figures.arrivals)),
        ("Output", _lengths(figures.output_tokens, figures.arrivals)),
    ]
    if figures.total_tps is not None:
        lines.append(
            (
                "Offered",
                f"{count(figures.total_tps)} tokens a second: "
                f"{count(figures.input_tps)} input, {count(figures.output_tps)} output",
            )
        )
    if (sessions := figures.sessions) is not None:
        lines.append(
            (
                "Sessions",
                f"{sessions.sessions:,} of {sessions.arrivals:,} arrivals; "
                f"turns: mean {number(sessions.mean_turns)}, P95 {sessions.p95_turns:,}, max {sessions.max_turns:,}",
            )
        )
    if (prefix := figures.prefix) is not None:
        lines.append(
            (
                "Prefixes",
                f"{percent(prefix.share)} of {prefix.blocks:,} blocks of {prefix.block_tokens} tokens were seen before: "
                "what an unbounded prefix cache would hit",
            )
        )
    return lines + [("Note" if index == 0 else "", note) for index, note in enumerate(figures.notes)]


def _lengths(found: LengthFigures | None, arrivals: int) -> str:
    if found is None:
        return "not in the trace"
    known = "" if found.known == arrivals else f" (known for {found.known:,})"
    percentiles = f"P50 {found.p50:,}, P95 {found.p95:,}, P99 {found.p99:,}, max {found.max:,}"
    return f"tokens: mean {number(found.mean)}, {percentiles}{known}"


def _resolution(step_ns: int) -> str:
    unit_ns, unit = next((size, name) for size, name in _UNITS if step_ns >= size)
    return f"{number(step_ns / unit_ns)} {unit}"


def _span(seconds: float) -> str:
    return duration(round(seconds)) if seconds >= 120 else f"{number(seconds)} s"
