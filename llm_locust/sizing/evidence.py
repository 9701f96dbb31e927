"""What a number of requests can show: percentiles, the best verdict there is, the gates and what signing them needs.

It is asked of the functions that judge a real run, with a batch in which nothing went wrong: no definition stands twice.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from llm_locust.analysis.gates import gate_name, stage_gates
from llm_locust.analysis.quantiles import bound_ranks, percentile, share, wilson
from llm_locust.analysis.trend import SPANS, trend
from llm_locust.analysis.verdict import NOT_JUDGED, judge_stage
from llm_locust.records.gates import EVERY_SLICE, GateSpec
from llm_locust.records.stage import ArrivalMode
from llm_locust.records.summary import (
    DeadlineFigures,
    GeneratorHealth,
    LimitCount,
    SliceSummary,
    StageSummary,
    StageVerdict,
    StallFigures,
)
from llm_locust.sizing.contracts import GateAhead

MOST_NEEDED = 1_000_000
"""Where the search for enough requests gives up."""


def fewest(enough: Callable[[int], bool]) -> int:
    """The smallest number from which ``enough`` holds; more must never be worse.

    Raises:
        RuntimeError: no number up to a million is enough: a definition has changed into one that cannot be met.
    """
    most = 1
    while not enough(most):
        most *= 2
        if most > MOST_NEEDED:
            raise RuntimeError(f"not even {MOST_NEEDED} requests are enough")
    return 1 + bisect.bisect_left(range(1, most + 1), True, key=enough)


@cache
def requests_to_tell(percent: int) -> int:
    """Requests from which the percentile is told apart from the maximum (20 for P95)."""
    return fewest(lambda n: not percentile(np.zeros(n), percent, bounds=False).at_maximum)


@cache
def requests_to_bound(percent: int) -> int:
    """Requests from which the percentile has a 95 % upper bound by order statistics (59 for P95)."""
    return fewest(lambda n: bound_ranks(percent, n)[1] is not None)


def _flawless(
    requests: int, planned: int, limits: bool, mode: ArrivalMode, gates: Sequence[GateSpec] = ()
) -> StageSummary:
    """The figures of a window in which every request was good, at no latency, and at most one in flight at any time."""
    chosen = [LimitCount(name="any", limit_ms=1.0, judged=requests, missed=0)] if limits else []
    stage = StageSummary(
        stage=0,
        round=0,
        label="",
        mode=mode,
        rate_rps=None,
        arrivals=None,
        concurrency=None,
        planned=planned,
        attempted=planned,
        not_sent=0,
        lost=0,
        warmup_requests=0,
        cooldown_requests=0,
        dispatched=requests,
        sent=requests,
        seconds_method=None,
        in_flight_trend=trend(np.ones(SPANS), requests) if mode == "open" else None,
        generator=GeneratorHealth(valid=True, lag_bound_ms=0.0),
        verdict=NOT_JUDGED,
        **_flawless_figures(requests, limits, chosen, gates),
    )
    # A gate on a slice is foretold as if every request were of that slice: no run can show more.
    stage.slices = [
        SliceSummary(name=name, **_flawless_figures(requests, limits, chosen, gates))
        for name in sorted({gate.slice for gate in gates if gate.slice not in (None, EVERY_SLICE)} - {None})
        if name is not None
    ]
    return stage


def _flawless_figures(
    requests: int, limits: bool, chosen: list[LimitCount], gates: Sequence[GateSpec]
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "measured": requests,
        "successful": requests,
        "failed": 0,
        "outcomes": {"ok": requests},
        "seconds": None,
        "limits": chosen,
        "attainment": share(requests, requests) if limits else None,
        "attainment_interval": wilson(requests, requests) if limits else None,
        "goodput_unavailable": None if limits else "no limits were chosen (--slo)",
        "error_rate": share(0, requests),
        "error_rate_interval": wilson(0, requests),
        "reject_rate": share(0, requests),
        "quality_failures": 0,
        "quality_checked": requests,
        "goodput_rps": math.inf if limits else None,
        "stalls": StallFigures(threshold_ms=1.0, chosen=False, gaps=requests, stalled=0, share=0.0, time_share=0.0),
        "deadlines": DeadlineFigures(
            deadlines=requests, missed=0, share=0.0, requests=requests, requests_without_miss=requests
        )
        if limits
        else None,
        "percentiles": {},
    }
    for gate in gates:
        figure, _, rest = gate.name.rpartition("_p")
        percent = rest.removesuffix("_all")
        if figure and percent.isdigit() and figure != "queue":
            tail = "_all" if rest.endswith("_all") else ""
            of = percentile(np.zeros(requests), int(percent), bounds=figure != "itl")
            found["percentiles"][f"{figure}_p{percent}_ms{tail}"] = of
    return found


def best_verdict(
    requests: int, planned: int, limits: bool, mode: ArrivalMode, gates: Sequence[GateSpec] = ()
) -> StageVerdict:
    """The judge's verdict when nothing goes wrong; no run of as many requests earns a better one.

    Args:
        requests: In the window.
        planned: In the whole stage.
        limits: Whether latency limits were chosen.
        mode: Open arrivals or a closed loop.
        gates: Those chosen; none for the defaults.
    """
    return judge_stage(_flawless(requests, planned, limits, mode, gates), gates)


@cache
def requests_to_sign(limits: bool, mode: ArrivalMode, gates: tuple[GateSpec, ...] = ()) -> int:
    """Requests in the window from which a flawless stage is signed and not only a candidate.

    Gates that no number of requests can sign (the gaps between tokens have no bound) are left out of the count.
    """
    signable = tuple(gate for gate in gates if _signable(gate, limits, mode))
    if gates and not signable:
        return 1
    return fewest(lambda n: _signs(n, limits, mode, signable))


def _signs(n: int, limits: bool, mode: ArrivalMode, gates: tuple[GateSpec, ...]) -> bool:
    return best_verdict(n, n, limits, mode, gates).strength == "signed"


@cache
def _signable(gate: GateSpec, limits: bool, mode: ArrivalMode) -> bool:
    """Whether as many requests as anybody will send clear the gate; not so for what is null without a server or limits."""
    return _signs(MOST_NEEDED, limits, mode, (gate,))


def gates_ahead(limits: bool, mode: ArrivalMode, gates: tuple[GateSpec, ...] = ()) -> list[GateAhead]:
    """The gates that a stage of this mode is judged by, with the requests that a flawless batch needs to sign each."""
    found = stage_gates(_flawless(MOST_NEEDED, MOST_NEEDED, limits, mode, gates), gates)

    def signed(at: int) -> Callable[[int], bool]:
        def holds(n: int) -> bool:
            gate = stage_gates(_flawless(n, n, limits, mode, gates), gates)[at]
            return gate.passed is True and gate.signed

        return holds

    return [
        GateAhead(
            name=gate_name(gate),
            relation=gate.relation,
            limit=gate.limit,
            default=gate.default,
            requests_to_sign=fewest(signed(at)) if gate.passed is True and gate.signed else None,
        )
        for at, gate in enumerate(found)
        if gate.applicable
    ]
