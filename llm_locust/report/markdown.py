"""``report.md``: verdict first, then the ladder, each stage in full, the limits of the result, how to run it again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from llm_locust.analysis.judgement import SYNTHETIC
from llm_locust.analysis.words import NOT_MEASURED, counts, number, percent
from llm_locust.records import format_slo
from llm_locust.records.summary import Figure, Gate, Interval, RunSummary, StageSummary
from llm_locust.report.inert import LONGEST_NAME, LONGEST_SENTENCE, escape, shell_word
from llm_locust.report.ladder import COLUMNS, FEW_NOTE, has_marks, requirement_lines

_PERCENTILE_ROWS: tuple[tuple[str, str, tuple[str, str, str]], ...] = (
    ("TTFT", "ms", ("ttft_p50_ms", "ttft_p95_ms", "ttft_p99_ms")),
    ("TTFT, failures as inf", "ms", ("ttft_p50_ms_all", "ttft_p95_ms_all", "ttft_p99_ms_all")),
    ("TPOT", "ms", ("tpot_p50_ms", "tpot_p95_ms", "tpot_p99_ms")),
    ("TPOT, failures as inf", "ms", ("tpot_p50_ms_all", "tpot_p95_ms_all", "tpot_p99_ms_all")),
    ("E2E", "ms", ("e2e_p50_ms", "e2e_p95_ms", "e2e_p99_ms")),
    ("E2E, failures as inf", "ms", ("e2e_p50_ms_all", "e2e_p95_ms_all", "e2e_p99_ms_all")),
    ("NTPOT", "ms", ("", "ntpot_p95_ms", "")),
    ("ITL, all gaps", "ms", ("", "itl_p95_ms", "")),
    ("longest gap", "ms", ("", "max_gap_p95_ms", "")),
    ("tail after the last output", "ms", ("", "tail_p95_ms", "")),
    ("connect", "ms", ("", "connect_p95_ms", "")),
    ("dispatch lag", "ms", ("", "", "dispatch_lag_p99_ms")),
    ("cap wait", "ms", ("", "cap_wait_p95_ms", "")),
    ("client wait", "ms", ("", "client_wait_p95_ms", "")),
    ("TTFT from arrival", "ms", ("", "arrival_ttft_p95_ms", "")),
    ("E2E from arrival", "ms", ("", "arrival_e2e_p95_ms", "")),
    ("input tokens", "tokens", ("input_tokens_p50", "input_tokens_p95", "input_tokens_p99")),
    ("output tokens", "tokens", ("output_tokens_p50", "output_tokens_p95", "output_tokens_p99")),
)


def render_markdown(summary: RunSummary) -> str:
    """The report of a run."""
    blocks = [f"# Run {escape(summary.run_id)}", f"**{escape(summary.verdict)}**"]
    if summary.synthetic_engine:
        blocks.append(f"> **{SYNTHETIC}**")
    blocks += [_facts(summary), "## Ladder", _ladder(summary)]
    if summary.stages:
        blocks.append("## Stages")
        for stage in summary.stages:
            blocks += _stage(stage, summary.synthetic_engine)
    blocks += ["## What this result does not say", _list(map(escape, summary.limitations))]
    blocks += ["## How the files add up", _reconciliation(summary)]
    blocks += ["## Run it again", _command(summary)]
    return "\n\n".join(blocks) + "\n"


def _facts(summary: RunSummary) -> str:
    limits = escape(format_slo(summary.slo)) + " (ms)" if summary.slo else "none chosen"
    when = "before load" if summary.limits_set == "before" else "**after the run**"
    reason = f" ({escape(summary.state_reason, LONGEST_NAME)})" if summary.state_reason else ""
    model = escape(summary.model, LONGEST_NAME) if summary.model else NOT_MEASURED
    cap = str(summary.max_in_flight) if summary.max_in_flight is not None else "none"
    return _list(
        [
            f"Target: {escape(summary.host, LONGEST_NAME)}, model {model}",
            f"Workload: {escape(summary.workload, LONGEST_NAME)} ({summary.workload_kind}), "
            f"SHA-256 {escape(summary.workload_sha256[:12])}",
            f"Limits: {limits}, set {when}",
            f"Deadline: {number(summary.deadline_s)} s; cap on requests in flight: {cap}",
            *requirement_lines(summary),
            f"Started: {escape(summary.started_at)}; state: {summary.state}{reason}",
        ]
    )


def _ladder(summary: RunSummary) -> str:
    if not summary.stages:
        return "No stage was run."
    header = [" ".join(filter(None, (c.name, c.unit))) for c in COLUMNS]
    rows = [[escape(column.cell(stage)) for column in COLUMNS] for stage in summary.stages]
    text = _table(header, rows, [column.text for column in COLUMNS])
    notes = [
        '"done" is what completed inside the window, "good" what met every limit, per second of the window; '
        f"{NOT_MEASURED} is not measured or not applicable. Percentiles are nearest rank over ok requests."
    ]
    if has_marks(summary.stages):
        notes.append(escape(FEW_NOTE) + ".")
    if any(stage.mode == "closed" for stage in summary.stages):
        notes.append("C=n is a closed loop that keeps n requests in flight; it has no offered rate.")
    return text + "\n\n" + " ".join(notes)


def _stage(stage: StageSummary, synthetic: bool) -> list[str]:
    strength = f" ({stage.verdict.strength})" if stage.verdict.strength else ""
    round_ = f", round {stage.round}" if stage.round else ""
    return [
        f"### {escape(stage.label)}{round_}: {stage.verdict.result}{strength}",
        *([f"*{SYNTHETIC}*"] if synthetic else []),
        escape(stage.verdict.sentence, LONGEST_SENTENCE) + ".",
        _gates(stage.verdict.gates),
        _limits(stage),
        _figures(stage),
        _percentiles(stage),
        _failures(stage),
        _generator(stage),
    ]


def _gates(gates: Sequence[Gate]) -> str:
    holds = {True: "yes", False: "no", None: "undetermined"}
    rows = [
        [
            f"{gate.name}{' (default)' if gate.default else ''}",
            f"{gate.relation} {number(gate.limit)}",
            number(gate.value),
            holds[gate.passed] if gate.applicable else "not applicable",
            "yes" if gate.signed and gate.applicable else "no",
        ]
        for gate in gates
    ]
    return _table(["gate", "limit", "value", "holds", "signed"], _escaped(rows), [True, True, False, True, True])


def _limits(stage: StageSummary) -> str:
    if not stage.limits:
        return "No latency limits were chosen, so there is no goodput."
    rows = [
        [
            limit.name,
            number(limit.limit_ms),
            *map(str, (limit.judged, limit.missed, limit.not_applicable, limit.missing)),
        ]
        for limit in stage.limits
    ]
    text = _table(
        ["limit", "ms", "judged", "missed", "not applicable", "missing"], _escaped(rows), [True] + [False] * 5
    )
    return text + (f"\n\nNo goodput: {escape(stage.goodput_unavailable)}." if stage.goodput_unavailable else "")


def _figures(stage: StageSummary) -> str:
    lines = [
        f"Batch: {stage.measured} measured = {stage.successful} successful + {stage.failed} failed, over "
        f"{number(stage.seconds)} s ({escape(stage.seconds_method or NOT_MEASURED)}); "
        f"{stage.warmup_requests} in warm-up and {stage.cooldown_requests} in cool-down beside it",
        f"Ratios of the batch: {_rps(stage.request_throughput_rps)} ok, {_rps(stage.goodput_rps)} good, attainment "
        f"{percent(stage.attainment)}{_interval(stage.attainment_interval)}, error rate "
        f"{percent(stage.error_rate, up=True)}{_interval(stage.error_rate_interval)}",
        f"Inside the window: {_rps(stage.completed_in_window_rps)} completed, "
        f"{number(stage.output_tokens_in_window_tps)} output tokens/s came out",
        f"Goodput as vLLM's bench divides (whole stage, to the last end): {_rps(stage.goodput_vllm_rps)}",
        f"Sent: {_rps(stage.achieved_rate_rps)}; in flight: peak {_count(stage.peak_in_flight)}, "
        f"{_count(stage.in_flight_at_window_end)} at the end of the window and {_count(stage.held_back_at_window_end)} "
        f"held back; drain {number(stage.drain_seconds)} s",
        f"Tokens of the batch: {_count(stage.prompt_tokens)} in, {_count(stage.output_tokens)} out "
        f"(counted by {escape(counts(stage.token_sources)) or 'nobody'}; {stage.tokens_missing} without a count); "
        f"{number(stage.output_throughput_tps)} output and {number(stage.total_throughput_tps)} total tokens/s",
        f"TPOT not applicable (one token): {stage.tpot_not_applicable}; missing: {stage.tpot_missing}",
    ]
    if stage.buffered:
        lines.append(
            f"**Buffered**: {stage.buffered_requests} replies of several tokens came at one instant; something between "
            "server and client holds the stream back"
        )
    trend = stage.in_flight_trend
    if trend is not None:
        seen = (
            f"; an overload of {percent(trend.smallest_visible_overload, up=True)} would just have been seen"
            if trend.smallest_visible_overload is not None
            else ""
        )
        lines.append(f"In flight over the window: {trend.state} ({escape(trend.detail)}{escape(seen)})")
    if stage.quality_failures is not None:
        lines.append(f"Quality failures: {stage.quality_failures}")
    return _list(lines)


def _percentiles(stage: StageSummary) -> str:
    rows = []
    for label, unit, names in _PERCENTILE_ROWS:
        known = [stage.percentiles[name] for name in names if name]
        if not any(found.n for found in known) or (names[0].endswith("_all") and not stage.failed):
            continue
        cells, bounds = [], []
        for name in names:
            if not name:
                cells.append("")
                continue
            found = stage.percentiles[name]
            cells.append(number(found.value) + ("*" if found.at_maximum else ""))
            if name == names[1] or len(known) == 1:
                bounds.append(f"{_bound(found.low)} to {_bound(found.high)}")
        rows.append([label, unit, str(known[0].n), *cells, *bounds])
    if not rows:
        return "No percentile: no request has a latency."
    text = _table(
        ["figure", "unit", "n", "p50", "p95", "p99", "bounds of p95 (of p99 for the lag)"],
        _escaped(rows),
        [True, True] + [False] * 4 + [True],
    )
    notes = "Bounds are one-sided 95 % each, by order statistics; ? is no bound from so few requests."
    starred = any("*" in cell for row in rows for cell in row)
    return f"{text}\n\n{notes}" + (f" {escape(FEW_NOTE)}." if starred else "")


def _failures(stage: StageSummary) -> str:
    statuses = ", ".join(f"{count} x {code}" for code, count in stage.status_counts.items()) or NOT_MEASURED
    text = f"Outcomes: {escape(counts(stage.outcomes)) or 'none'}. HTTP statuses: {escape(statuses)}."
    if not stage.errors:
        return text
    rows = [
        [
            error.outcome,
            str(error.status) if error.status is not None else NOT_MEASURED,
            error.error or "",
            str(error.count),
        ]
        for error in stage.errors
    ]
    table = _table(["outcome", "status", "error", "requests"], _escaped(rows), [True, False, True, False])
    return f"{text}\n\n{table}"


def _generator(stage: StageSummary) -> str:
    health = stage.generator
    lines = [
        f"dispatched {percent(health.dispatched_share)} of planned",
        f"dispatch lag P99 {number(health.dispatch_lag_p99_ms)} ms, clocks known to "
        f"{number(health.clock_uncertainty_ms)} ms (bound for both: {number(health.lag_bound_ms)} ms)",
        f"first outputs in a shared read: {percent(health.first_coalesced_share, up=True)}; generator errors: "
        f"{health.generator_errors}; receive times: {counts(stage.clock_sources) or 'none'}",
    ]
    lines += health.reasons + health.notes
    if health.not_applicable:
        lines.append(f"not applicable to a closed loop: {', '.join(health.not_applicable)}")
    return f"Generator: {'valid' if health.valid else '**not valid**'}\n\n" + _list(map(escape, lines))


def _reconciliation(summary: RunSummary) -> str:
    sums = summary.reconciliation
    lines = [
        f"planned {sums.planned} = attempted {sums.attempted} + not_sent {sums.not_sent} + lost {sums.lost}",
        f"{sums.rows_read} request rows read, {sums.rows_collapsed} of them identical copies",
    ]
    if sums.planned_by_row:
        lines.append(
            f"{sums.planned_by_row} cool-down arrivals known only by their rows: the run died before their plan"
        )
    lines += [f"dropped the unterminated last line of {name}" for name in sums.torn_lines]
    lines.append(f"read from {', '.join(sums.sources) or 'no file'}")
    return _list(map(escape, lines))


def _command(summary: RunSummary) -> str:
    if not summary.command:
        return "The command was not recorded."
    text = " ".join(map(shell_word, summary.command))
    fence = "`" * (max((len(run) for run in re.findall(r"`+", text)), default=2) + 1 if "```" in text else 3)
    return f"{fence}shell\n{text}\n{fence}"


def _rps(value: float | None) -> str:
    return f"{number(value)} req/s"


def _count(value: int | None) -> str:
    return NOT_MEASURED if value is None else str(value)


def _bound(value: Figure) -> str:
    return "?" if value is None else number(value)


def _interval(interval: Interval | None) -> str:
    return "" if interval is None else f" (95 % interval {percent(interval.low)} to {percent(interval.high, up=True)})"


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _escaped(rows: Iterable[Iterable[str]]) -> list[list[str]]:
    return [[escape(cell, LONGEST_NAME) for cell in row] for row in rows]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[bool]) -> str:
    lines = [f"| {' | '.join(header)} |", f"|{'|'.join(':--' if side else '--:' for side in left)}|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)
