"""One stage of the dry run: how long it takes, what its plan sends, what its window can show at best.

Arrivals come from the plan that the run itself would follow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from llm_locust.arrivals import PHASES, StagePlan, parse_process, plan_of, plan_stage
from llm_locust.records import NS_PER_S, StageSpec
from llm_locust.records.gates import GateSpec
from llm_locust.records.run import UserChoice
from llm_locust.sizing.contracts import PercentileAhead, StagePreview
from llm_locust.sizing.evidence import best_verdict, requests_to_bound, requests_to_sign, requests_to_tell
from llm_locust.sizing.tokens import Ints

PERCENTS = (95, 99)
"""The percentiles whose evidence is foretold."""

MOST_DRAWN = 20_000_000
"""Expected arrivals of a stage up to which its plan is drawn (about a second and 600 MB); beyond, the mean must do."""


def stage_ahead(
    spec: StageSpec,
    users: Sequence[UserChoice],
    limits: bool,
    drain_s: float,
    workers: int | None,
    gates: tuple[GateSpec, ...] = (),
) -> tuple[StagePreview, Sequence[int] | Ints]:
    """The stage without its tokens, and the numbers of the prompts that it sends (as far as known), one for each index.

    Args:
        spec: With its place in the run and its first index.
        users: The user classes and their weights.
        limits: Whether latency limits were chosen.
        drain_s: How long the last request may still take.
        workers: How many processes send; ``None`` when that is not known.
        gates: Those chosen; none for the defaults.

    Raises:
        ValueError: an unknown arrival process, or an open stage without rate or window.
    """
    window_s = _window_s(spec)
    at_least_s = spec.idle_before_s + spec.warmup_s + (window_s or 0.0)
    stage = StagePreview(
        number=spec.stage + 1,
        label=spec.label,
        mode=spec.mode,
        round=spec.round,
        rate_rps=spec.rate_rps,
        seed=spec.seed,
        warmup_s=spec.warmup_s,
        window_s=window_s,
        requests=spec.requests,
        cooldown_at_most_s=spec.cooldown_s,
        drain_at_most_s=drain_s,
        at_least_s=at_least_s,
        at_most_s=_at_most_s(spec, at_least_s, window_s, drain_s),
        percentiles=[_percentile_ahead(percent, None, None) for percent in PERCENTS],
    )
    if spec.mode == "closed":
        return stage, range(0)
    if spec.rate_rps is None or window_s is None:
        raise ValueError(f"stage {spec.stage} is not an open stage with a rate and a window")
    window_expected, all_expected = _expected(spec, window_s)
    plan = plan_of(spec, users) if all_expected <= MOST_DRAWN else None
    samples = round(window_expected) if plan is None else _in_window(plan)
    count = round(all_expected) if plan is None else len(plan)
    to_sign = requests_to_sign(limits, spec.mode, gates)
    needs = [*map(requests_to_bound, PERCENTS), to_sign]
    windows_s = _windows_needed_s(spec, needs, drawn=plan is not None)
    best = best_verdict(samples, count, limits, spec.mode, gates)
    stage = msgspec.structs.replace(
        stage,
        window_expected=window_expected,
        window_planned=None if plan is None else samples,
        all_expected=all_expected,
        all_planned=None if plan is None else count,
        samples=samples,
        percentiles=[_percentile_ahead(p, samples, windows_s[requests_to_bound(p)]) for p in PERCENTS],
        best_result=best.result,
        best_strength=best.strength,
        best_sentence=best.sentence,
        sign_window_needed_s=windows_s[to_sign],
        idle_workers=max(0, (workers or 0) - count),
    )
    prompts = range(spec.first_index, spec.first_index + count) if plan is None else plan.prompt
    return stage, prompts


def _at_most_s(spec: StageSpec, at_least_s: float, window_s: float | None, drain_s: float) -> float | None:
    if window_s is not None:
        return at_least_s + spec.cooldown_s + drain_s
    if spec.requests is None or spec.concurrency is None:
        return None
    # The request that the warm-up leaves in flight, then those of the loop that makes most, each up to its deadline.
    return at_least_s + drain_s * (bool(spec.warmup_s) + math.ceil(spec.requests / spec.concurrency))


def _window_s(spec: StageSpec) -> float | None:
    """The window's length, or how long it is expected to be; ``None`` for a closed loop without a set time."""
    if spec.window_s is None and spec.requests is not None and spec.rate_rps is not None:
        return spec.requests / spec.rate_rps
    return spec.window_s


def _expected(spec: StageSpec, window_s: float) -> tuple[float, float]:
    """Arrivals expected in the window, and in the whole stage with its cool-down at its longest."""
    assert spec.rate_rps is not None
    if spec.replay is not None:
        in_window, before_rps, after_rps = spec.rate_rps * window_s, spec.rate_rps, spec.rate_rps
    else:
        process = parse_process(spec.arrivals)
        in_window = process.mean_rate(spec.rate_rps, window_s) * window_s
        before_rps, after_rps = process.edge_rates(spec.rate_rps, window_s)
    return in_window, before_rps * spec.warmup_s + in_window + after_rps * spec.cooldown_s


def _in_window(plan: StagePlan) -> int:
    return int(np.count_nonzero(plan.phase == PHASES.index("measure")))


def _percentile_ahead(percent: int, samples: int | None, window_needed_s: int | None) -> PercentileAhead:
    needed = requests_to_bound(percent)
    return PercentileAhead(
        percent=percent,
        at_maximum=None if samples is None else samples < requests_to_tell(percent),
        signed=None if samples is None else samples >= needed,
        requests_needed=needed,
        window_needed_s=window_needed_s,
    )


def _windows_needed_s(spec: StageSpec, needs: Sequence[int], *, drawn: bool) -> dict[int, int]:
    """For each number of requests the shortest window of whole seconds that this seed puts as many into.

    The mean would be short of them every other time. Only where the plan is too large to draw it has to do.
    """
    assert spec.rate_rps is not None
    shaped = spec.replay is not None or parse_process(spec.arrivals).needs_duration
    if not drawn or shaped:  # a shape or a trace does not go on as it is when its window is made longer
        return {need: math.ceil(need / spec.rate_rps) for need in needs}
    most = max(needs)
    window_s = (most + 6 * math.sqrt(most) + 1) / spec.rate_rps
    while True:
        plan = plan_stage(msgspec.structs.replace(spec, window_s=window_s, requests=None, cooldown_s=0.0), [])
        offsets = plan.offset_ns[plan.phase == PHASES.index("measure")] - round(spec.warmup_s * NS_PER_S)
        if len(offsets) >= most:
            return {need: int(offsets[need - 1]) // NS_PER_S + 1 for need in needs}
        window_s *= 2
