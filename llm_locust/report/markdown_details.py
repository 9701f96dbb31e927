"""The parts of ``report.md`` that not every run has: boundary and rounds, slices, the window in spans, streams and cost."""

from __future__ import annotations

from llm_locust.analysis.drift import SIGNIFICANCE
from llm_locust.analysis.verdict import needs_words
from llm_locust.analysis.words import NOT_MEASURED, number, percent
from llm_locust.records.figures import ColdFigures, LengthFigures
from llm_locust.records.summary import Boundary, PointSummary, RunSummary, SliceSummary, StageSummary
from llm_locust.report.inert import LONGEST_NAME, LONGEST_SENTENCE, escape
from llm_locust.report.markdown_pieces import bullets, escaped, rps, table


def boundary_blocks(summary: RunSummary) -> list[str]:
    """Every point over its rounds, the boundary between them, the knee of a sweep."""
    header = ["point", "rounds", "result", "measured", "attained", "95 % interval", "rounds differ", "to sign it"]
    rows = [_point(point) for point in summary.points]
    blocks = [table(header, escaped(rows), [True, False, True, False, False, True, True, True])]
    lines = _boundary(summary.boundary) if summary.boundary else []
    if summary.knee is not None:
        lines.append(f"Knee of the closed-loop sweep: {escape(summary.knee.sentence, LONGEST_SENTENCE)}")
        lines += [f"Warning: {escape(warning, LONGEST_NAME)}" for warning in summary.knee.warnings]
    return [*blocks, bullets(lines)] if lines else blocks


def _point(point: PointSummary) -> list[str]:
    interval = point.attainment_interval
    least, most = point.attainment_least, point.attainment_most
    spread = point.rounds > 1 and least is not None
    return [
        point.name,
        str(point.rounds),
        point.result + (f" ({point.strength})" if point.strength else ""),
        str(point.measured),
        percent(point.attainment),
        f"{percent(interval.low)} to {percent(interval.high, up=True)}" if interval else NOT_MEASURED,
        f"{percent(least)} to {percent(most)}" if spread else NOT_MEASURED,
        needs_words(point.requests_needed, point.seconds_needed, point.measured) or NOT_MEASURED,
    ]


def _boundary(found: Boundary) -> list[str]:
    lines = [f"Last rate that passed: {rps(found.last_pass_rps)}; first that failed: {rps(found.first_fail_rps)}"]
    if found.interval_share is not None:
        lines[0] += f", {percent(found.interval_share)} above it"
    if found.failing_dimensions:
        failed = "; ".join(f"{d.name}: {d.detail}" for d in found.failing_dimensions)
        lines.append(f"It failed on {escape(failed, LONGEST_SENTENCE)}")
    if found.burst is not None:
        lines.append(f"A burst or trace of the rate that passed ({escape(found.burst_name or '')}): {found.burst}")
    return [*lines, f"Not tested: {escape('; '.join(found.not_tested))}"] if found.not_tested else lines


def slice_blocks(stage: StageSummary) -> list[str]:
    """A row per slice, alone; nothing when the workload has none."""
    if not stage.slices:
        return []
    header = ["slice", "measured", "good req/s", "attained", "errors", "TTFT p95 ms", "TPOT p95 ms", "E2E p95 ms"]
    rows = [_slice(of) for of in stage.slices]
    text = table([*header, "its gates"], escaped(rows), [True] + [False] * 7 + [True])
    failing = [f"{d.name}: {d.detail}" for of in stage.slices for d in of.failing_dimensions]
    return [text, *([f"Failing: {escape('; '.join(failing), LONGEST_SENTENCE)}."] if failing else [])]


def _slice(of: SliceSummary) -> list[str]:
    names = ("ttft_p95_ms", "tpot_p95_ms", "e2e_p95_ms")
    cells = [
        number(of.percentiles[name].value) + ("*" if of.percentiles[name].at_maximum else "")
        if name in of.percentiles
        else NOT_MEASURED
        for name in names
    ]
    return [
        of.name,
        str(of.measured),
        number(of.goodput_rps, 3),
        percent(of.attainment),
        percent(of.error_rate, up=True),
        *cells,
        of.result or "none",
    ]


def span_blocks(stage: StageSummary) -> list[str]:
    """The window in its spans, and whether it was a steady state."""
    if not stage.spans:
        return []
    header = ["from s", "sent", "ended", "ok", "good", "output tokens", "TTFT p95 ms", "in flight"]
    rows = [
        [
            number(span.start_s),
            str(span.sent),
            str(span.completed),
            str(span.ok),
            NOT_MEASURED if span.good is None else str(span.good),
            number(span.output_tokens),
            number(span.ttft_p95_ms),
            number(span.in_flight_mean, 3),
        ]
        for span in stage.spans
    ]
    text = f"The window in {len(rows)} spans of {number(stage.spans[0].seconds)} s:\n\n"
    text += table(header, escaped(rows), [False] * len(header))
    found = [text, *drift_blocks(stage)]
    law = stage.littles_law
    if law is None:
        return found
    said = (
        f"Little's law: {number(law.in_flight_mean)} in flight on average, {rps(law.arrival_rate_rps)} sent x "
        f"{number(law.time_in_system_s)} s in the system, ratio {number(law.ratio, 3)}"
    )
    return [*found, f"{said}. {law.note[0].upper()}{law.note[1:]}." if law.note else f"{said}."]


def drift_blocks(stage: StageSummary) -> list[str]:
    """How every figure moved from the first span to the last."""
    if not any(one.direction is not None for one in stage.drift):
        return []
    header = ["figure", "first span", "last span", "change", "order in the spans"]
    rows = [
        [
            one.name,
            number(one.first),
            number(one.last),
            NOT_MEASURED if one.change_share is None else f"{100 * one.change_share:+.3g} %",
            NOT_MEASURED if one.direction is None else one.direction,
        ]
        for one in stage.drift
    ]
    text = f"Drift, first span to last (an order counts at {percent(SIGNIFICANCE)} by a rank test against time):\n\n"
    return [text + table(header, escaped(rows), [True, False, False, False, True])]


def drift_line(stage: StageSummary) -> str | None:
    """The figures that drifted; ``None`` when none did."""
    moved = [
        f"{one.name} {number(one.first)} to {number(one.last)} ({one.direction})"
        for one in stage.drift
        if one.direction in ("rising", "falling")
    ]
    return f"drift from first span to last: {', '.join(moved)}" if moved else None


def cold_line(cold: ColdFigures) -> str:
    """Requests that waited for the model to be loaded beside those that did not."""
    slow, warm = cold.cold_ttft_p50_ms, cold.warm_ttft_p50_ms
    beside = f"; TTFT P50 of the {warm.n} others {number(warm.value)} ms" if warm.n else ""
    return (
        f"cold: {cold.cold} of {cold.known} requests waited for the model to be loaded ({percent(cold.share)}), "
        f"TTFT P50 {number(slow.value)} ms{beside}"
    )


def length_words(lengths: LengthFigures) -> str:
    """Lengths asked for against those that the server counted."""
    return (
        f"{number(lengths.asked_mean)} asked for on average, {number(lengths.got_mean)} by the server's count; "
        f"{percent(lengths.close_share)} of {lengths.requests} requests within 1 %, the furthest "
        f"{percent(lengths.worst_off_share, up=True)} off"
    )


def more_figures(stage: StageSummary) -> list[str]:
    """Speed of a request, stalls, deadlines along the stream, cost."""
    lines = []
    for what, lengths in (("Input", stage.input_lengths), ("Output", stage.output_lengths)):
        if lengths is not None:
            lines.append(f"{what} tokens: {length_words(lengths)}")
    if stage.cold is not None:
        line = cold_line(stage.cold)
        lines.append(f"{line[0].upper()}{line[1:]}")
    speed = stage.percentiles.get("request_tps_p50")
    slow = stage.percentiles.get("request_tps_p5")
    if speed is not None and slow is not None and speed.n:
        lines.append(
            f"Speed of a request (output tokens / E2E): half reach {number(speed.value)} tokens/s, 95 % reach "
            f"{number(slow.value)}"
        )
    stalls = stage.stalls
    if stalls is not None:
        what = "the max_gap limit" if stalls.chosen else "ten median gaps"
        lines.append(
            f"Stalls: {stalls.stalled} of {stalls.gaps} gaps over {number(stalls.threshold_ms)} ms ({what}), "
            f"{percent(stalls.share, up=True)} of the gaps and {percent(stalls.time_share, up=True)} of the time in gaps"
        )
    deadlines = stage.deadlines
    if deadlines is not None:
        lacking = f"; {deadlines.missing} could not be judged" if deadlines.missing else ""
        lines.append(
            f"Deadlines along the streams (ttft, then tpot for each token): {deadlines.missed} of {deadlines.deadlines} "
            f"missed, {percent(deadlines.share, up=True)}; {deadlines.requests_without_miss} of {deadlines.requests} "
            f"requests missed none{lacking}"
        )
    if stage.cost_per_million_good_tokens is not None:
        lines.append(f"Cost: {number(stage.cost_per_million_good_tokens)} per million good output tokens")
    return lines
