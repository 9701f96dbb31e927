"""The load generator itself: arrivals at a low rate through the real dispatcher, and how late they were."""

from __future__ import annotations

from llm_locust.analysis.words import number
from llm_locust.records.generator_bounds import MIN_DISPATCHED_SHARE, late_words
from llm_locust.records.stage_summary import StageSummary
from llm_locust.smoke.result import Found, failed, not_applicable, passed

NAME = "dispatch"


def dispatch_accuracy(stage: StageSummary | None) -> Found:
    """Holds the dispatch lag of a stage to the rule that makes a stage valid: at most 1 % late by more than 5 ms.

    Below 100 arrivals one is more than 1 %: a single late one voids nothing, as in a run.
    """
    if stage is None:
        return not_applicable("there is no run to look at")
    health = stage.generator

    def lag(percent: int) -> str:
        found = stage.percentiles.get(f"dispatch_lag_p{percent}_ms")
        return number(None if found is None else found.value)

    seen = (
        f"{stage.measured} arrivals planned at {number(stage.rate_rps)}/s: dispatch lag P50 {lag(50)} ms, P99 {lag(99)} ms; "
        f"{late_words(health.late or 0, health.dispatched or 0, health.lag_bound_ms)}"
    )
    share = health.dispatched_share
    if not share or share < MIN_DISPATCHED_SHARE:
        return failed("not every planned arrival was dispatched", seen)
    if health.late_dispatch is not None:
        return failed(f"this machine is too busy, or too slow, to keep the plan: {health.late_dispatch}", seen)
    return passed(seen)
