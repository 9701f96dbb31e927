"""``llm-locust merge`` of the run that is shown, once more: with the facts of now, and all that the last merge read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from llm_locust.records import RunFolder, UsageError
from llm_locust.records.summary import RunSummary

JUDGED = (0, 3, 4)
"""Exit statuses of a merge that wrote its files."""

LONGEST_S = 1800


class Merged(NamedTuple):
    """How it went."""

    status: int
    output: str


def merge_again(folder: RunFolder) -> Merged:
    """Run it and wait.

    Raises:
        UsageError: something that the last merge read is not there any longer; without it the records would hold less.
    """
    command = [sys.executable, "-m", "llm_locust", "merge", str(folder.path), *options_of_the_last(folder)]
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=LONGEST_S,
            start_new_session=True,  # Ctrl-C is for the load, not for the judgement of it
            env={**os.environ, "COLUMNS": "120", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"},
        )
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"the merge took longer than {LONGEST_S / 60:g} minutes and was given up; "
            "run llm-locust merge on a command line"
        ) from None
    return Merged(done.returncode, done.stdout)


def options_of_the_last(folder: RunFolder) -> list[str]:
    """``--from`` and ``--telemetry`` for what the last merge read from outside the run folder."""
    if not folder.summary.exists():
        return []
    elsewhere = [
        Path(name)
        for name in RunSummary.load(folder.summary).reconciliation.sources
        if Path(name).is_absolute() or not (folder.path / name).exists()
    ]
    gone = [str(path) for path in elsewhere if not path.exists()]
    if gone:
        raise UsageError(
            f"the last merge also read {', '.join(gone)}, which is not there now: run llm-locust merge {folder.path} "
            "yourself, with --from or --telemetry"
        )
    others = dict.fromkeys(str(path.parent) for path in elsewhere if path.suffix == ".csv")
    telemetry = [str(path) for path in elsewhere if path.suffix != ".csv"]
    return [
        part
        for name, paths in (("--from", others), ("--telemetry", telemetry))
        for path in paths
        for part in (name, path)
    ]
