"""Did the load generator do what was planned? A stage where it did not says nothing about the server, either way.

Cap wait is not judged here: being held back by ``--max-in-flight`` is a result.
"""

from __future__ import annotations

import pandas as pd

from llm_locust.analysis.alignment import uncertainty_ms
from llm_locust.analysis.derived import Bools, mask
from llm_locust.analysis.quantiles import percentile, share
from llm_locust.records import Outcome, StageManifest
from llm_locust.records.generator_bounds import (
    MAX_FIRST_COALESCED_SHARE,
    MIN_DISPATCHED_SHARE,
    ONE_IS_NO_SHARE,
    lag_bound_ms,
    too_many_late,
)
from llm_locust.records.summary import GeneratorHealth

WORTH_NOTING_STEP_MS = 1.0


def unseen_generator(tool: str, slo: dict[str, float]) -> GeneratorHealth:
    """Of a stage that another tool sent: nobody knows."""
    reason = f"{tool} sent the requests, and its file does not tell how late"
    return GeneratorHealth(valid=False, reasons=[reason], lag_bound_ms=lag_bound_ms(slo))


def mask_not_lost(rows: pd.DataFrame, in_batch: Bools) -> pd.Series[bool]:
    """Of the batch, the arrivals that have a terminal row."""
    return rows["outcome"][in_batch] != Outcome.LOST


def generator_health(
    stage: StageManifest, rows: pd.DataFrame, in_batch: Bools, slo: dict[str, float]
) -> GeneratorHealth:
    """Judge the generator by one stage's merged rows: lateness over the batch, losses and our own errors over all of it."""
    bound = lag_bound_ms(slo)
    part = rows[["planned_ns", "dispatched_ns", "dispatch_lag_ms", "first_coalesced"]][in_batch]
    reasons: list[str] = []
    notes: list[str] = []
    not_applicable: list[str] = []

    dispatched_share: float | None = None
    lag_p99: float | None = None
    dispatched: int | None = None
    late: int | None = None
    late_dispatch: str | None = None
    if stage.spec.mode == "closed":
        not_applicable += ["dispatched against planned", "dispatch lag"]  # nothing is planned in a closed loop
    else:
        planned = part["planned_ns"].notna()
        planned &= mask_not_lost(rows, in_batch)  # whether a lost one was dispatched, nobody can say
        dispatched_share = share(int((planned & part["dispatched_ns"].notna()).sum()), int(planned.sum()))
        lags = part["dispatch_lag_ms"].dropna()
        p99 = percentile(lags, 99).value
        lag_p99 = p99 if isinstance(p99, float) else None  # never infinite: only dispatched arrivals have a lag
        if not dispatched_share and len(part):
            reasons.append("nothing was dispatched in the window")
        elif dispatched_share is not None and dispatched_share < MIN_DISPATCHED_SHARE:
            reasons.append(f"only {dispatched_share:.2%} of the planned arrivals were dispatched (99 % are needed)")
        late, dispatched = int((lags > bound).sum()), len(lags)
        if lag_p99 is not None and too_many_late(late, dispatched):
            by = f"more than {bound:g} ms (lag P99 {lag_p99:.1f} ms)"
            late_dispatch = f"dispatch was late: {late} of {dispatched} arrivals by {by}"
            reasons.append(late_dispatch)
        elif late:
            notes.append(f"{late} of {dispatched} arrivals were dispatched more than {bound:g} ms late")

    told = part["first_coalesced"].dropna()
    shared = int((told == 1).sum())
    first_coalesced = share(shared, len(told))
    if first_coalesced is not None and first_coalesced >= MAX_FIRST_COALESCED_SHARE and shared > ONE_IS_NO_SHARE:
        reasons.append(
            f"{shared} of {len(told)} first outputs came in one read with later ones, so that their TTFT is only an upper "
            "bound (under 1 % may): this generator read late, or the server or a gateway holds tokens back"
        )
    elif shared:
        notes.append(
            f"{shared} of {len(told)} first outputs came in one read with later ones: their TTFT is an upper bound"
        )

    lost = int((rows["outcome"] == Outcome.LOST).sum())
    if lost:
        of = sorted({int(worker) for worker in rows["worker"][rows["outcome"] == Outcome.LOST]})
        reasons.append(
            f"{lost} arrivals were lost with worker {', '.join(map(str, of))} (if that ran on another machine, add its "
            "folder with --from)"
        )
    lost_workers = [worker for worker in stage.workers if worker.lost]
    reasons += [f"worker {w.worker} was lost: {w.lost_reason or 'no reason recorded'}" for w in lost_workers]
    errors = int((rows["outcome"] == Outcome.GENERATOR_ERROR).sum())
    if errors:
        reasons.append(f"{errors} requests failed by the generator's own error")

    uncertainty = _clock(stage, rows, bound, reasons, notes)
    return GeneratorHealth(
        valid=not reasons,
        reasons=reasons,
        notes=notes,
        not_applicable=not_applicable,
        dispatched_share=dispatched_share,
        dispatch_lag_p99_ms=lag_p99,
        lag_bound_ms=bound,
        dispatched=dispatched,
        late=late,
        late_dispatch=late_dispatch,
        first_coalesced_share=first_coalesced,
        clock_uncertainty_ms=uncertainty,
        lost_workers=[worker.worker for worker in lost_workers],
        generator_errors=errors,
    )


def _clock(
    stage: StageManifest, rows: pd.DataFrame, bound: float, reasons: list[str], notes: list[str]
) -> float | None:
    """The largest uncertainty of the stage's workers in milliseconds; ``None`` when one was never measured."""
    known = {worker.worker: uncertainty_ms(worker) for worker in stage.workers}
    active = {int(worker) for worker in rows["worker"][mask(rows["sent_ns"].notna())].unique()}
    unmeasured = sorted(worker for worker in active if known.get(worker) is None)
    if unmeasured:
        reasons.append(f"the clock of worker {', '.join(map(str, unmeasured))} was never measured against the master's")
    worst = max((u for u in known.values() if u is not None), default=None)
    if worst is not None and worst > bound:
        reasons.append(f"the workers' clocks are known to {worst:.1f} ms only, over {bound:g} ms")
    for worker in stage.workers:
        step_ms = (worker.wall_step_ns or 0) / 1e6
        if abs(step_ms) >= WORTH_NOTING_STEP_MS:
            notes.append(
                f"the wall clock of worker {worker.worker} stepped by {step_ms:+.1f} ms; the records are not affected"
            )
        if worker.clock_start is not None and worker.clock_end is None:
            notes.append(
                f"the clock of worker {worker.worker} was not measured at the end: its offset is held constant"
            )
    return None if unmeasured else worst
