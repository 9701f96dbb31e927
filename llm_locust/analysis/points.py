"""Points: all rounds of one rate or one concurrency, taken together; it passes only if every round does."""

from __future__ import annotations

from typing import NamedTuple

from llm_locust.analysis.quantiles import share, wilson
from llm_locust.analysis.words import number
from llm_locust.records.summary import PointSummary, Result, StageSummary, Strength

_WORST_FIRST: tuple[Result, ...] = ("fail", "invalid", "undetermined", "not_run", "pass")


class Point(NamedTuple):
    """All rounds of one rate or one concurrency: it passes only if every round does."""

    stages: list[StageSummary]

    @property
    def result(self) -> Result:
        """The worst of its rounds."""
        return min((stage.verdict.result for stage in self.stages), key=_WORST_FIRST.index)

    @property
    def deciding(self) -> StageSummary:
        """The round that decides: the first with the point's result, or of passes the one with the least attainment."""
        same = [stage for stage in self.stages if stage.verdict.result == self.result]
        if self.result == "pass":
            return min(same, key=lambda s: 1.0 if s.attainment is None else s.attainment)
        return same[0]

    @property
    def strength(self) -> Strength | None:
        """A pass is signed if every round is, a fail if one is."""
        found = [stage.verdict.strength == "signed" for stage in self.stages if stage.verdict.result == self.result]
        if self.result not in ("pass", "fail"):
            return None
        return "signed" if (all if self.result == "pass" else any)(found) else "candidate"

    @property
    def name(self) -> str:
        """``2 req/s``, with its arrival process unless that is Poisson; ``8 in flight`` for a closed loop."""
        stage = self.stages[0]
        condition = f" {stage.condition}" if stage.condition else ""
        if stage.mode == "closed":
            return f"{stage.concurrency} in flight (closed loop){condition}"
        process = "" if stage.arrivals in (None, "poisson") else f" {stage.arrivals}"
        unit = "conversations/s" if stage.conversations else "req/s"
        return f"{number(stage.rate_rps)} {unit}{process}{condition}"


def points(stages: list[StageSummary]) -> list[Point]:
    """The stages grouped into points, open ones by rising rate, then closed ones by rising concurrency."""
    groups: dict[tuple[object, ...], list[StageSummary]] = {}
    for stage in stages:
        key = (stage.mode, stage.rate_rps, stage.concurrency, stage.arrivals, stage.condition)
        groups.setdefault(key, []).append(stage)
    found = [Point(group) for group in groups.values()]
    return sorted(
        found, key=lambda p: (p.stages[0].mode == "closed", p.stages[0].rate_rps or p.stages[0].concurrency or 0)
    )


def point_summary(point: Point) -> PointSummary:
    """A point as numbers: its rounds together, and how far apart they are.

    An invalid round says nothing of the server, so it takes no part in them unless none is valid.
    """
    first, deciding = point.stages[0], point.deciding
    stages = [stage for stage in point.stages if stage.verdict.result != "invalid"] or point.stages
    measured = sum(stage.measured for stage in stages)
    judged = [stage for stage in stages if stage.good_requests is not None and stage.measured]
    whole = len(judged) == len(stages)
    good = sum(stage.good_requests or 0 for stage in judged)
    attainments = [stage.attainment for stage in judged if stage.attainment is not None]
    goodputs = [stage.goodput_rps for stage in judged if stage.goodput_rps is not None]
    return PointSummary(
        name=point.name,
        mode=first.mode,
        rate_rps=first.rate_rps,
        concurrency=first.concurrency,
        arrivals=first.arrivals,
        rounds=len(point.stages),
        result=point.result,
        strength=point.strength,
        measured=measured,
        attainment=share(good, measured) if whole else None,
        attainment_interval=wilson(good, measured) if whole else None,
        attainment_least=min(attainments, default=None),
        attainment_most=max(attainments, default=None),
        goodput_least_rps=min(goodputs, default=None),
        goodput_most_rps=max(goodputs, default=None),
        failing_dimensions=deciding.verdict.failing_dimensions,
        requests_needed=deciding.verdict.requests_needed,
        seconds_needed=deciding.verdict.seconds_needed,
    )
