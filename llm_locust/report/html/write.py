"""``report.html`` and the data of its charts, written beside the other files of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from llm_locust.analysis.gaps import Us
from llm_locust.records import Manifest, RunFolder
from llm_locust.records.summary import RunSummary
from llm_locust.records.whole_file import write_whole
from llm_locust.report.html.chart import Chart, csv_of
from llm_locust.report.html.page import make_page
from llm_locust.report.html.render import render
from llm_locust.report.html.run_data import run_data
from llm_locust.report.telemetry_files import RunSamples


def write_html(
    folder: RunFolder,
    manifest: Manifest,
    summary: RunSummary,
    rows: pd.DataFrame,
    gaps_us: Us,
    samples: RunSamples,
    markdown: str,
    name: str = "",
) -> Path:
    """Write the report of a judged run; returns its path.

    Args:
        folder: The run folder; ``summary.json`` (or that of the ``name``) is in it.
        manifest: The run's manifest.
        summary: What was judged.
        rows: The merged table.
        gaps_us: The gaps that its rows point into.
        samples: What server and devices showed.
        markdown: ``report.md``: what it says in words is taken from there.
        name: What a judgement by other limits adds to the names of its files.
    """
    known = samples.devices.devices if samples.devices is not None else []
    # A device that several samplers saw is drawn once, as the one that saw most of it did.
    devices = [sample for of in known for sample in max(of, key=lambda series: len(series.samples)).samples]
    data = run_data(manifest, summary, rows, gaps_us, samples.server, devices, folder.generator)
    charts = folder.charts_dir.with_name(folder.charts_dir.name + name)
    page = make_page(data, folder, markdown, name)
    _write_charts(charts, page.charts)
    path = folder.report_html.with_name(f"report{name}.html")
    write_whole(path, render(page, charts.name))
    return path


def _write_charts(folder: Path, charts: Sequence[Chart]) -> None:
    """Every chart's data; what an earlier report had there and this one has not is taken away."""
    folder.mkdir(exist_ok=True)
    for chart in charts:
        write_whole(folder / f"{chart.name}.csv", csv_of(chart.columns))
    kept = {f"{chart.name}.csv" for chart in charts}
    for path in folder.glob("*.csv"):
        if path.name not in kept:
            path.unlink()
