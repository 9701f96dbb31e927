"""All figures of one stage out of its merged rows: the batch and its slices, the window, the generator's health."""

from __future__ import annotations

import numpy as np
import pandas as pd

from llm_locust.analysis import window as windows
from llm_locust.analysis.batch_figures import batch_figures, slice_summaries
from llm_locust.analysis.cold import cold_figures
from llm_locust.analysis.cost import cost_per_million_good_tokens
from llm_locust.analysis.derived import Bools, buffered, mask
from llm_locust.analysis.drift import drift
from llm_locust.analysis.gaps import Us
from llm_locust.analysis.generator import generator_health
from llm_locust.analysis.goodput import judge
from llm_locust.analysis.prompts_sent import length_figures, requests_sha256
from llm_locust.analysis.quantiles import per_second, share
from llm_locust.analysis.spans import littles_law, span_series
from llm_locust.analysis.trend import span_means, trend
from llm_locust.analysis.verdict import NOT_JUDGED
from llm_locust.arrivals import is_steady
from llm_locust.records import NS_PER_S, UNATTEMPTED, Outcome, StageManifest, left_as_planned
from llm_locust.records.summary import ErrorCount, InFlightTrend, StageSummary

SHOWN_ERRORS = 5
"""How many kinds of failure a summary lists."""


def summarise_stage(
    stage: StageManifest,
    rows: pd.DataFrame,
    gaps_us: Us,
    slo: dict[str, float],
    price_per_hour: float | None = None,
) -> StageSummary:
    """The figures of one stage; its verdict is still to come.

    Args:
        stage: The stage as it was run.
        rows: Its merged rows, all phases, with derived columns and times on the master's clock.
        gaps_us: The gaps that the rows point into.
        slo: Per-request limits in milliseconds.
        price_per_hour: What the machines under test cost.
    """
    window = windows.measured_window(stage, rows)
    part = windows.batch(rows, stage, window)
    ok = part & mask(rows["outcome"] == Outcome.OK)
    seconds = window.seconds if window else None
    over_stage = judge(rows, slo)
    closed = stage.spec.mode == "closed"
    sent = int(rows["sent_ns"].notna().to_numpy()[part].sum())
    whole_replies = buffered(rows) & part
    outcomes = rows["outcome"]
    interrupted = stage.interrupted
    if interrupted is None and stage.end_ns is None:
        interrupted = "the stage has no end: the run died, or is still going"
    summary = StageSummary(
        stage=stage.spec.stage,
        round=stage.spec.round,
        label=stage.spec.label,
        conversations=stage.spec.conversations,
        condition=stage.spec.condition,
        mode=stage.spec.mode,
        rate_rps=None if closed else stage.spec.rate_rps,
        arrivals=None if closed else stage.spec.arrivals,
        concurrency=stage.spec.concurrency,
        interrupted=interrupted,
        planned=len(rows),
        attempted=int((~outcomes.isin([str(outcome) for outcome in UNATTEMPTED])).sum()),
        not_sent=int((outcomes == Outcome.NOT_SENT).sum()),
        lost=int((outcomes == Outcome.LOST).sum()),
        oom=int((outcomes == Outcome.OOM).sum()),
        warmup_requests=int((rows["phase"] == "warmup").sum()),
        cooldown_requests=int((rows["phase"] == "cooldown").sum()),
        dispatched=int(rows["dispatched_ns"].notna().to_numpy()[part].sum()),
        sent=sent,
        planned_leavings=_planned_leavings(rows[part]),
        errors=common_errors(rows, part),
        seconds_method=window.method if window else None,
        achieved_rate_rps=per_second(sent, seconds),
        goodput_vllm_rps=per_second(over_stage.good_count, _seconds_to_last_end(stage, rows)),
        drain_seconds=drain_seconds(stage, rows),
        in_flight_trend=None if closed or not is_steady(stage.spec.arrivals) else in_flight_trend(rows, part, window),
        buffered_requests=int(whole_replies.sum()),
        buffered=bool(whole_replies.any()),
        coalesced_share=_share_over_zero(rows["coalesced"][part]),
        token_sources={str(k): int(n) for k, n in rows["output_tokens_source"][ok].value_counts().items()},
        clock_sources={str(k): int(n) for k, n in rows["clock"][part].value_counts().items()},
        generator=generator_health(stage, rows, part, slo),
        cold=cold_figures(rows, part),
        input_lengths=length_figures(rows, part, "input_tokens_asked", "prompt_tokens"),
        output_lengths=length_figures(rows, part, "max_tokens", "output_tokens"),
        requests_sha256=requests_sha256(rows, part),
        slices=slice_summaries(rows, gaps_us, part, slo, seconds),
        verdict=NOT_JUDGED,
        **batch_figures(rows, gaps_us, part, slo, seconds),
    )
    if window is not None:
        _add_window_figures(summary, rows, gaps_us, window)
        summary.spans = span_series(rows, over_stage.good, window)
        summary.drift = drift(rows, part, window)
        summary.littles_law = littles_law(rows, window)
        if over_stage.good_count is not None:
            good_tokens = windows.output_tokens_in_window(rows, gaps_us, window, over_stage.good == 1)
            summary.good_output_tokens_in_window_tps = per_second(good_tokens, seconds)
    summary.cost_per_million_good_tokens = cost_per_million_good_tokens(
        price_per_hour, summary.good_output_tokens_in_window_tps
    )
    return summary


def _add_window_figures(summary: StageSummary, rows: pd.DataFrame, gaps_us: Us, window: windows.Window) -> None:
    """What ended, came out or was in flight inside the window, whenever it was planned."""
    summary.completed_in_window_rps = per_second(windows.completed_in_window(rows, window), window.seconds)
    tokens = windows.output_tokens_in_window(rows, gaps_us, window)
    summary.output_tokens_in_window_tps = per_second(tokens, window.seconds)
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


def common_errors(rows: pd.DataFrame, part: Bools) -> list[ErrorCount]:
    """The commonest kinds of failure of the batch, by outcome, status and text."""
    failed = rows[["outcome", "status", "error"]][part & ~mask(rows["outcome"] == Outcome.OK)]
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


def _planned_leavings(rows: pd.DataFrame) -> int:
    cancelled = rows["error"][mask(rows["outcome"] == Outcome.CANCELLED)]
    return sum(left_as_planned(Outcome.CANCELLED, error) for error in cancelled.dropna())


def _share_over_zero(column: pd.Series[int]) -> float | None:
    told = column.dropna()
    return share(int((told > 0).sum()), len(told))
