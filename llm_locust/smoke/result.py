"""What a smoke test came to: its checks, each with what was seen, and the figures of its short run."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from llm_locust.records import ExitCode
from llm_locust.smoke.figures import SmokeFigures

CheckResult = Literal["pass", "fail", "not_applicable", "undecided"]
"""``undecided``: it matters, and what was seen does not tell."""


class Found(NamedTuple):
    """What one check found."""

    result: CheckResult
    seen: str
    """What was seen, with its numbers; empty when nothing was looked at."""
    reason: str | None = None
    """Why it did not pass; ``None`` for a pass."""


def passed(seen: str) -> Found:
    """The promise was kept."""
    return Found("pass", seen)


def failed(reason: str, seen: str = "") -> Found:
    """The promise was broken."""
    return Found("fail", seen, reason)


def not_applicable(reason: str, seen: str = "") -> Found:
    """There is no such promise here."""
    return Found("not_applicable", seen, reason)


def undecided(reason: str, seen: str = "") -> Found:
    """It matters, and what was seen does not tell."""
    return Found("undecided", seen, reason)


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check and what it found."""

    name: str
    result: CheckResult
    seen: str
    reason: str | None = None

    @staticmethod
    def of(name: str, found: Found) -> Check:
        """The check of this name."""
        return Check(name=name, result=found.result, seen=found.seen, reason=found.reason)


class SmokeResult(msgspec.Struct, frozen=True, kw_only=True):
    """A whole smoke test."""

    against: Literal["simulator", "server"]
    """The synthetic engine, started for it, or a server that was there."""
    host: str
    engine: str | None = None
    engine_version: str | None = None
    model: str | None = None
    synthetic_engine: bool
    note: str
    """What the figures are, and what they are not."""
    figures: SmokeFigures
    checks: list[Check]
    seconds: float
    """How long it took."""
    run_folder: str | None = None
    """Where the run was kept; ``None``: it was not."""

    def count(self, result: CheckResult) -> int:
        """How many checks came to this."""
        return sum(check.result == result for check in self.checks)

    @property
    def exit_code(self) -> ExitCode:
        """Every check passed or does not apply; one failed; or none failed, and one is undecided."""
        if self.count("fail"):
            return ExitCode.NOT_MET
        return ExitCode.UNDECIDED if self.count("undecided") else ExitCode.DONE
