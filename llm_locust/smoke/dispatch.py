"""The load generator itself: arrivals at a low rate through the real dispatcher, and how late they were."""

from __future__ import annotations

from llm_locust.analysis.words import number
from llm_locust.records.generator_bounds import MIN_DISPATCHED_SHARE
from llm_locust.records.stage_summary import StageSummary
from llm_locust.smoke.result import Found, failed, not_applicable, passed

NAME = "dispatch"


def dispatch_accuracy(stage: StageSummary | None) -> Found:
    """Holds the dispatch lag of a stage to the rule that makes a stage valid: P99 within 5 ms, or 1 % of the least limit.

    Below 100 arrivals a P99 is the maximum, and one late arrival is more than 1 %: a single one voids nothing, as in a run.
    """
    if stage is None:
        return not_applicable("there is no run to look at")
    health = stage.generator

    def lag(percent: int) -> str:
        found = stage.percentiles.get(f"dispatch_lag_p{percent}_ms")
        return number(None if found is None else found.value)

    seen = (
        f"{stage.measured} arrivals planned at {number(stage.rate_rps)}/s: dispatch lag P50 {lag(50)} ms, P99 {lag(99)} ms; "
        f"allowed {number(health.lag_bound_ms)} ms"
    )
    share = health.dispatched_share
    if not share or share < MIN_DISPATCHED_SHARE:
        return failed("not every planned arrival was dispatched", seen)
    if health.late_dispatch is not None:
        return failed(f"this machine is too busy, or too slow, to keep the plan: {health.late_dispatch}", seen)
    return passed(seen)
