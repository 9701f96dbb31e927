"""The generator's own share: it was not valid, or its cap held arrivals back."""

from __future__ import annotations

from collections.abc import Iterator

from llm_locust.analysis.derived import buffered, mask
from llm_locust.analysis.diagnosis.case import Case, Named, StageCase, Symptom, found, named
from llm_locust.analysis.words import number
from llm_locust.records import Outcome
from llm_locust.records.diagnosis import Finding
from llm_locust.records.figures import Figure
from llm_locust.records.generator_bounds import MAX_FIRST_COALESCED_SHARE
from llm_locust.records.summary import StageSummary


def generator_limited(case: Case) -> Iterator[Finding]:
    """The load generator did not do what was planned, so the stage says nothing about the server."""
    symptoms = [
        Symptom(stage, "; ".join(stage.summary.generator.reasons), "shown", _late_rows(stage))
        for stage in case.stages
        if not stage.summary.generator.valid
        and stage.summary.transcribed_from is None
        and stage.summary.planned
        and not _only_buffered(stage)
    ]
    yield from found(
        "generator_limited",
        "The load generator was the limit, not the server",
        "client",
        (
            "Give the generator more workers (locust --processes), at the same rate",
            "Then run it on another machine than the server, at the same rate",
        ),
        symptoms,
    )


def _only_buffered(stage: StageCase) -> bool:
    """The one thing wrong is that first outputs came with later ones, and they were whole replies: no reader is so late."""
    health = stage.summary.generator
    share = health.first_coalesced_share
    if len(health.reasons) != 1 or share is None or share < MAX_FIRST_COALESCED_SHARE:
        return False
    shared = stage.batch & mask(stage.rows["first_coalesced"] == 1)
    return bool((~shared | buffered(stage.rows)).all())


def _late_rows(stage: StageCase) -> Named:
    """What the reasons are about: arrivals dispatched late, first outputs read late, requests lost, our own errors."""
    rows, bound = stage.rows, stage.summary.generator.lag_bound_ms
    late = stage.batch & (rows["dispatch_lag_ms"].to_numpy(dtype=float) > bound)
    ours = mask(rows["outcome"].isin([str(Outcome.LOST), str(Outcome.GENERATOR_ERROR)]))
    shared = stage.batch & mask(rows["first_coalesced"] == 1)
    return named(rows, late | ours | shared, "dispatch_lag_ms")


def held_back(case: Case) -> Iterator[Finding]:
    """Requests left later than planned though the generator was quick: its own cap held them, or another tool's did."""
    yield from found(
        "held_back",
        "Requests waited in the client before they were sent",
        "client",
        (
            "Raise (or leave out) --max-in-flight alone: what then waits, waits in the server",
            "Then judge by limits from arrival (arrival_ttft, arrival_e2e), which hold the wait against the result",
        ),
        (
            symptom
            for stage in case.stages
            if (symptom := _held_back(stage, capped=case.manifest.max_in_flight is not None)) is not None
        ),
    )


def _held_back(stage: StageCase, *, capped: bool) -> Symptom | None:
    of = stage.summary
    own = "cap_wait" if of.dispatched else "client_wait"
    if own == "cap_wait" and (of.mode == "closed" or not capped):
        return None  # no cap held anything: it is the moment from making a request to sending it
    if of.transcribed_from is None and not of.generator.valid:
        return None  # the wait may be the generator's own lateness
    wait = _value(of, f"{own}_p95_ms")
    bound = of.generator.lag_bound_ms
    if wait is None or wait <= bound:
        return None
    if own == "cap_wait" and of.not_sent and of.held_back_at_window_end in (None, 0) and wait == float("inf"):
        return None  # what was never sent, for a spent budget or an interrupt, did not wait
    over = stage.batch & (stage.rows[f"{own}_ms"].to_numpy(dtype=float) > bound)
    what = "held back by --max-in-flight" if own == "cap_wait" else "from planned to sent"
    share = f"{int(over.sum())} of {of.measured} measured requests waited over {number(bound)} ms"
    return Symptom(stage, f"{what}, P95 {number(wait)} ms; {share}", "shown", named(stage.rows, over, f"{own}_ms"))


def _value(stage: StageSummary, name: str) -> float | None:
    percentile = stage.percentiles.get(name)
    value: Figure = percentile.value if percentile is not None else None
    return float("inf") if value == "inf" else value if isinstance(value, float | int) else None
