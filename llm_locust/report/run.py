"""Everything after the raw files, redone at any time: merge, figures, ``requests.csv``, ``summary.json``, ``report.md``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from llm_locust.analysis.goodput import judge
from llm_locust.analysis.judgement import judge_run
from llm_locust.analysis.merge import Merged, merge
from llm_locust.analysis.merged_file import read_merged, write_merged
from llm_locust.analysis.raw_files import PLAN, REQUESTS, Progress, RawRows, find_files, read_rows
from llm_locust.records import UNATTEMPTED, Manifest, Outcome, RunFolder, format_slo
from llm_locust.records.summary import Reconciliation, RunSummary
from llm_locust.report.markdown import render_markdown


class Reported(NamedTuple):
    """A judged run and where its report is."""

    summary: RunSummary
    report: Path


def merge_run(path: Path | str, others: Iterable[Path] = (), progress: Progress = lambda _: None) -> Reported:
    """Merge the raw files of a run, judge it by the limits of its manifest and write everything anew.

    Args:
        path: The run folder.
        others: Folders with worker files copied from other machines (run folders, or folders of ``worker-*.csv``).
        progress: Told what is being done.

    Raises:
        UsageError: the folder is none, or its files do not fit together.
    """
    folder = RunFolder(path)
    manifest = Manifest.load(folder.manifest)
    requests, issued = find_files(folder, others)
    plan = [folder.plan] if folder.plan.exists() else []
    due = read_rows([*plan, *issued], PLAN, manifest.run_id, progress)
    raw = read_rows(requests, REQUESTS, manifest.run_id, progress)
    progress("putting rows and plan together")
    merged = merge(manifest, due, raw)
    rows = merged.rows
    good = judge(rows, manifest.slo).good
    rows["good"] = pd.array(good, dtype="Int64")
    rows.loc[rows["good"] < 0, "good"] = pd.NA
    progress("computing figures")
    summary = judge_run(manifest, rows, _reconciliation(folder, merged, due, raw), manifest.slo)
    write_merged(folder.merged, rows, progress)
    summary.save(folder.summary)
    _write(folder.report_md, render_markdown(summary))
    return Reported(summary, folder.report_md)


def report_run(path: Path | str, slo: dict[str, float] | None = None) -> Reported:
    """Judge a merged run again from ``requests.csv``, by its own limits or by others.

    Other limits than the run was started with are marked as set afterwards and go to files named after them
    (``report-slo-ttft300-e2e3000.md`` and ``summary-slo-....json``): what the run itself was judged by stays as it is.

    Raises:
        UsageError: the run was not merged yet.
    """
    folder = RunFolder(path)
    manifest = Manifest.load(folder.manifest)
    reconciliation = RunSummary.load(folder.summary).reconciliation
    rows = read_merged(folder.merged)
    if slo is None or slo == manifest.slo:
        summary = judge_run(manifest, rows, reconciliation, manifest.slo)
        summary_path, report_path = folder.summary, folder.report_md
    else:
        summary = judge_run(manifest, rows, reconciliation, slo, "after")
        name = "slo-" + (format_slo(slo).replace("=", "").replace(",", "-") or "none")
        summary_path, report_path = folder.path / f"summary-{name}.json", folder.path / f"report-{name}.md"
    summary.save(summary_path)
    _write(report_path, render_markdown(summary))
    return Reported(summary, report_path)


def _reconciliation(folder: RunFolder, merged: Merged, due: RawRows, raw: RawRows) -> Reconciliation:
    outcomes = merged.rows["outcome"]

    def name(path: Path) -> str:
        return str(path.relative_to(folder.path)) if path.is_relative_to(folder.path) else str(path)

    return Reconciliation(
        planned=len(merged.rows),
        attempted=int((~outcomes.isin([str(outcome) for outcome in UNATTEMPTED])).sum()),
        not_sent=int((outcomes == Outcome.NOT_SENT).sum()),
        lost=int((outcomes == Outcome.LOST).sum()),
        sources=sorted(name(path) for path in due.files + raw.files),
        rows_read=raw.read,
        rows_collapsed=raw.collapsed,
        torn_lines={name(path): 1 for path in due.torn + raw.torn},
        planned_by_row=merged.planned_by_row,
    )


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
