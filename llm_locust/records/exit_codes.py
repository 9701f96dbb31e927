"""With what a command ends: one meaning per number, for ``locust`` with this project and for all of ``llm-locust``."""

from __future__ import annotations

import enum


class ExitCode(enum.IntEnum):
    """The exit status of a command. What it is about (a run, a release, records, a smoke test) is the command's own."""

    DONE = 0
    """Ran and was judged; a ladder that found its boundary is a success."""
    CRASH = 1
    """An error of ours, or a crash."""
    USAGE = 2
    """Usage: a wrong option or file, a server that does not take a request, or nothing could be sent."""
    NOT_MET = 3
    """A requirement is not met: ``--require-rate R``, ``--require-pass``, ``llm-locust gate``."""
    UNDECIDED = 4
    """Arrivals were lost, or what decides is invalid or undetermined (an interrupted run, too few requests)."""


JUDGED = frozenset({ExitCode.DONE, ExitCode.NOT_MET, ExitCode.UNDECIDED})
"""With these ends what has judged: whatever came of it, the figures are there."""
