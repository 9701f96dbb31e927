"""Tables of the report as text: the ladder, slices, gates, limits, stalls, errors, the generator's validity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from llm_locust.analysis.gates import gate_name
from llm_locust.analysis.server_gates import value_text
from llm_locust.analysis.words import NOT_MEASURED, number, percent, with_round
from llm_locust.records.quality import QUALITY
from llm_locust.records.summary import Gate, GeneratorHealth, RunSummary, StageSummary
from llm_locust.report.inert import LONGEST_NAME, one_line
from llm_locust.report.ladder import COLUMNS, FEW_MARK


class Head(NamedTuple):
    """The head of a column."""

    name: str
    unit: str = ""
    number: bool = False
    free: bool = False
    """Text of any length, which may break anywhere."""


class Cell(NamedTuple):
    """One cell."""

    text: str
    badge: str = ""
    """Shown as a mark of this kind; colour only repeats what the text says."""
    beside: str = ""


class Table(NamedTuple):
    """A table with a caption; the first cell of a row is its head."""

    caption: str
    heads: Sequence[Head]
    rows: Sequence[Sequence[Cell]]


def cells(*texts: str) -> list[Cell]:
    """A row of plain texts."""
    return [Cell(one_line(text, LONGEST_NAME)) for text in texts]


def stage_name(stage: StageSummary) -> str:
    """Its label, and its round when it is a repetition."""
    return with_round(stage.label, stage.round)


def ladder_table(stages: Sequence[StageSummary]) -> Table:
    """A row for every stage, with the columns of the terminal and of ``report.md``; the result stands beside the rate."""
    columns = [column for column in COLUMNS if column.name != "result"]
    heads = [Head(column.name, column.unit, not column.text) for column in columns]
    rows = []
    for stage in stages:
        result = stage.verdict.result
        first, *rest = [Cell(column.cell(stage)) for column in columns]
        rows.append(
            [first, Cell(result.replace("_", " "), result.replace("_", "-"), stage.verdict.strength or ""), *rest]
        )
    return Table("Every stage, in the order in which it was run", [heads[0], Head("result"), *heads[1:]], rows)


def blank_notes(stages: Sequence[StageSummary], slo: dict[str, float]) -> list[str]:
    """Why cells of the ladder are blank, where that is known: one sentence for each reason."""
    where: dict[tuple[str, str], list[str]] = {}
    for stage in stages:
        for column, reason in _blanks(stage, slo):
            where.setdefault((column, reason), []).append(stage_name(stage))
    return [
        f"{column} is {NOT_MEASURED} {'everywhere' if len(names) == len(stages) else f'at {_listed(names)}'}: {reason}."
        for (column, reason), names in where.items()
    ]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def _blanks(stage: StageSummary, slo: dict[str, float]) -> list[tuple[str, str]]:
    nothing = stage.interrupted or "no request was measured"
    found = []
    if stage.completed_in_window_rps is None:
        found.append(("done", "there was no window: " + nothing))
    if stage.goodput_rps is None:
        chosen = nothing if stage.measured == 0 else stage.goodput_unavailable or "it is not available"
        found.append(("good", chosen if slo else "no limits were chosen (--slo)"))
    if stage.attainment is None and not slo:
        found.append(("attained", "no limits were chosen (--slo)"))
    elif stage.attainment is None:
        found.append(
            ("attained", nothing if stage.measured == 0 else stage.goodput_unavailable or "it is not available")
        )
    if stage.error_rate is None:
        found.append(("errors", nothing))
    for column, name in (("TTFT p95", "ttft"), ("TPOT p95", "tpot"), ("E2E p95", "e2e")):
        of = stage.percentiles.get(f"{name}_p95_ms")
        if of is None or of.value is None:
            found.append((column, _no_latency(stage, name) if stage.measured else nothing))
    if stage.in_flight_trend is None:
        closed = "a closed loop keeps its number in flight by itself"
        found.append(
            ("in flight", closed if stage.mode == "closed" else "these arrivals are not steady, so it has no trend")
        )
    return found


def _no_latency(stage: StageSummary, name: str) -> str:
    if not stage.successful:
        return "no request was ok"
    if name == "tpot":
        parts = []
        if stage.tpot_not_applicable:
            parts.append(f"{stage.tpot_not_applicable} replies of one token have none")
        if stage.tpot_missing:
            parts.append(f"{stage.tpot_missing} replies lack a token count or a second receive time")
        return "; ".join(parts) or "no reply has one"
    return "no ok reply has it"


def slice_table(stages: Sequence[StageSummary]) -> Table | None:
    """A row for every slice of every stage; ``None`` when the workload has none."""
    rows = []
    for stage in stages:
        for of in stage.slices:
            p95 = [of.percentiles.get(f"{name}_p95_ms") for name in ("ttft", "tpot", "e2e")]
            texts = [
                number(p.value) + (FEW_MARK if p.at_maximum else "") if p is not None else NOT_MEASURED for p in p95
            ]
            rows.append(
                [
                    *cells(f"{of.name} at {stage_name(stage)}", str(of.measured), number(of.goodput_rps, 3)),
                    *cells(percent(of.attainment), percent(of.error_rate, up=True), *texts),
                    Cell(of.result or "no gate of its own", of.result or ""),
                ]
            )
    heads = [
        Head("slice"), Head("measured", "requests", True), Head("good", "req/s", True), Head("attained", "", True),
        Head("errors", "", True), Head("TTFT p95", "ms", True), Head("TPOT p95", "ms", True), Head("E2E p95", "ms", True),
        Head("its gates"),
    ]  # fmt: skip
    return Table("Each slice of the workload alone, by stage", heads, rows) if rows else None


def gate_table(stages: Sequence[StageSummary]) -> Table | None:
    """Gates by stage: the value of each, and whether it holds."""
    gates: dict[tuple[str, str, str], dict[int, Gate]] = {}
    for place, stage in enumerate(stages):
        for gate in stage.verdict.gates:
            key = (gate_name(gate), f"{gate.relation} {number(gate.limit)}", " (default)" if gate.default else "")
            gates.setdefault(key, {})[place] = gate
    if not gates:
        return None
    heads = [Head("gate"), *(Head(stage_name(stage)) for stage in stages)]
    rows = []
    for (name, limit, default), of in gates.items():
        row = [*cells(f"{name} {limit}{default}")]
        row += [
            _gate_cell(of[place], stage) if place in of else Cell(NOT_MEASURED) for place, stage in enumerate(stages)
        ]
        rows.append(row)
    return Table("Gates, by stage: what was found, and whether the gate holds", heads, rows)


def _gate_cell(gate: Gate, stage: StageSummary) -> Cell:
    if not gate.applicable:
        return Cell("not applicable")
    words = {True: ("holds", "holds"), False: ("fails", "fail"), None: ("undetermined", "undetermined")}
    text, badge = words[gate.passed]
    return Cell(text, badge, f"{value_text(gate, stage)}{', signed' if gate.signed else ''}")


def gate_notes(stages: Sequence[StageSummary]) -> list[str]:
    """Why gates are undetermined, and what signed means."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for stage in stages:
        for gate in stage.verdict.gates:
            if gate.applicable and gate.passed is None:
                reasons.setdefault((gate_name(gate), gate.reason or "not measured"), []).append(stage_name(stage))
    found = [f"{name} is undetermined at {_listed(names)}: {why}." for (name, why), names in reasons.items()]
    return [*found, "Signed: the 95 % confidence interval lies on the same side of the limit as the value."]


def limit_table(stages: Sequence[StageSummary]) -> Table | None:
    """Each limit by stage: how many ok requests were judged by it, and how many missed it."""
    rows = [
        cells(
            f"{limit.name} at {stage_name(stage)}",
            NOT_MEASURED if limit.name == QUALITY else number(limit.limit_ms),
            *map(str, (limit.judged, limit.missed, limit.not_applicable, limit.missing)),
        )
        for stage in stages
        for limit in stage.limits
    ]
    names = ("judged", "missed", "not applicable", "missing")
    heads = [Head("limit"), Head("limit", "ms", True), *(Head(name, "requests", True) for name in names)]
    return Table("Limits of a single request, by stage", heads, rows) if rows else None


def stall_table(stages: Sequence[StageSummary]) -> Table | None:
    """Stalls by stage; ``None`` when no gaps were kept."""
    rows = [
        cells(
            stage_name(stage),
            number(of.threshold_ms) + (" (max_gap limit)" if of.chosen else " (ten median gaps)"),
            str(of.gaps),
            str(of.stalled),
            percent(of.share, up=True),
            percent(of.time_share, up=True),
        )
        for stage in stages
        if (of := stage.stalls) is not None
    ]
    heads = [Head("stage"), Head("a stall is a gap over", "ms"), Head("gaps", "", True), Head("stalls", "", True),
             Head("of the gaps", "", True), Head("of the time in gaps", "", True)]  # fmt: skip
    return Table("Stalls in the streams of ok requests", heads, rows) if rows else None


def error_table(stages: Sequence[StageSummary]) -> Table | None:
    """The commonest failures of each stage, with the text of their errors."""
    rows = [
        cells(
            stage_name(stage),
            error.outcome.replace("_", " "),
            str(error.status) if error.status is not None else NOT_MEASURED,
            error.error or NOT_MEASURED,
            str(error.count),
        )
        for stage in stages
        for error in stage.errors
    ]
    heads = [
        Head("stage"),
        Head("outcome"),
        Head("HTTP status", "", True),
        Head("error", "", False, True),
        Head("requests", "", True),
    ]
    return Table("The commonest failures of each stage", heads, rows) if rows else None


def generator_table(stages: Sequence[StageSummary]) -> Table:
    """Whether the load generator did what was planned, by stage."""
    rows = []
    for stage in stages:
        of = stage.generator
        why = [*of.reasons, *of.notes]
        if of.not_applicable:
            why.append(f"not applicable to a closed loop: {', '.join(of.not_applicable)}")
        rows.append(
            [
                Cell(stage_name(stage)),
                Cell("valid" if of.valid else "not valid", "holds" if of.valid else "fail"),
                *cells(percent(of.dispatched_share), number(of.dispatch_lag_p99_ms), _late(of)),
                *cells(
                    number(of.clock_uncertainty_ms), number(of.lag_bound_ms), percent(of.first_coalesced_share, up=True)
                ),
                Cell(one_line("; ".join(why)) or NOT_MEASURED),
            ]
        )
    heads = [
        Head("stage"), Head("generator"), Head("dispatched", "of planned", True), Head("dispatch lag P99", "ms", True),
        Head("late by more than the bound", "1 % may, or one", True),
        Head("clocks known to", "ms", True), Head("bound for both", "ms", True),
        Head("shared reads", "of first outputs", True),
        Head("what was seen", "", False, True),
    ]  # fmt: skip
    return Table("Load generator, by stage: where it is not valid, the stage says nothing of the server", heads, rows)


def _late(of: GeneratorHealth) -> str:
    return NOT_MEASURED if of.late is None or of.dispatched is None else f"{of.late} of {of.dispatched}"


def tokens_table(stages: Sequence[StageSummary]) -> Table:
    """Tokens of the ok requests by stage, and who counted them."""
    rows = []
    for stage in stages:
        p95 = [stage.percentiles.get(f"{name}_tokens_p95") for name in ("input", "output")]
        texts = [number(p.value) + (FEW_MARK if p.at_maximum else "") if p is not None else NOT_MEASURED for p in p95]
        sources = ", ".join(f"{count} by {name}" for name, count in stage.token_sources.items())
        lacking = f"; {stage.tokens_missing} without a count" if stage.tokens_missing else ""
        whole = [NOT_MEASURED if n is None else str(n) for n in (stage.prompt_tokens, stage.output_tokens)]
        rows.append(
            cells(
                stage_name(stage),
                *whole,
                *texts,
                number(stage.output_throughput_tps),
                (sources or "nobody counted") + lacking,
            )
        )
    heads = [
        Head("stage"), Head("input", "tokens", True), Head("output", "tokens", True), Head("input p95", "tokens", True),
        Head("output p95", "tokens", True), Head("output", "tokens/s", True), Head("output counted by"),
    ]  # fmt: skip
    return Table("Tokens of the measured ok requests, by stage", heads, rows)


def requirement_badges(summary: RunSummary) -> list[Cell]:
    """What the run had to show, and whether it did."""
    words = {True: ("met", "met"), False: ("not met", "not-met"), None: ("cannot be told", "undetermined")}
    after = {"before": "", "after": " (set after the run)"}
    return [Cell(*words[of.met], f"Required{after[of.set_]}: {of.text}") for of in summary.requirements]
