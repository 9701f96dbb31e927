"""From run folders to a comparison: what is read, and from where."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llm_locust.analysis.compared_requests import RunData
from llm_locust.analysis.comparison import compare_runs
from llm_locust.analysis.merged_file import read_merged
from llm_locust.analysis.raw_files import Progress
from llm_locust.records import Manifest, RunFolder
from llm_locust.records.comparison import Comparison
from llm_locust.records.summary import RunSummary


def compare_folders(
    paths: Sequence[Path], allowed: Sequence[str] = (), progress: Progress = lambda _: None
) -> Comparison:
    """Merged run folders side by side, the first being what the others are held against.

    Raises:
        UsageError: a folder is none or was not merged; or the runs cannot be compared (see
            :func:`~llm_locust.analysis.comparison.compare_runs`).
    """
    return compare_runs([_read(path, progress) for path in paths], allowed)


def _read(path: Path, progress: Progress) -> RunData:
    folder = RunFolder(path)
    manifest = Manifest.load(folder.manifest)
    summary = RunSummary.load(folder.summary)
    rows, gaps_us = read_merged(folder.merged, progress)
    return RunData(str(path), manifest, summary, rows, gaps_us)
