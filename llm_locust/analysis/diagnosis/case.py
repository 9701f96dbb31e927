"""What the rules look at, and how what they see becomes a finding.

A rule looks at every stage alone (or at the ladder) and says where it saw its symptom; seen in several stages it is one
finding with a sentence for each, so that a report names a cause once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from llm_locust.analysis import window as windows
from llm_locust.analysis.derived import Bools, mask
from llm_locust.analysis.gaps import Us
from llm_locust.analysis.words import with_round
from llm_locust.records import Manifest, Outcome
from llm_locust.records.diagnosis import MOST_ROWS, Confidence, Finding, Where
from llm_locust.records.server_sample import ServerSample
from llm_locust.records.summary import RunSummary, StageSummary

MOST_SENTENCES = 8
"""Sentences of evidence that a finding keeps; the stages are all named."""

STRENGTH: tuple[Confidence, ...] = ("shown", "likely", "possible")


class StageCase(NamedTuple):
    """One stage: its figures and what they were made of."""

    summary: StageSummary
    rows: pd.DataFrame
    """All its merged rows."""
    batch: Bools
    """Which of them were measured."""
    samples: list[ServerSample]
    """What the server's pages said inside the window."""

    @property
    def label(self) -> str:
        """Its name, with the round if it is a repetition."""
        of = self.summary
        return with_round(of.label, of.round)

    @property
    def ok(self) -> Bools:
        """Which rows ended ok, measured or not."""
        return mask(self.rows["outcome"] == Outcome.OK)


class Case(NamedTuple):
    """A judged run."""

    manifest: Manifest
    summary: RunSummary
    stages: list[StageCase]
    gaps_us: Us
    """The gaps that the rows point into."""


class Named(NamedTuple):
    """Requests that show a symptom."""

    total: int
    first: list[tuple[int, str]]
    """Index and request id of the plainest, at most ``MOST_ROWS``."""


NOBODY = Named(0, [])


class Symptom(NamedTuple):
    """What a rule saw in one stage."""

    stage: StageCase
    evidence: str
    confidence: Confidence
    named: Named = NOBODY
    samples_ns: Sequence[int] = ()


def case_of(
    manifest: Manifest,
    summary: RunSummary,
    rows_of_stages: Sequence[pd.DataFrame],
    gaps_us: Us,
    samples: Sequence[ServerSample] = (),
) -> Case:
    """What the rules look at.

    Args:
        manifest: The run's manifest.
        summary: The run as it was judged, its stages in the manifest's order.
        rows_of_stages: The merged rows of each stage, with derived columns, in the same order.
        gaps_us: The gaps that they point into.
        samples: What the server's pages said, on the master's clock.
    """
    stages = []
    for stage, judged, rows in zip(manifest.stages, summary.stages, rows_of_stages, strict=True):
        window = windows.measured_window(stage, rows)
        inside = [] if window is None else [s for s in samples if window.start_ns <= s.at_ns < window.end_ns]
        stages.append(StageCase(judged, rows, windows.batch(rows, stage, window), inside))
    return Case(manifest, summary, stages, gaps_us)


def found(
    rule: str, title: str, where: Where, vary_next: Sequence[str], symptoms: Iterable[Symptom]
) -> Iterator[Finding]:
    """The finding that some symptoms make together; none without any."""
    seen = list(symptoms)
    if not seen:
        return
    named = list(itertools.islice(_in_turn([symptom.named.first for symptom in seen]), MOST_ROWS))
    moments = sorted({at for symptom in seen for at in symptom.samples_ns})
    several = len({symptom.stage.label for symptom in seen}) > 1
    yield Finding(
        rule=rule,
        title=title,
        where=where,
        confidence=min((symptom.confidence for symptom in seen), key=STRENGTH.index),
        stages=list(dict.fromkeys(symptom.stage.label for symptom in seen)),
        evidence=[
            f"{symptom.stage.label}: {symptom.evidence}" if several else symptom.evidence
            for symptom in seen[:MOST_SENTENCES]
        ],
        rows=[index for index, _ in named],
        request_ids=[name for _, name in named],
        rows_in_all=sum(symptom.named.total for symptom in seen),
        samples_ns=moments[:MOST_ROWS],
        vary_next=list(vary_next),
    )


def _in_turn(lists: Sequence[list[tuple[int, str]]]) -> Iterator[tuple[int, str]]:
    """One row of each stage after the other, so that no stage fills the list alone."""
    for turn in itertools.zip_longest(*lists):
        yield from (pair for pair in turn if pair is not None)


def named(rows: pd.DataFrame, chosen: Bools, by: str | None = None) -> Named:
    """The chosen rows, named: in their order, or by a column of numbers, the largest first and those without one last."""
    places = np.flatnonzero(chosen)
    first = places[:MOST_ROWS]
    if by is not None:
        values = rows[by].to_numpy(dtype=np.float64, na_value=np.nan)[places]
        first = places[np.argsort(-np.where(np.isnan(values), -np.inf, values), kind="stable")[:MOST_ROWS]]
    few = rows[["index", "request_id"]].iloc[first]
    return Named(len(places), [(int(i), str(name)) for i, name in zip(few["index"], few["request_id"], strict=True)])
