"""All figures of one stage out of its merged rows: the batch, its rates, its percentiles, its health and its verdict."""

from __future__ import annotations

import numpy as np
import pandas as pd

from llm_locust.analysis import window as windows
from llm_locust.analysis.derived import MISSING, NOT_APPLICABLE, Bools, buffered, floats, mask
from llm_locust.analysis.gates import Evidence, judge_stage
from llm_locust.analysis.generator import generator_health
from llm_locust.analysis.goodput import judge
from llm_locust.analysis.quantiles import per_second, percentile, share, wilson
from llm_locust.analysis.trend import span_means, trend
from llm_locust.records import NS_PER_S, UNATTEMPTED, Outcome, StageManifest
from llm_locust.records.summary import ErrorCount, InFlightTrend, Percentile, StageSummary

SHOWN_ERRORS = 5
"""How many kinds of failure a summary lists."""

GAPS_AT_ONCE = 100_000
"""Rows whose token gaps are parsed together; the text of a million replies is not held twice."""


def summarise_stage(stage: StageManifest, rows: pd.DataFrame, slo: dict[str, float]) -> StageSummary:
    """The summary of one stage.

    Args:
        stage: The stage as it was run.
        rows: Its merged rows, all phases, with derived columns and times on the master's clock.
        slo: Per-request limits in milliseconds.
    """
    window = windows.measured_window(stage, rows)
    in_batch = windows.batch(rows, stage, window)
    part = rows[in_batch]
    ok = part[mask(part["outcome"] == Outcome.OK)]
    measured, successful = len(part), len(ok)
    failed = measured - successful
    seconds = window.seconds if window else None

    judged = judge(part, slo)
    over_stage = judge(rows, slo)
    outcomes = {str(name): int(count) for name, count in part["outcome"].value_counts().items()}
    attainment = None if judged.good_count is None else share(judged.good_count, measured)
    error_rate = share(failed, measured)
    closed = stage.spec.mode == "closed"
    trend_found = None if closed else in_flight_trend(rows, in_batch, window)
    percentiles = stage_percentiles(part, ok)
    health = generator_health(stage, rows, in_batch, slo)
    interrupted = stage.interrupted
    if interrupted is None and stage.end_ns is None:
        interrupted = "the stage has no end: the run died, or is still going"
    evidence = Evidence(
        planned=len(rows),
        measured=measured,
        failed=failed,
        outcomes=outcomes,
        oom=int((rows["outcome"] == Outcome.OOM).sum()),
        limits=judged.limits,
        attainment=attainment,
        attainment_interval=None if judged.good_count is None else wilson(judged.good_count, measured),
        goodput_unavailable=judged.unavailable,
        error_rate=error_rate,
        error_rate_interval=wilson(failed, measured),
        trend=trend_found,
        generator=health,
        interrupted=interrupted,
        seconds=seconds,
        cap_wait_p95_ms=percentiles["cap_wait_p95_ms"].value,
    )
    summary = StageSummary(
        stage=stage.spec.stage,
        round=stage.spec.round,
        label=stage.spec.label,
        mode=stage.spec.mode,
        rate_rps=None if closed else stage.spec.rate_rps,
        arrivals=None if closed else stage.spec.arrivals,
        concurrency=stage.spec.concurrency,
        interrupted=interrupted,
        planned=len(rows),
        attempted=int((~rows["outcome"].isin([str(outcome) for outcome in UNATTEMPTED])).sum()),
        not_sent=int((rows["outcome"] == Outcome.NOT_SENT).sum()),
        lost=int((rows["outcome"] == Outcome.LOST).sum()),
        warmup_requests=int((rows["phase"] == "warmup").sum()),
        cooldown_requests=int((rows["phase"] == "cooldown").sum()),
        measured=measured,
        successful=successful,
        failed=failed,
        dispatched=int(part["dispatched_ns"].notna().sum()),
        sent=int(part["sent_ns"].notna().sum()),
        outcomes=outcomes,
        status_counts={str(code): int(count) for code, count in part["status"].value_counts().sort_index().items()},
        quality_failures=int((part["quality"] == "fail").sum()) if part["quality"].notna().any() else None,
        errors=common_errors(part),
        seconds=seconds,
        seconds_method=window.method if window else None,
        achieved_rate_rps=per_second(int(part["sent_ns"].notna().sum()), seconds),
        request_throughput_rps=per_second(successful, seconds),
        good_requests=judged.good_count,
        goodput_rps=per_second(judged.good_count, seconds),
        goodput_unavailable=judged.unavailable,
        goodput_vllm_rps=per_second(over_stage.good_count, _seconds_to_last_end(stage, rows)),
        attainment=attainment,
        attainment_interval=evidence.attainment_interval,
        error_rate=error_rate,
        error_rate_interval=evidence.error_rate_interval,
        limits=judged.limits,
        drain_seconds=drain_seconds(stage, rows),
        in_flight_trend=trend_found,
        percentiles=percentiles,
        tpot_not_applicable=int((ok["tpot_state"] == NOT_APPLICABLE).sum()),
        tpot_missing=int((ok["tpot_state"] == MISSING).sum()),
        buffered_requests=int(buffered(part).sum()),
        buffered=bool(buffered(part).any()),
        coalesced_share=_share_over_zero(part["coalesced"]),
        token_sources={str(k): int(n) for k, n in ok["output_tokens_source"].value_counts().items()},
        clock_sources={str(k): int(n) for k, n in part["clock"].value_counts().items()},
        generator=health,
        verdict=judge_stage(evidence),
    )
    _add_tokens(summary, ok)
    if window is not None:
        _add_window_figures(summary, rows, window)
    return summary


def _add_tokens(summary: StageSummary, ok: pd.DataFrame) -> None:
    """Token sums and throughputs over the ok requests of the batch; not measured while any count is missing."""
    summary.tokens_missing = int(ok["output_tokens"].isna().sum())
    if len(ok) and summary.tokens_missing == 0:
        summary.output_tokens = int(ok["output_tokens"].sum())
        summary.output_throughput_tps = per_second(summary.output_tokens, summary.seconds)
    if len(ok) and not ok["prompt_tokens"].isna().any():
        summary.prompt_tokens = int(ok["prompt_tokens"].sum())
        if summary.output_tokens is not None:
            summary.total_throughput_tps = per_second(summary.prompt_tokens + summary.output_tokens, summary.seconds)


def _add_window_figures(summary: StageSummary, rows: pd.DataFrame, window: windows.Window) -> None:
    """What ended, came out or was in flight inside the window, whenever it was planned."""
    summary.completed_in_window_rps = per_second(windows.completed_in_window(rows, window), window.seconds)
    summary.output_tokens_in_window_tps = per_second(windows.output_tokens_in_window(rows, window), window.seconds)
    sent = windows.seconds_after(rows["sent_ns"], window.start_ns)
    dispatched = windows.seconds_after(rows["dispatched_ns"], window.start_ns)
    ended = windows.seconds_after(rows["end_ns"], window.start_ns)
    summary.peak_in_flight = windows.peak_in_flight(sent, ended, (0.0, window.seconds))
    summary.in_flight_at_window_end = windows.in_flight_at(sent, ended, window.seconds)
    # Held back: taken up, not sent yet, and not given up either.
    left = np.fmin(sent, ended)
    summary.held_back_at_window_end = windows.in_flight_at(dispatched, left, window.seconds)


def in_flight_trend(rows: pd.DataFrame, in_batch: Bools, window: windows.Window | None) -> InFlightTrend:
    """The trend over the window of arrivals that were taken up and had not ended.

    Those held back by ``--max-in-flight`` count: behind a cap the number on the wire is flat however great the overload.
    """
    if window is None:
        return InFlightTrend(state="undetermined", detail="there was no window")
    taken = windows.seconds_after(rows["dispatched_ns"].fillna(rows["sent_ns"]), window.start_ns)
    ended = windows.seconds_after(rows["end_ns"], window.start_ns)
    known = ~np.isnan(taken)
    means = span_means(taken[known], np.where(np.isnan(ended), np.inf, ended)[known], (0.0, window.seconds))
    return trend(means, int(in_batch.sum()))


def drain_seconds(stage: StageManifest, rows: pd.DataFrame) -> float | None:
    """From the end of arrivals to the end of the last request; ``None`` when either is not known."""
    last = rows["end_ns"].max()
    if stage.arrivals_end_ns is None or pd.isna(last):
        return None
    return max(0.0, (int(last) - stage.arrivals_end_ns) / NS_PER_S)


def _seconds_to_last_end(stage: StageManifest, rows: pd.DataFrame) -> float | None:
    """The divisor of vLLM's bench: from the start of the stage to the end of its last request.

    That bench knows no warm-up, so the good requests it divides are those of the whole stage.
    """
    last = rows["end_ns"].max()
    return None if pd.isna(last) else (int(last) - stage.start_ns) / NS_PER_S


def stage_percentiles(part: pd.DataFrame, ok: pd.DataFrame) -> dict[str, Percentile]:
    """Every percentile of the batch by name, in milliseconds or tokens.

    Latencies are over ok requests, and again with failures as infinity (``*_all``). Waits before sending are over every
    request that waited, whatever became of it; one given up while it was held back waited for ever.
    """
    failed = len(part) - len(ok)
    found: dict[str, Percentile] = {}
    for name in ("ttft", "tpot", "e2e"):
        values = ok[f"{name}_ms"].dropna()
        for at in (50, 95, 99):
            found[f"{name}_p{at}_ms"] = percentile(values, at)
            found[f"{name}_p{at}_ms_all"] = percentile(values, at, infinite=failed)
    for name in ("ntpot", "max_gap", "tail", "arrival_ttft", "arrival_e2e"):
        found[f"{name}_p95_ms"] = percentile(ok[f"{name}_ms"].dropna(), 95)
    gaps_ms = np.concatenate(
        [np.empty(0)]
        + [
            windows.parse_gaps_us(ok["gaps_us"].iloc[start : start + GAPS_AT_ONCE].dropna().tolist()) / 1000
            for start in range(0, len(ok), GAPS_AT_ONCE)
        ]
    )
    found["itl_p95_ms"] = percentile(gaps_ms, 95, bounds=False)
    found["dispatch_lag_p99_ms"] = percentile(part["dispatch_lag_ms"].dropna(), 99)
    given_up = part["dispatched_ns"].notna() & part["sent_ns"].isna() & (part["outcome"] == Outcome.NOT_SENT)
    forever = int(mask(given_up).sum())
    found["cap_wait_p95_ms"] = percentile(part["cap_wait_ms"].dropna(), 95, infinite=forever)
    forever_planned = int(mask(given_up & part["planned_ns"].notna()).sum())
    found["client_wait_p95_ms"] = percentile(part["client_wait_ms"].dropna(), 95, infinite=forever_planned)
    connects = part["connect_ns"].dropna()
    found["connect_p95_ms"] = percentile(floats(connects) / 1e6, 95)
    for name, column in (("input_tokens", "prompt_tokens"), ("output_tokens", "output_tokens")):
        tokens = floats(ok[column].dropna())
        found |= {f"{name}_p{at}": percentile(tokens, at) for at in (50, 95, 99)}
        found[f"{name}_max"] = percentile(tokens, 100, bounds=False)
    return found


def common_errors(part: pd.DataFrame) -> list[ErrorCount]:
    """The commonest kinds of failure of the batch, by outcome, status and text."""
    failed = part[mask(part["outcome"] != Outcome.OK)]
    groups = failed.groupby(["outcome", "status", "error"], dropna=False).size().reset_index(name="count")
    groups = groups.sort_values("count", ascending=False, kind="stable").head(SHOWN_ERRORS)
    return [
        ErrorCount(
            outcome=str(row["outcome"]),
            status=None if pd.isna(row["status"]) else int(row["status"]),
            error=None if pd.isna(row["error"]) else str(row["error"]),
            count=int(row["count"]),
        )
        for row in groups.to_dict("records")
    ]


def _share_over_zero(column: pd.Series[int]) -> float | None:
    told = column.dropna()
    return share(int((told > 0).sum()), len(told))
