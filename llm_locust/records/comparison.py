"""Two or more runs side by side: what differs between their settings, and between their figures.

The first run is the one that the others are held against. Units are in the names of the figures; ``None`` means not
measured, never 0. Shares run from 0 to 1.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from llm_locust.records.figures import Figure, Interval
from llm_locust.records.manifest import SCHEMA_VERSION

SettingRole = Literal["compared", "allowed", "noted"]
"""``compared``: the one thing that the comparison is about. ``allowed``: it differs too, and a person said that it may.
``noted``: it differs, and follows from the rest or says nothing by itself."""

Method = Literal["bootstrap", "newcombe", "batch_means", "ratio"]


class SettingDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not the same in all runs."""

    name: str
    """As ``--allow`` takes it."""
    values: list[str]
    """Of each run, in words."""
    role: SettingRole
    """Why it may differ."""


class FigureDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of one run less the same figure of the first."""

    difference: float | None
    """In the unit of the figure; ``None`` where one of the two was not measured."""
    relative: float | None = None
    """difference / the figure of the first run; ``None`` where that is 0."""
    interval: Interval | None = None
    """Of the difference, 95 %, two-sided."""
    shown: bool | None = None
    """Whether a difference is shown: the interval leaves 0 out. ``None``: there is no interval, so nothing can be said."""
    reason: str | None = None
    """Why there is no interval, in words."""


class ComparedFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of all runs."""

    name: str
    """As in the summary: ``ttft_p95_ms``, ``goodput_rps``, ``error_rate``, ..."""
    values: list[Figure]
    """Of each run."""
    counts: list[int | None]
    """Of how many requests (or parts of the window) each is made."""
    differences: list[FigureDifference]
    """Of each run after the first."""
    method: Method | None = None
    """How the intervals were made; ``None``: there are none for this figure."""


class PartComparison(msgspec.Struct, frozen=True, kw_only=True):
    """All requests of a point, or one slice of them."""

    slice: str | None = None
    """``None``: all requests together."""
    figures: list[ComparedFigure]
    """Each figure of the part."""


class PointComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One rate or concurrency, all its rounds together."""

    names: list[str]
    """What the point is called in each run: one name over and over, unless the load itself is compared."""
    rounds: list[int]
    """Of each run, those that count."""
    parts: list[PartComparison]
    """All requests together, then each slice."""
    notes: list[str] = []
    """What is worth knowing, as sentences."""


class ComparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One of the runs."""

    label: str
    """``A``, ``B``, ..."""
    run_id: str
    """The run's name."""
    folder: str
    """Where its files are."""
    started_at: str
    """ISO 8601, UTC."""
    host: str
    """The base URL of the target, without credentials."""
    model: str | None
    """As requests name it; ``None``: none was named."""
    state: str
    """How the run ended."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What ``llm-locust compare`` found."""

    schema_version: str = SCHEMA_VERSION
    """Version of this form."""
    runs: list[ComparedRun]
    """Those compared; the others are held against the first."""
    settings: list[SettingDifference] = []
    """What is not the same in all runs."""
    compared: str
    """What the comparison is about, in a sentence."""
    points: list[PointComparison] = []
    """Each rate or concurrency that every run has."""
    not_compared: list[str] = []
    """Points that are not in every run, or not valid in one, with the reason."""
    methods: list[str] = []
    """How the intervals were made, and what they assume."""
    limitations: list[str] = []
    """What the comparison does not say, as sentences."""
