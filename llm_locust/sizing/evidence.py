"""What a number of requests can show: percentiles, the best verdict there is, the gates and what signing them needs.

It is asked of the functions that judge a real run, with a batch in which nothing went wrong: no definition stands twice.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from functools import cache

import numpy as np

from llm_locust.analysis.gates import Evidence, default_gates, judge_stage
from llm_locust.analysis.quantiles import bound_ranks, percentile, share, wilson
from llm_locust.analysis.trend import SPANS, trend
from llm_locust.records.stage import ArrivalMode
from llm_locust.records.summary import GeneratorHealth, LimitCount, StageVerdict
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


def _flawless(requests: int, planned: int, limits: bool, mode: ArrivalMode) -> Evidence:
    """The evidence of a window in which every request was good and at most one in flight at any time."""
    chosen = [LimitCount(name="any", limit_ms=1.0, judged=requests, missed=0)] if limits else []
    return Evidence(
        planned=planned,
        measured=requests,
        failed=0,
        outcomes={"ok": requests},
        oom=0,
        limits=chosen,
        attainment=share(requests, requests) if limits else None,
        attainment_interval=wilson(requests, requests) if limits else None,
        goodput_unavailable=None,
        error_rate=share(0, requests),
        error_rate_interval=wilson(0, requests),
        trend=trend(np.ones(SPANS), requests) if mode == "open" else None,
        generator=GeneratorHealth(valid=True, lag_bound_ms=0.0),
        interrupted=None,
        seconds=None,
        cap_wait_p95_ms=None,
    )


def best_verdict(requests: int, planned: int, limits: bool, mode: ArrivalMode) -> StageVerdict:
    """The judge's verdict when nothing goes wrong; no run of as many requests earns a better one.

    Args:
        requests: In the window.
        planned: In the whole stage.
        limits: Whether latency limits were chosen.
        mode: Open arrivals or a closed loop.
    """
    return judge_stage(_flawless(requests, planned, limits, mode))


@cache
def requests_to_sign(limits: bool, mode: ArrivalMode) -> int:
    """Requests in the window from which a flawless stage is signed and not only a candidate."""
    return fewest(lambda n: best_verdict(n, n, limits, mode).strength == "signed")


def gates_ahead(limits: bool, mode: ArrivalMode) -> list[GateAhead]:
    """The gates that a stage of this mode is judged by, with the requests that a flawless batch needs to sign each."""
    many = requests_to_sign(limits, mode)
    found = default_gates(_flawless(many, many, limits, mode))

    def signed(name: str) -> Callable[[int], bool]:
        def holds(n: int) -> bool:
            gate = next(gate for gate in default_gates(_flawless(n, n, limits, mode)) if gate.name == name)
            return gate.passed is True and gate.signed

        return holds

    return [
        GateAhead(
            name=gate.name,
            relation=gate.relation,
            limit=gate.limit,
            default=gate.default,
            requests_to_sign=fewest(signed(gate.name)),
        )
        for gate in found
        if gate.applicable
    ]
