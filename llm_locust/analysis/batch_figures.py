"""What is said of some measured requests: of a stage's batch together, and of each slice of it alone, by one definition."""

from __future__ import annotations

from typing import Any

import pandas as pd

from llm_locust.analysis.derived import MISSING, NOT_APPLICABLE, Bools, floats, mask
from llm_locust.analysis.fluidity import deadline_misses
from llm_locust.analysis.gaps import Us, count_gaps, stalls
from llm_locust.analysis.goodput import judge
from llm_locust.analysis.latencies import batch_percentiles
from llm_locust.analysis.quantiles import per_second, share, wilson
from llm_locust.records import Outcome
from llm_locust.records.quality import ERROR, FAIL, PASS
from llm_locust.records.summary import SliceSummary


def batch_figures(
    rows: pd.DataFrame, gaps_us: Us, part: Bools, slo: dict[str, float], seconds: float | None
) -> dict[str, Any]:
    """The fields of :class:`llm_locust.records.summary.BatchFigures`, by name.

    Args:
        rows: The rows of the stage, with derived columns.
        gaps_us: The gaps that they point into.
        part: Which rows the figures are made of.
        slo: Per-request limits in milliseconds.
        seconds: What rates are divided by; ``None`` when there was no window.
    """
    ok = part & mask(rows["outcome"] == Outcome.OK)
    measured, successful = int(part.sum()), int(ok.sum())
    failed = measured - successful
    judged = judge(rows, slo, part)
    good = judged.good_count
    outcomes = {str(name): int(count) for name, count in rows["outcome"][part].value_counts().items()}
    statuses = rows["status"][part].value_counts().sort_index()
    quality = rows["quality"][part]
    checked = int(quality.isin([PASS, FAIL]).sum())
    gaps = count_gaps(rows, ok, gaps_us)
    deadlines = None
    if "ttft" in slo and "tpot" in slo:
        deadlines = deadline_misses(rows, ok, gaps_us, slo["ttft"], slo["tpot"])
    tpot_state = rows["tpot_state"]
    found: dict[str, Any] = {
        "measured": measured,
        "successful": successful,
        "failed": failed,
        "outcomes": outcomes,
        "status_counts": {str(code): int(count) for code, count in statuses.items()},
        "quality_failures": int((quality == FAIL).sum()) if checked else None,
        "quality_checked": checked or None,
        "quality_errors": int((quality == ERROR).sum()),
        "seconds": seconds,
        "request_throughput_rps": per_second(successful, seconds),
        "good_requests": good,
        "goodput_rps": per_second(good, seconds),
        "goodput_unavailable": judged.unavailable,
        "attainment": None if good is None else share(good, measured),
        "attainment_interval": None if good is None else wilson(good, measured),
        "error_rate": share(failed, measured),
        "error_rate_interval": wilson(failed, measured),
        "reject_rate": share(outcomes.get(Outcome.REJECTED, 0), measured),
        "limits": judged.limits,
        "percentiles": batch_percentiles(rows, part, ok, gaps),
        "stalls": stalls(gaps, slo.get("max_gap")),
        "deadlines": deadlines,
        "tpot_not_applicable": int(mask(tpot_state == NOT_APPLICABLE)[ok].sum()),
        "tpot_missing": int(mask(tpot_state == MISSING)[ok].sum()),
    }
    return found | _tokens(rows, ok, seconds)


def _tokens(rows: pd.DataFrame, ok: Bools, seconds: float | None) -> dict[str, Any]:
    """Token sums and throughputs over the ok requests; not measured while any count is missing."""
    found: dict[str, Any] = {"tokens_missing": int(rows["output_tokens"].isna().to_numpy()[ok].sum())}
    if ok.any() and found["tokens_missing"] == 0:
        found["output_tokens"] = int(floats(rows["output_tokens"])[ok].sum())
        found["output_throughput_tps"] = per_second(found["output_tokens"], seconds)
    if ok.any() and not rows["prompt_tokens"].isna().to_numpy()[ok].any():
        found["prompt_tokens"] = int(floats(rows["prompt_tokens"])[ok].sum())
        if "output_tokens" in found:
            found["total_throughput_tps"] = per_second(found["prompt_tokens"] + found["output_tokens"], seconds)
    return found


def slice_summaries(
    rows: pd.DataFrame, gaps_us: Us, part: Bools, slo: dict[str, float], seconds: float | None
) -> list[SliceSummary]:
    """Each slice that the batch has, alone, by name."""
    names = rows["slice"]
    return [
        SliceSummary(name=str(name), **batch_figures(rows, gaps_us, part & mask(names == name), slo, seconds))
        for name in sorted(names[part].dropna().unique())
    ]
