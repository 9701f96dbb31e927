"""How many requests a result needs before its confidence intervals clear their limits, if the shares stay as they are."""

from __future__ import annotations

import math

from scipy import stats

from llm_locust.analysis.quantiles import CONFIDENCE
from llm_locust.analysis.trend import VISIBLE_OVERLOAD
from llm_locust.records.gates import gate_figure
from llm_locust.records.summary import Gate, Result, StageSummary

_Z2 = float(stats.norm.ppf((1 + CONFIDENCE) / 2)) ** 2


def requests_for_share(share: float, limit: float) -> int | None:
    """From how many requests a Wilson interval around ``share`` excludes ``limit``; ``None``: they are equal.

    The interval is the set of true shares L that a score test accepts: |share - L| <= z sqrt(L (1 - L) / n). Solved for n.
    """
    if share == limit:
        return None
    if limit in (0.0, 1.0):
        return 1
    # Rounding up meets a limit that lies exactly on the interval's end: a gate that is equalled holds.
    return math.ceil(_Z2 * limit * (1 - limit) / (share - limit) ** 2)


def requests_for_bound(percent: int) -> int:
    """From how many requests a percentile has an upper bound by order statistics: 59 for P95, 299 for P99."""
    return math.ceil(math.log(1 - CONFIDENCE) / math.log(percent / 100))


def requests_needed(stage: StageSummary, gates: list[Gate], result: Result) -> int | None:
    """The measured requests from which a result could be signed (an undetermined one: told); ``None``: no number is known.

    All unsigned gates of a pass must clear their limits; of a fail, any failing one.
    """
    if result == "fail":
        known = [needed for gate in gates if gate.passed is False and (needed := _for_gate(stage, gate)) is not None]
        return min(known, default=None)
    found = []
    for gate in gates:
        if not gate.signed:
            needed = _for_gate(stage, gate)
            if needed is None:
                return None
            found.append(needed)
    return max(found, default=None)


def _for_gate(stage: StageSummary, gate: Gate) -> int | None:
    figure = gate_figure(gate.name)
    if figure is None:
        return None
    figures = stage if gate.slice is None else next((of for of in stage.slices if of.name == gate.slice), None)
    if figures is None or not figures.measured:
        return None
    scale = stage.measured / figures.measured  # a slice is a part of the stage, which must be longer as a whole
    needed: int | None = None
    if figure.kind == "trend":
        trend = stage.in_flight_trend if gate.name == "in_flight_trend" else stage.waiting_trend
        if trend is not None and trend.smallest_visible_overload is not None and trend.noise is not None:
            too_few = trend.smallest_visible_overload > VISIBLE_OVERLOAD
            needed = math.ceil(trend.noise / VISIBLE_OVERLOAD) if too_few else None
    elif figure.kind == "latency" and isinstance(gate.limit, float):
        percent = int(gate.name.removesuffix("_all").rpartition("_p")[2])
        least = requests_for_bound(percent)
        needed = least if least > figures.measured else None
    elif gate.name in ("attainment", "error_rate") and isinstance(gate.value, float) and isinstance(gate.limit, float):
        needed = requests_for_share(gate.value, gate.limit)
    elif (
        gate.name == "goodput" and isinstance(gate.limit, float) and figures.seconds and figures.attainment is not None
    ):
        share = gate.limit * figures.seconds / figures.measured
        needed = requests_for_share(figures.attainment, share) if 0 < share < 1 else None
    return None if needed is None else math.ceil(needed * scale)
