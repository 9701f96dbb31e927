"""What a release rests on: the stages of all its runs with their evidence records, and the points they are rounds of.

Rounds may be run apart: a point is all stages of one rate or concurrency, whichever run they are of. A stage whose load
generator fell short, or whose server became another one, is no round of anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from llm_locust.analysis.boundary import boundary, ladder_of
from llm_locust.analysis.evidence import evidence_record
from llm_locust.analysis.evidence_grade import grade
from llm_locust.analysis.points import Point, points
from llm_locust.records import Manifest, StageSpec
from llm_locust.records.evidence import EvidenceRecord, Grade
from llm_locust.records.facts import Facts
from llm_locust.records.summary import RunSummary, StageSummary


class RecordFile(NamedTuple):
    """An evidence record as it was filed."""

    name: str
    """``RUN/records/stage-0-round-0.json``."""
    sha256: str
    document: object
    """Decoded; ``None`` for what is no JSON."""


class ReleasedRun(NamedTuple):
    """One merged run folder."""

    manifest: Manifest
    summary: RunSummary
    """By its own limits and gates."""
    records: Mapping[tuple[int, int], RecordFile]
    """By stage and round."""


class Round(NamedTuple):
    """One stage that was run."""

    run: ReleasedRun
    stage: StageSummary
    record: EvidenceRecord
    """Made anew from the run; what is filed must say the same."""

    @property
    def file(self) -> RecordFile | None:
        """The record that is filed; ``None``: there is none."""
        return self.run.records.get((self.stage.stage, self.stage.round))

    @property
    def counts(self) -> bool:
        """It says something of the server."""
        return self.stage.verdict.result != "invalid"

    @property
    def stream(self) -> tuple[int, int, int]:
        """What its arrivals follow from: two rounds of one stream are one test made twice."""
        spec = self._spec
        return spec.seed, spec.stage, spec.round

    @property
    def _spec(self) -> StageSpec:
        of = (self.stage.stage, self.stage.round)
        return next(m.spec for m in self.run.manifest.stages if (m.spec.stage, m.spec.round) == of)


class PooledPoint(NamedTuple):
    """One rate or concurrency with all its rounds in all runs."""

    point: Point
    rounds: list[Round]

    @property
    def fresh_rounds(self) -> int:
        """Rounds with arrivals of their own that measured something."""
        return len({one.stream for one in self.rounds if one.stage.measured})

    def graded(self, one: Round) -> tuple[Grade, list[str]]:
        """The grade that the record of one round earns where rounds that were run apart count together."""
        if one.record.evidence_grade == "transcribed":
            return "transcribed", one.record.evidence_grade_reasons
        return grade(msgspec.structs.replace(one.record, rounds=self.fresh_rounds))


class Ladder(NamedTuple):
    """The points of all runs: rates of the main arrival process, closed loops, and what stands beside them."""

    points: list[PooledPoint]
    rates: list[PooledPoint]
    """Of the arrival process that most rates have, rising."""
    closed: list[PooledPoint]
    """Rising."""
    passed_rates: list[PooledPoint]
    """Those that passed below the first that failed, the highest first."""
    failing_rate: PooledPoint | None
    passed_closed: list[PooledPoint]
    failing_closed: PooledPoint | None


def rounds_of(runs: Sequence[ReleasedRun]) -> list[Round]:
    """Every stage of the runs that was run, in their order.

    Raises:
        UsageError: facts of a manifest contradict what its server said.
    """
    return [
        Round(run, stage, evidence_record(run.manifest, run.summary, stage, Facts(run.manifest.facts, "manifest.json")))
        for run in runs
        for stage in run.summary.stages
        if stage.verdict.result != "not_run"
    ]


def ladder(rounds: Sequence[Round]) -> Ladder:
    """The points of the stages that count."""
    by_stage = {id(one.stage): one for one in rounds if one.counts}
    found = points([one.stage for one in rounds if one.counts])
    of = {id(point): PooledPoint(point, [by_stage[id(stage)] for stage in point.stages]) for point in found}
    rates = [of[id(point)] for point in ladder_of(found)]
    _, failing = boundary(found)
    below = rates if failing is None else rates[: rates.index(of[id(failing)])]
    closed = [of[id(p)] for p in found if p.stages[0].mode == "closed" and p.stages[0].condition is None]
    failing_closed = next((one for one in closed if one.point.result == "fail"), None)
    below_closed = closed if failing_closed is None else closed[: closed.index(failing_closed)]
    return Ladder(
        points=[of[id(point)] for point in found],
        rates=rates,
        closed=closed,
        passed_rates=[one for one in reversed(below) if one.point.result == "pass"],
        failing_rate=None if failing is None else of[id(failing)],
        passed_closed=[one for one in reversed(below_closed) if one.point.result == "pass"],
        failing_closed=failing_closed,
    )
