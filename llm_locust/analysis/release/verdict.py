"""The verdict of a release: every requirement with what was found, and the envelope where all of them are met."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from llm_locust.analysis.release.envelope import Chosen, make_envelope
from llm_locust.analysis.release.pooled import Ladder, PooledPoint, ReleasedRun, ladder, rounds_of
from llm_locust.analysis.release.requirements import (
    Price,
    graded_without_point,
    of_the_point,
    of_the_runs,
    price_of,
    rate_requirement,
    unmet,
)
from llm_locust.records import ExitCode, Requirements, UsageError
from llm_locust.records.envelope import Envelope, ReleaseRequirement


class ReleaseVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether runs earn a release."""

    run_ids: list[str]
    requirements: list[ReleaseRequirement]
    envelope: Envelope | None
    """``None`` unless every requirement is met."""

    @property
    def allowed(self) -> bool | None:
        """``True``: every requirement is met; ``False``: one is not; ``None``: what decides cannot be told."""
        met = {one.met for one in self.requirements}
        return False if False in met else None if None in met else True

    @property
    def refused_for(self) -> list[ReleaseRequirement]:
        """Requirements that are not met, or cannot be told, in their order; empty when the release is allowed."""
        return unmet(self.requirements)

    @property
    def exit_code(self) -> ExitCode:
        """Allowed, refused, or it cannot be told."""
        return {True: ExitCode.DONE, False: ExitCode.NOT_MET, None: ExitCode.UNDECIDED}[self.allowed]


def judge_release(
    runs: Sequence[ReleasedRun],
    *,
    at: str,
    version: str,
    asked: Requirements = Requirements(),  # noqa: B008 - immutable
    price_per_hour: float | None = None,
) -> ReleaseVerdict:
    """Whether these runs, taken together, earn a release, and the envelope if they do.

    The highest rate below the first that failed is released that meets everything a point must; where none does, what the
    highest one that passed lacks are the reasons of the refusal.

    Args:
        runs: Merged runs of one service.
        at: Now, ISO 8601.
        version: Of this project.
        asked: What is required beside.
        price_per_hour: Of the machines under test, in place of the runs' own.

    Raises:
        UsageError: no run, one given twice, or one that sent nothing.
    """
    ids = [run.manifest.run_id for run in runs]
    if not runs:
        raise UsageError("a release needs a run: llm-locust gate --release RUN")
    for run in runs:
        if ids.count(run.manifest.run_id) > 1:
            raise UsageError(f"run {run.manifest.run_id} was given twice: its rounds count once")
        if run.summary.sent == 0:
            raise UsageError(f"run {run.manifest.run_id} sent nothing: leave it out")
    rounds, price = rounds_of(runs), price_of(runs, price_per_hour)
    found = ladder(rounds)
    chosen = _choose(found, price)
    of_point = of_the_point(chosen.rate if chosen else None, price)
    if chosen is None:
        of_point = [graded_without_point(rounds, one) if one.name == "grade" else one for one in of_point]
    requirements = [*of_the_runs(runs, rounds, found, asked), rate_requirement(found, rounds), *of_point]
    envelope = None
    if chosen is not None and not unmet(requirements):
        envelope = make_envelope(runs, rounds, found, chosen, price, requirements, at, version)
    return ReleaseVerdict(run_ids=ids, requirements=requirements, envelope=envelope)


def _choose(found: Ladder, price: Price) -> Chosen | None:
    """The points to release: the highest that lack nothing, else the highest rate that passed; ``None``: none passed."""
    if not found.passed_rates:
        return None
    rates = {id(one): _lacks(one, price) for one in found.passed_rates}
    closed = {id(one): _lacks(one, None) for one in found.passed_closed}
    whole = [one for one in found.passed_rates if not rates[id(one)]]
    kept = [one for one in found.passed_closed if not closed[id(one)]]
    rate, loop = whole[0] if whole else found.passed_rates[0], kept[0] if kept else None
    above = [*_above(found.passed_rates, rate), *_above(found.passed_closed, loop)]
    return Chosen(
        rate=rate,
        closed=loop,
        lower=whole[1:],
        lacking={one.point.name: (rates | closed)[id(one)] for one in above},
    )


def _above(passed: Sequence[PooledPoint], chosen: PooledPoint | None) -> list[PooledPoint]:
    """Those of a falling row that come before the chosen one; all of them where none is."""
    at = next((place for place, one in enumerate(passed) if one is chosen), len(passed))
    return list(passed[:at])


def _lacks(point: PooledPoint, price: Price | None) -> list[str]:
    return [one.name for one in unmet(of_the_point(point, price))]
