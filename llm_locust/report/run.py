"""Everything after the raw files, redone at any time: merge, figures, ``requests.csv``, ``summary.json``, ``report.md``."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from llm_locust.analysis.diagnosis import case_of, diagnose
from llm_locust.analysis.evidence_files import write_records
from llm_locust.analysis.gaps import Us
from llm_locust.analysis.goodput import judge
from llm_locust.analysis.judgement import judge_run, rows_of
from llm_locust.analysis.merge import Merged, merge
from llm_locust.analysis.merged_file import read_merged, write_merged
from llm_locust.analysis.raw_files import PLAN, REQUESTS, Progress, RawRows, Step, find_files, read_rows
from llm_locust.analysis.run_telemetry import see_run, seen_before
from llm_locust.analysis.server_facts import server_facts
from llm_locust.records import UNATTEMPTED, Manifest, Outcome, RunFolder, format_slo
from llm_locust.records.facts import Facts, combine, read_facts
from llm_locust.records.gates import GateSpec, format_gate, parse_gate
from llm_locust.records.summary import Reconciliation, RunSummary, WhenSet
from llm_locust.records.whole_file import write_whole
from llm_locust.report.markdown import render_markdown
from llm_locust.report.pages_read_anew import keep_mapping
from llm_locust.report.run_state import state_of
from llm_locust.report.telemetry_files import RunSamples, read_samples
from llm_locust.report.worksheet import worksheet_csv, worksheet_lines, worksheet_markdown


class Reported(NamedTuple):
    """A judged run and where its report is."""

    summary: RunSummary
    report: Path
    html: Path | None = None
    """``report.html``; ``None`` when it was not asked for."""


def merge_run(
    path: Path | str,
    others: Iterable[Path] = (),
    progress: Progress = lambda _: None,
    telemetry: Iterable[Path] = (),
    html: bool = False,
    metrics_map: Path | None = None,
) -> Reported:
    """Merge the raw files of a run, judge it by the limits of its manifest and write everything anew.

    Args:
        path: The run folder.
        others: Folders with worker files copied from other machines (run folders, or folders of ``worker-*.csv``).
        progress: Told what is being done.
        telemetry: Files of ``llm-locust telemetry`` from the machine under test.
        html: Also write ``report.html`` and the data of its charts, which takes a second or two.
        metrics_map: A mapping to read the metrics pages of the run by once more; it is kept in the folder.

    Raises:
        UsageError: the folder is none, its files do not fit together, or the mapping fits none of its pages.
    """
    folder = RunFolder(path)
    manifest, facts = _with_facts(folder)
    if metrics_map is not None:
        keep_mapping(folder, metrics_map)
    samples = read_samples(folder, manifest, telemetry)
    requests, issued = find_files(folder, others)
    plan = [folder.plan] if folder.plan.exists() else []
    due = read_rows([*plan, *issued], PLAN, manifest.run_id, progress)
    raw = read_rows(requests, REQUESTS, manifest.run_id, progress)
    progress(Step("putting rows and plan together", len(raw.frame)))
    merged = merge(manifest, due, raw)
    reconciliation = _reconciliation(folder, merged, due, raw, samples)
    del due, raw
    rows = merged.rows
    good = judge(rows, manifest.slo).good
    rows["good"] = pd.arrays.IntegerArray(good.clip(0).astype("int64"), good < 0)
    progress(Step("computing figures", len(rows)))
    of_stages = [rows_of(rows, stage.spec.stage, stage.spec.round) for stage in manifest.stages]
    seen = see_run(manifest, of_stages, samples.server, samples.devices, samples.notes)
    gates = manifest_gates(manifest)
    limits_set = own_limits_set(manifest)
    summary = judge_run(manifest, rows, merged.gaps_us, reconciliation, manifest.slo, limits_set, gates, seen=seen)
    summary.findings = diagnose(case_of(manifest, summary, of_stages, merged.gaps_us, samples.server))
    del of_stages
    write_merged(folder.merged, rows, merged.gaps_us, progress)
    summary.save(folder.summary)
    write_records(folder, manifest, summary, facts)
    _write_worksheet(folder, manifest, summary, facts)
    markdown = render_markdown(summary)
    write_whole(folder.report_md, markdown)
    page = _html(folder, manifest, summary, rows, merged.gaps_us, samples, markdown, progress) if html else None
    return Reported(summary, folder.report_md, page)


def own_limits_set(manifest: Manifest) -> WhenSet:
    """Whether the limits in the manifest were there before load; those of an imported run never were."""
    return "before" if manifest.transcribed is None else "after"


def manifest_gates(manifest: Manifest) -> list[GateSpec]:
    """The gates that were fixed before load; none when the defaults were to stand."""
    return [parse_gate(text) for text in manifest.gates]


def report_run(
    path: Path | str,
    slo: dict[str, float] | None = None,
    gates: Sequence[GateSpec] | None = None,
    progress: Progress = lambda _: None,
    html: bool = False,
) -> Reported:
    """Judge a merged run again from ``requests.csv``, by its own limits and gates or by others.

    Other ones than the run was started with are marked as set afterwards and go to files named after them
    (``report-slo-ttft300-e2e3000.md`` and ``summary-slo-....json``): what the run itself was judged by stays as it is.

    Raises:
        UsageError: the run was not merged yet.
    """
    folder = RunFolder(path)
    manifest, facts = _with_facts(folder)
    merged = RunSummary.load(folder.summary)
    rows, gaps_us = read_merged(folder.merged, progress)
    progress(Step("computing figures", len(rows)))
    own = manifest_gates(manifest)
    limits, held = manifest.slo if slo is None else slo, own if gates is None else gates
    own_limits = limits == manifest.slo
    limits_set: WhenSet = own_limits_set(manifest) if own_limits else "after"
    gates_set: WhenSet = "before" if set(held) == set(own) else "after"
    if own_limits:
        limits = manifest.slo
    summary = judge_run(
        manifest, rows, gaps_us, merged.reconciliation, limits, limits_set, held, gates_set, seen_before(merged)
    )
    name = ""
    if not own_limits:
        name += "-slo-" + (format_slo(limits).replace("=", "").replace(",", "-") or "none")
    if gates_set == "after":
        name += "-gates-" + _digest(held)
    samples = read_samples(folder, manifest, _telemetry_read(folder, merged))
    of_stages = [rows_of(rows, stage.spec.stage, stage.spec.round) for stage in manifest.stages]
    summary.findings = diagnose(case_of(manifest, summary, of_stages, gaps_us, samples.server))
    summary_path = folder.path / f"summary{name}.json" if name else folder.summary
    report_path = folder.path / f"report{name}.md" if name else folder.report_md
    summary.save(summary_path)
    _write_worksheet(folder, manifest, summary, facts, name)
    markdown = render_markdown(summary)
    write_whole(report_path, markdown)
    page = _html(folder, manifest, summary, rows, gaps_us, samples, markdown, progress, name) if html else None
    return Reported(summary, report_path, page)


def _html(
    folder: RunFolder,
    manifest: Manifest,
    summary: RunSummary,
    rows: pd.DataFrame,
    gaps_us: Us,
    samples: RunSamples,
    markdown: str,
    progress: Progress,
    name: str = "",
) -> Path:
    from llm_locust.report.html import write_html  # brings matplotlib with it, which takes longer than a small merge

    progress(Step("drawing report.html", len(rows)))
    return write_html(folder, manifest, summary, rows, gaps_us, samples, markdown, name)


def _telemetry_read(folder: RunFolder, merged: RunSummary) -> list[Path]:
    """The files of ``llm-locust telemetry`` that the merge read, where they still are."""
    own = {folder.plan.name, folder.server_csv.name, folder.devices_csv.name, folder.metrics_map.name}
    sources = [Path(name) for name in merged.reconciliation.sources]
    return [path for path in sources if path.name not in own and path.suffix != ".csv" and path.exists()]


def _with_facts(folder: RunFolder) -> tuple[Manifest, Facts]:
    """The manifest with the facts that hold, and where each was written: ``facts.toml`` corrects what it was started with.

    Raises:
        UsageError: there is no manifest, the facts file cannot be used, or it contradicts what the server said.
    """
    manifest = Manifest.load(folder.manifest)
    manifest.state, manifest.state_reason = state_of(folder, manifest)
    facts = Facts(manifest.facts, folder.manifest.name)
    if folder.facts.exists():
        facts = read_facts(folder.facts).on_top_of(facts)
        combine(facts, server_facts(manifest))  # before anything is written
        manifest.facts = dict(facts.values)
    return manifest, facts


def _write_worksheet(folder: RunFolder, manifest: Manifest, summary: RunSummary, facts: Facts, name: str = "") -> None:
    """Beside the report, as CSV and as Markdown; ``name`` marks what was judged by other limits than the run's own."""
    lines = worksheet_lines(manifest, summary, facts)
    for path, text in (
        (folder.worksheet_csv, worksheet_csv(lines)),
        (folder.worksheet_md, worksheet_markdown(summary, lines)),
    ):
        write_whole(path.with_name(f"{path.stem}{name}{path.suffix}"), text)


def _digest(gates: Sequence[GateSpec]) -> str:
    """A short name for some gates; as they are written they would be no file name."""
    text = "\n".join(sorted(map(format_gate, gates)))
    return hashlib.sha256(text.encode()).hexdigest()[:8] if gates else "default"


def _reconciliation(
    folder: RunFolder, merged: Merged, due: RawRows, raw: RawRows, samples: RunSamples
) -> Reconciliation:
    outcomes = merged.rows["outcome"]

    def name(path: Path) -> str:
        return str(path.relative_to(folder.path)) if path.is_relative_to(folder.path) else str(path)

    return Reconciliation(
        planned=len(merged.rows),
        attempted=int((~outcomes.isin([str(outcome) for outcome in UNATTEMPTED])).sum()),
        not_sent=int((outcomes == Outcome.NOT_SENT).sum()),
        lost=int((outcomes == Outcome.LOST).sum()),
        sources=sorted(name(path) for path in due.files + raw.files + samples.files),
        rows_read=raw.read,
        rows_collapsed=raw.collapsed,
        torn_lines={name(path): 1 for path in due.torn + raw.torn + samples.torn},
        planned_by_row=merged.planned_by_row,
        workers_without_file=merged.without_file,
    )
