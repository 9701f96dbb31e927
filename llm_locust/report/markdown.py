"""``report.md``: verdict first, then the ladder, each stage in full, the limits of the result, how to run it again."""

from __future__ import annotations

import re

from llm_locust.analysis.gates import gate_name
from llm_locust.analysis.judgement import SYNTHETIC
from llm_locust.analysis.server_gates import value_text
from llm_locust.analysis.verdict import needs_words
from llm_locust.analysis.words import NOT_MEASURED, counts, number, percent, with_round
from llm_locust.records import format_slo
from llm_locust.records.generator_bounds import late_words
from llm_locust.records.quality import QUALITY
from llm_locust.records.summary import Figure, GeneratorHealth, RunSummary, StageSummary
from llm_locust.report.findings import finding_blocks
from llm_locust.report.inert import LONGEST_NAME, LONGEST_SENTENCE, escape, shell_word
from llm_locust.report.ladder import COLUMNS, FEW_NOTE, has_marks, missing_file, requirement_lines
from llm_locust.report.markdown_details import boundary_blocks, more_figures, slice_blocks, span_blocks
from llm_locust.report.markdown_pieces import bullets, escaped, interval, rps, table, whole
from llm_locust.report.markdown_server import machine_blocks, run_blocks

_PERCENTILE_ROWS: tuple[tuple[str, str, str, str], ...] = (
    ("TTFT", "ms", "ttft", "_ms"),
    ("TTFT, failures as inf", "ms", "ttft", "_ms_all"),
    ("TPOT", "ms", "tpot", "_ms"),
    ("TPOT, failures as inf", "ms", "tpot", "_ms_all"),
    ("E2E", "ms", "e2e", "_ms"),
    ("E2E, failures as inf", "ms", "e2e", "_ms_all"),
    ("NTPOT", "ms", "ntpot", "_ms"),
    ("ITL, all gaps", "ms", "itl", "_ms"),
    ("longest gap", "ms", "max_gap", "_ms"),
    ("tail after the last output", "ms", "tail", "_ms"),
    ("connect", "ms", "connect", "_ms"),
    ("dispatch lag", "ms", "dispatch_lag", "_ms"),
    ("cap wait", "ms", "cap_wait", "_ms"),
    ("client wait", "ms", "client_wait", "_ms"),
    ("TTFT from arrival", "ms", "arrival_ttft", "_ms"),
    ("E2E from arrival", "ms", "arrival_e2e", "_ms"),
    ("input tokens", "tokens", "input_tokens", ""),
    ("output tokens", "tokens", "output_tokens", ""),
)
"""Label, unit and what stands before and after ``_p95`` in the name of the percentile."""


def render_markdown(summary: RunSummary) -> str:
    """The report of a run."""
    blocks = [f"# Run {escape(summary.run_id)}", f"**{escape(summary.verdict)}**"]
    if summary.synthetic_engine:
        blocks.append(f"> **{SYNTHETIC}**")
    blocks += [_facts(summary), "## Ladder", _ladder(summary)]
    if summary.points:
        blocks += ["## Boundary", *boundary_blocks(summary)]
    blocks += run_blocks(summary)
    blocks += finding_blocks(summary)
    if summary.stages:
        blocks.append("## Stages")
        for stage in summary.stages:
            blocks += _stage(stage, summary.synthetic_engine)
    blocks += ["## What this result does not say", bullets(map(escape, summary.limitations))]
    blocks += ["## How the files add up", _reconciliation(summary)]
    blocks += ["## Run it again", _command(summary)]
    return "\n\n".join(blocks) + "\n"


def _facts(summary: RunSummary) -> str:
    limits = escape(format_slo(summary.slo)) + " (ms)" if summary.slo else "none chosen"
    when = "before load" if summary.limits_set == "before" else "**after the run**"
    reason = f" ({escape(summary.state_reason, LONGEST_NAME)})" if summary.state_reason else ""
    model = escape(summary.model, LONGEST_NAME) if summary.model else NOT_MEASURED
    deadline = NOT_MEASURED if summary.deadline_s is None else f"{number(summary.deadline_s)} s"
    cap = str(summary.max_in_flight) if summary.max_in_flight is not None else "none"
    return bullets(
        [
            f"Target: {escape(summary.host, LONGEST_NAME)}, model {model}",
            f"Workload: {escape(summary.workload, LONGEST_NAME)} ({summary.workload_kind}), "
            f"SHA-256 {escape(summary.workload_sha256[:12]) or NOT_MEASURED}",
            f"Limits: {limits}, set {when}",
            f"Gates: {_chosen_gates(summary)}",
            f"Deadline: {deadline}; cap on requests in flight: {cap}",
            *requirement_lines(summary),
            f"Started: {escape(summary.started_at)}; state: {summary.state}{reason}",
        ]
    )


def _chosen_gates(summary: RunSummary) -> str:
    if not summary.gates:
        return "defaults, none chosen"
    when = "before load" if summary.gates_set == "before" else "**after the run**"
    return f"{escape('; '.join(summary.gates), LONGEST_SENTENCE)}, set {when}"


def _ladder(summary: RunSummary) -> str:
    if not summary.stages:
        return "No stage was run."
    header = [" ".join(filter(None, (c.name, c.unit))) for c in COLUMNS]
    rows = [[escape(column.cell(stage)) for column in COLUMNS] for stage in summary.stages]
    text = table(header, rows, [column.text for column in COLUMNS])
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
    needs = needs_words(stage.verdict.requests_needed, stage.verdict.seconds_needed, stage.measured)
    return [
        f"### {escape(with_round(stage.label, stage.round))}: {stage.verdict.result}{strength}",
        *([f"*{SYNTHETIC}*"] if synthetic else []),
        escape(stage.verdict.sentence, LONGEST_SENTENCE) + ".",
        *([escape(needs[0].upper() + needs[1:]) + "."] if needs else []),
        _gates(stage),
        _limits(stage),
        *slice_blocks(stage),
        _figures(stage),
        _percentiles(stage),
        *span_blocks(stage),
        _failures(stage),
        _generator(stage),
        *machine_blocks(stage),
    ]


def _gates(stage: StageSummary) -> str:
    holds = {True: "yes", False: "no", None: "undetermined"}
    rows = [
        [
            f"{gate_name(gate)}{' (default)' if gate.default else ''}",
            f"{gate.relation} {number(gate.limit)}",
            value_text(gate, stage),
            holds[gate.passed] if gate.applicable else "not applicable",
            "yes" if gate.signed and gate.applicable else "no",
        ]
        for gate in stage.verdict.gates
    ]
    return table(["gate", "limit", "value", "holds", "signed"], escaped(rows), [True, True, False, True, True])


def _limits(stage: StageSummary) -> str:
    if not stage.limits:
        return "No latency limits were chosen, so there is no goodput."
    rows = [
        [
            limit.name,
            NOT_MEASURED if limit.name == QUALITY else number(limit.limit_ms),
            *map(str, (limit.judged, limit.missed, limit.not_applicable, limit.missing)),
        ]
        for limit in stage.limits
    ]
    text = table(["limit", "ms", "judged", "missed", "not applicable", "missing"], escaped(rows), [True] + [False] * 5)
    return text + (f"\n\nNo goodput: {escape(stage.goodput_unavailable)}." if stage.goodput_unavailable else "")


def _figures(stage: StageSummary) -> str:
    lines = [
        f"Batch: {stage.measured} measured = {stage.successful} successful + {stage.failed} failed, over "
        f"{number(stage.seconds)} s ({escape(stage.seconds_method or NOT_MEASURED)}); "
        f"{stage.warmup_requests} in warm-up and {stage.cooldown_requests} in cool-down beside it",
        f"Ratios of the batch: {rps(stage.request_throughput_rps)} ok, {rps(stage.goodput_rps)} good, attainment "
        f"{percent(stage.attainment)}{interval(stage.attainment_interval)}, error rate "
        f"{percent(stage.error_rate, up=True)}{interval(stage.error_rate_interval)}",
        f"Inside the window: {rps(stage.completed_in_window_rps)} completed, "
        f"{number(stage.output_tokens_in_window_tps)} output tokens/s came out, "
        f"{number(stage.good_output_tokens_in_window_tps)} of them of good requests",
        f"Goodput as vLLM's bench divides (whole stage, to the last end): {rps(stage.goodput_vllm_rps)}",
        f"Sent: {rps(stage.achieved_rate_rps)}; in flight: peak {whole(stage.peak_in_flight)}, "
        f"{whole(stage.in_flight_at_window_end)} at the end of the window and {whole(stage.held_back_at_window_end)} "
        f"held back; drain {number(stage.drain_seconds)} s",
        f"Tokens of the batch: {whole(stage.prompt_tokens)} in, {whole(stage.output_tokens)} out "
        f"(counted by {escape(counts(stage.token_sources)) or 'nobody'}; {stage.tokens_missing} without a count); "
        f"{number(stage.output_throughput_tps)} output and {number(stage.total_throughput_tps)} total tokens/s",
        f"TPOT not applicable (one token): {stage.tpot_not_applicable}; missing: {stage.tpot_missing}",
    ]
    lines += more_figures(stage)
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
        lines.append(f"Quality failures: {stage.quality_failures} of {stage.quality_checked} checked replies")
    if stage.quality_errors:
        lines.append(f"The quality check itself failed on {stage.quality_errors} replies: nothing is known of them")
    if stage.planned_leavings:
        lines.append(
            f"Left by their clients as --cancel planned: {stage.planned_leavings}, cancelled and among the failed"
        )
    return bullets(lines)


def _percentiles(stage: StageSummary) -> str:
    rows = []
    for label, unit, before, after in _PERCENTILE_ROWS:
        found = [stage.percentiles[f"{before}_p{at}{after}"] for at in (50, 95, 99)]
        if not found[0].n or (after == "_ms_all" and not stage.failed):
            continue
        cells = [number(of.value) + ("*" if of.at_maximum else "") for of in found]
        missing = f" ({found[0].missing} missing)" if found[0].missing else ""
        bounds = f"{_bound(found[1].low)} to {_bound(found[1].high)}"
        rows.append([label, unit, f"{found[0].n}{missing}", *cells, bounds])
    if not rows:
        return "No percentile: no request has a latency."
    text = table(
        ["figure", "unit", "n", "p50", "p95", "p99", "bounds of p95"],
        escaped(rows),
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
    kinds = table(["outcome", "status", "error", "requests"], escaped(rows), [True, False, True, False])
    return f"{text}\n\n{kinds}"


def _generator(stage: StageSummary) -> str:
    health = stage.generator
    if stage.transcribed_from is not None:
        return f"Generator: not known\n\n{bullets(map(escape, health.reasons))}"
    lines = [
        f"dispatched {percent(health.dispatched_share)} of planned",
        f"dispatch lag P99 {number(health.dispatch_lag_p99_ms)} ms{_late(health)}",
        f"clocks known to {number(health.clock_uncertainty_ms)} ms (bound: {number(health.lag_bound_ms)} ms)",
        f"first outputs in a shared read: {percent(health.first_coalesced_share, up=True)}; generator errors: "
        f"{health.generator_errors}; receive times: {counts(stage.clock_sources) or 'none'}",
    ]
    lines += health.reasons + health.notes
    if health.not_applicable:
        lines.append(f"not applicable to a closed loop: {', '.join(health.not_applicable)}")
    return f"Generator: {'valid' if health.valid else '**not valid**'}\n\n" + bullets(map(escape, lines))


def _late(health: GeneratorHealth) -> str:
    if health.late is None or health.dispatched is None:
        return ""
    return f"; {late_words(health.late, health.dispatched, health.lag_bound_ms)}"


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
    lines += [missing_file(worker) for worker in sums.workers_without_file]
    lines.append(f"read from {', '.join(sums.sources) or 'no file'}")
    return bullets(map(escape, lines))


def _command(summary: RunSummary) -> str:
    if not summary.command:
        return "The command was not recorded."
    text = " ".join(map(shell_word, summary.command))
    fence = "`" * (max((len(run) for run in re.findall(r"`+", text)), default=2) + 1 if "```" in text else 3)
    return f"{fence}shell\n{text}\n{fence}"


def _bound(value: Figure) -> str:
    return "?" if value is None else number(value)
