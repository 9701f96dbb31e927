"""Judging a run from inside Locust: the same command that a person would give later, in a process of its own.

A process of its own keeps pandas out of the load generator, and its work away from heartbeats and arrivals.
"""

from __future__ import annotations

import os
import subprocess
import sys

from llm_locust.analysis.words import with_round
from llm_locust.records import RunFolder
from llm_locust.records.exit_codes import JUDGED
from llm_locust.records.summary import Result, RunSummary, StageSummary


def output_width() -> int:
    """Columns of the terminal; 120 where the output goes to a file."""
    return os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 120


def merge(folder: RunFolder, *, html: bool = True) -> tuple[int, str]:
    """Exit code and printed table of ``llm-locust merge``; without ``html`` it draws no report."""
    done = subprocess.run(
        [sys.executable, "-m", "llm_locust", "merge", str(folder.path), *([] if html else ["--no-html"])],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        start_new_session=True,  # Ctrl-C is for the load, not for the judgement of it
        env={
            **os.environ,
            "COLUMNS": str(output_width()),
            **({"FORCE_COLOR": "1"} if sys.stdout.isatty() else {}),
        },
    )
    return done.returncode, done.stdout


def newest_stage(folder: RunFolder) -> StageSummary | None:
    """The stage that was run last, judged by what is on disk; ``None`` when it cannot be."""
    code, _ = merge(folder, html=False)  # a run that goes on is not to wait for charts
    if code not in JUDGED:
        return None
    return RunSummary.load(folder.summary).stages[-1]


def newest_result(folder: RunFolder) -> Result:
    """What the stage that was run last came to."""
    stage = newest_stage(folder)
    return stage.verdict.result if stage is not None else "undetermined"


def failed_stage(folder: RunFolder) -> str | None:
    """Why a ladder should stop after its newest stage: that stage fails. ``None`` while it does not."""
    stage = newest_stage(folder)
    if stage is None or stage.verdict.result != "fail":
        return None
    return f"--stop-on-fail: {with_round(stage.label, stage.round)} failed"
