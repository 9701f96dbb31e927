"""A running stage in words and numbers, for a terminal: cells of a table, short items for narrow ones, one plain line.

The names are those of the table that a run ends with, so that a person reads both alike. ``-`` is not measured, never 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from llm_locust.analysis.words import NOT_MEASURED, number, percent
from llm_locust.live.snapshot import GroupView, Snapshot, StageView
from llm_locust.plugin.json_lines import added
from llm_locust.records.generator_bounds import late_words

NOT_MEASURED_AT_ALL = frozenset({NOT_MEASURED, ""})


class Column(NamedTuple):
    """One figure of a stage: its name, its unit, how a stage fills it."""

    name: str
    unit: str
    cell: Callable[[StageView], str]
    wide: bool = False
    """Left out where there is little room."""
    text: bool = False
    """Aligned left."""


def everybody(view: StageView) -> GroupView | None:
    """All measured requests of a stage; ``None`` before there is one."""
    return next((group for group in view.groups if group.slice is None and group.user is None), None)


def p95(view: StageView, latency: str) -> float | None:
    """Of the window so far, in milliseconds."""
    group = everybody(view)
    spread = group.latencies.get(latency) if group is not None else None
    return spread.p95 if spread is not None else None


def _offered(view: StageView) -> str:
    return f"C={view.concurrency}" if view.mode == "closed" else number(view.rate_rps)


def _group(read: Callable[[GroupView], str]) -> Callable[[StageView], str]:
    def cell(view: StageView) -> str:
        group = everybody(view)
        return NOT_MEASURED if group is None else read(group)

    return cell


def _percentile(latency: str) -> Callable[[StageView], str]:
    return lambda view: number(p95(view, latency))


COLUMNS: tuple[Column, ...] = (
    Column("offered", "req/s", _offered, text=True),
    Column("measured", "requests", _group(lambda g: str(g.measured)), wide=True),
    Column("done", "req/s", _group(lambda g: number(g.throughput_rps, 3))),
    Column("good", "req/s", _group(lambda g: number(g.goodput_rps, 3))),
    Column("attained", "%", _group(lambda g: percent(g.attainment).removesuffix(" %"))),
    Column("errors", "%", _group(lambda g: percent(g.error_rate, up=True).removesuffix(" %"))),
    Column("TTFT p95", "ms", _percentile("ttft")),
    Column("TPOT p95", "ms", _percentile("tpot"), wide=True),
    Column("E2E p95", "ms", _percentile("e2e")),
    Column("in flight", "", lambda view: str(view.in_flight)),
)


def shown_columns(width: int) -> tuple[Column, ...]:
    """The columns that a terminal of so many columns has room for; none where a list reads better than a table."""
    if width < TABLE:
        return ()
    return tuple(column for column in COLUMNS if width >= WIDE or not column.wide)


TABLE = 72
"""Terminal columns that the table needs at the least."""
WIDE = 92
"""... and to be whole."""


def figure_items(view: StageView) -> list[str]:
    """The stage's figures so far, each with its unit; those without a value are left out."""
    group = everybody(view)
    items = []
    if group is not None and group.measured:
        items = [
            f"{group.measured} measured",
            *_given("done", number(group.throughput_rps, 3), "/s"),
            *_given("good", number(group.goodput_rps, 3), "/s"),
            *_given("attained", percent(group.attainment)),
            *_given("errors", percent(group.error_rate, up=True)),
        ]
    for name, latency in (("TTFT", "ttft"), ("TPOT", "tpot"), ("E2E", "e2e")):
        items += _given(f"{name} p95", number(p95(view, latency)), " ms")
    return items


def progress_items(view: StageView) -> list[str]:
    """How far the stage is, all phases."""
    held = [f"held back {view.waiting}"] if view.waiting else []
    return [f"planned {view.planned}", f"sent {view.sent}", f"in flight {view.in_flight}", *held]


def server_items(now: Snapshot) -> list[str]:
    """What the server's metrics pages say, all together; empty when none is read."""
    pages = [server for server in now.servers if server.error is None]
    if now.servers and not pages:
        return ["server metrics cannot be read"]
    kv = [server.kv_usage_max for server in pages if server.kv_usage_max is not None]
    return [
        *_given("server running", number(added(server.running for server in pages))),
        *_given("server waiting", number(added(server.waiting for server in pages))),
        *_given("KV cache", percent(max(kv)) if kv else NOT_MEASURED),
    ]


class GeneratorLine(NamedTuple):
    """How the load generator does."""

    text: str
    trouble: bool


def generator_line(view: StageView) -> GeneratorLine:
    """Whether the load generator keeps up, or what is wrong with it."""
    generator = view.generator
    if generator.warnings and generator.keeps_up is not True:
        return GeneratorLine(f"load generator: {'; '.join(generator.warnings)}", trouble=True)
    late, dispatched, bound_ms = generator.late, generator.dispatched, generator.lag_bound_ms
    if late and dispatched and bound_ms is not None:  # the count is what decides: a P99 over the bound may be one of 73
        lag = [late_words(late, dispatched, bound_ms)]
    else:
        lag = _given("dispatch lag p99", number(generator.dispatch_lag_p99_ms, 3), " ms")
    details = [
        *lag,
        *_given("CPU", number(generator.cpu_percent_max, 3), " %"),
    ]
    verdict = {True: "keeps up", False: "does not keep up", None: "too early to say"}[generator.keeps_up]
    return GeneratorLine(
        f"load generator {verdict}" + (f" ({', '.join(details)})" if details else ""), generator.keeps_up is False
    )


def newest_stage(now: Snapshot, number_: int) -> StageView | None:
    """The stage of this number."""
    return next((view for view in reversed(now.stages) if view.stage == number_), None)


def _given(name: str, value: str, unit: str = "") -> list[str]:
    return [] if value in NOT_MEASURED_AT_ALL else [f"{name} {value}{unit}"]
