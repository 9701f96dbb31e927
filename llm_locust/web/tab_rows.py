"""The rows of the tab "LLM" and of its CSV: one per stage, slice and user class, from a picture of the run.

Pure: no Flask in here. What is not measured is a dash in the table and an empty cell in the file, never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from llm_locust.analysis.words import counts, number, percent
from llm_locust.live.snapshot import LATENCIES, GeneratorView, GroupView, Snapshot, Spread, StageView, left_words
from llm_locust.records.text import one_line
from llm_locust.report.csv_cells import Cell

DASH = "–"
MOST_ROWS = 500
"""In the browser's table, as Locust bounds its own; the CSV has them all."""
LONGEST_CELL = 160
_NARROW = "\u00a0/ "
"""Between two figures of a cell: a line breaks after the stroke, not before it."""


class TabColumn(NamedTuple):
    """One column of the table in Locust's UI."""

    key: str
    title: str
    cell: Callable[[StageView, GroupView | None], str]


def table_rows(run: Snapshot) -> list[dict[str, str]]:
    """The table, newest stages whole and the oldest without their slices where it would be too long for a browser."""
    rows: list[dict[str, str]] = []
    for stage in reversed(run.stages):
        groups = told_apart(stage.groups)
        room = MOST_ROWS - len(rows)
        if room <= 0:
            break
        of_stage = groups if len(groups) <= room else groups[:1]
        rows[:0] = [{column.key: column.cell(stage, group) for column in COLUMNS} for group in of_stage]
    return rows


def told_apart(groups: list[GroupView]) -> list[GroupView | None]:
    """The groups that say something of their own: with one slice or one user class alone, it is everybody, by its name."""
    slices = {group.slice for group in groups} - {None}
    users = {group.user for group in groups} - {None}
    kept = [
        group for group in groups if (group.slice is None or len(slices) > 1) and (group.user is None or len(users) > 1)
    ]
    only = {name: found.pop() for name, found in (("slice", slices), ("user", users)) if len(found) == 1}
    return [msgspec.structs.replace(group, **only) for group in kept] or [None]


def csv_rows(run: Snapshot) -> Iterator[list[Cell]]:
    """The header, then every row with every figure."""
    of_spread = [f"{latency}_{figure}" for latency in LATENCIES for figure in _OF_SPREAD]
    yield [*(name for name, _ in _OF_STAGE), *(name for name, _ in _OF_GROUP), *of_spread]
    for stage in run.stages:
        groups: list[GroupView | None] = [*stage.groups] or [None]
        for group in groups:
            cells: list[Cell] = [run.run_id if name == "run_id" else read(stage) for name, read in _OF_STAGE]
            cells += [None if group is None else read_group(group) for _, read_group in _OF_GROUP]
            for latency in LATENCIES:
                spread = None if group is None else group.latencies.get(latency)
                cells += [None if spread is None else read_spread(spread) for read_spread in _OF_SPREAD.values()]
            yield cells


# --- the table ---------------------------------------------------------------------------------------------------------


def _shown(text: str) -> str:
    return DASH if text in ("-", "") else one_line(text, LONGEST_CELL)


def _figure(read: Callable[[GroupView], str]) -> Callable[[StageView, GroupView | None], str]:
    return lambda stage, group: DASH if group is None else _shown(read(group))


def _percentiles(latency: str) -> Callable[[StageView, GroupView | None], str]:
    def cell(stage: StageView, group: GroupView | None) -> str:
        spread = None if group is None else group.latencies.get(latency)
        if spread is None or spread.count == 0:
            return DASH
        return _NARROW.join(_shown(number(value, 3)) for value in (spread.p50, spread.p95, spread.p99))

    return cell


def stage_name(stage: StageView) -> str:
    """The stage's label, with its round where there are several."""
    return one_line(stage.label, LONGEST_CELL) + (f" (round {stage.round + 1})" if stage.round else "")


def state_words(stage: StageView) -> str:
    """Its result once it is judged, else the phase that it is in, with the seconds that are left of it."""
    if stage.result is not None:
        return stage.result
    if stage.interrupted is not None:
        return f"{stage.phase}: {one_line(stage.interrupted, 80)}"
    return left_words(stage.phase, stage.left_s)


def generator_words(generator: GeneratorView) -> str:
    """Whether the load generator keeps up, or what would void the stage."""
    if generator.warnings:
        return "; ".join(generator.warnings)
    return {True: "keeps up", False: "does not keep up", None: "too early to say"}[generator.keeps_up]


def _slice(stage: StageView, group: GroupView | None) -> str:
    return "all slices" if group is None or group.slice is None else _shown(group.slice)


def _user_class(stage: StageView, group: GroupView | None) -> str:
    return "all users" if group is None or group.user is None else _shown(group.user)


COLUMNS: tuple[TabColumn, ...] = (
    TabColumn("stage", "Stage", lambda stage, group: stage_name(stage)),
    TabColumn("slice", "Slice", _slice),
    TabColumn("user_class", "User class", _user_class),
    TabColumn("state", "State", lambda stage, group: state_words(stage)),
    TabColumn("measured", "Measured", _figure(lambda group: str(group.measured))),
    TabColumn("goodput", "Good req/s", _figure(lambda group: number(group.goodput_rps, 3))),
    TabColumn("attained", "Attained", _figure(lambda group: percent(group.attainment))),
    TabColumn("ttft", "TTFT ms: P50 / P95 / P99", _percentiles("ttft")),
    TabColumn("tpot", "TPOT ms: P50 / P95 / P99", _percentiles("tpot")),
    TabColumn("itl", "ITL ms: P50 / P95 / P99", _percentiles("itl")),
    TabColumn("e2e", "E2E ms: P50 / P95 / P99", _percentiles("e2e")),
    TabColumn("client_wait", "Client wait ms: P50 / P95 / P99", _percentiles("client_wait")),
    TabColumn("outcomes", "Outcomes", _figure(lambda group: counts(group.outcomes))),
    TabColumn("generator", "Load generator", lambda stage, group: _shown(generator_words(stage.generator))),
)


# --- the file ----------------------------------------------------------------------------------------------------------

_OF_STAGE: list[tuple[str, Callable[[StageView], Cell]]] = [
    ("run_id", lambda stage: None),
    ("stage", lambda stage: stage.stage),
    ("round", lambda stage: stage.round),
    ("label", lambda stage: stage.label),
    ("mode", lambda stage: stage.mode),
    ("rate_rps", lambda stage: stage.rate_rps),
    ("concurrency", lambda stage: stage.concurrency),
    ("phase", lambda stage: stage.phase),
    ("result", lambda stage: stage.result),
    ("interrupted", lambda stage: stage.interrupted),
    ("planned", lambda stage: stage.planned),
    ("sent", lambda stage: stage.sent),
    ("completed", lambda stage: stage.completed),
    ("in_flight", lambda stage: stage.in_flight),
    ("waiting", lambda stage: stage.waiting),
    ("generator_keeps_up", lambda stage: stage.generator.keeps_up),
    ("generator_warnings", lambda stage: "; ".join(stage.generator.warnings) or None),
    ("generator_dispatch_lag_p99_ms", lambda stage: stage.generator.dispatch_lag_p99_ms),
    ("generator_cpu_percent_max", lambda stage: stage.generator.cpu_percent_max),
    ("generator_loop_lag_ms_max", lambda stage: stage.generator.loop_lag_ms_max),
]
_OF_GROUP: list[tuple[str, Callable[[GroupView], Cell]]] = [
    ("slice", lambda group: group.slice),
    ("user", lambda group: group.user),
    ("measured", lambda group: group.measured),
    ("ok", lambda group: group.ok),
    ("failed", lambda group: group.failed),
    ("good", lambda group: group.good),
    ("attainment", lambda group: group.attainment),
    ("error_rate", lambda group: group.error_rate),
    ("seconds", lambda group: group.seconds),
    ("throughput_rps", lambda group: group.throughput_rps),
    ("goodput_rps", lambda group: group.goodput_rps),
    ("output_tokens", lambda group: group.output_tokens),
    ("outcomes", lambda group: counts(group.outcomes) or None),
    ("status_counts", lambda group: counts(group.status_counts) or None),
]
_OF_SPREAD: dict[str, Callable[[Spread], Cell]] = {
    "count": lambda spread: spread.count,
    "p50_ms": lambda spread: spread.p50,
    "p95_ms": lambda spread: spread.p95,
    "p99_ms": lambda spread: spread.p99,
    "mean_ms": lambda spread: spread.mean,
    "max_ms": lambda spread: spread.max,
}
