"""A mapping that came after the run: the pages that were kept are read by it, and every later report knows of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from llm_locust.cli.merge import command as merge
from llm_locust.records import NS_PER_S, RunFolder, UsageError
from llm_locust.records.server_sample import ServerSample
from llm_locust.report import merge_run, report_run
from llm_locust.report.pages_read_anew import read_anew
from llm_locust.telemetry.raw_pages import RawPage, RawPages
from tests.analysis.run_builder import METRICS, T0, RunBuilder

OWN = """
engine = "mine"
title = "My engine"
verified = false
source = "a page"
prefix = ["mine_"]
[gauges]
running = "mine_active"
"""


def run_with_pages(tmp_path: Path, name: str = "mine_active") -> RunFolder:
    """A run whose server was of no known engine: its pages were kept, its rows hold why they could not be read."""
    run = RunBuilder(tmp_path)
    stage = run.stage(rate=2, window=20)
    stage.requests(40)
    stage.scraped(lambda _: {"engine": None, "verified": None, "error": "no known engine", "scrape_ms": 3.0})
    folder = RunFolder(run.write())
    folder.raw_metrics_dir.mkdir()
    pages = RawPages(folder.raw_metrics_dir / "127.0.0.1-8000-metrics.txt.gz")
    for sample in run.samples:
        pages.append(RawPage(sample.at_ns, sample.target, f"{name} {7 if sample.at_ns > T0 else 1}\n".encode()))
    pages.close()
    return folder


def mapping(tmp_path: Path) -> Path:
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    return path


def test_a_row_gives_way_to_what_its_page_says_and_keeps_how_long_it_took(tmp_path: Path) -> None:
    folder = run_with_pages(tmp_path)
    at_ns = T0 + NS_PER_S // 2
    failed = ServerSample(at_ns=T0 + 1, target=METRICS, error="HTTP 500")
    before = [failed, ServerSample(at_ns=at_ns, target=METRICS, error="no known engine", scrape_ms=3.0)]
    found = read_anew(folder, before, mapping(tmp_path))
    (of_that_page,) = [sample for sample in found.samples if sample.at_ns == at_ns]
    assert (of_that_page.engine, of_that_page.running, of_that_page.error, of_that_page.scrape_ms) == (
        "mine",
        7,
        None,
        3.0,
    )
    assert failed in found.samples  # there was no page
    assert [sample.at_ns for sample in found.samples] == sorted(sample.at_ns for sample in found.samples)


def test_the_run_is_judged_by_it_from_then_on(tmp_path: Path) -> None:
    folder = run_with_pages(tmp_path)
    server = merge_run(folder.path).summary.stages[0].server
    assert server is not None
    assert server.running_peak is None
    result = CliRunner().invoke(merge, [str(folder.path), "--no-html", "--metrics-map", str(mapping(tmp_path))])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    for summary in (merge_run(folder.path).summary, report_run(folder.path).summary):
        server = summary.stages[0].server
        assert server is not None
        assert server.running_peak == 7
        assert (
            "61 metrics pages were read anew after the run, by metrics-map.toml (My engine)" in summary.telemetry_notes
        )


def test_a_mapping_that_fits_none_of_the_pages_is_refused_and_not_kept(tmp_path: Path) -> None:
    folder = run_with_pages(tmp_path, name="theirs_active")
    with pytest.raises(UsageError, match=r"its prefix is on none of the pages in .*127\.0\.0\.1-8000-metrics\.txt\.gz"):
        merge_run(folder.path, metrics_map=mapping(tmp_path))
    assert not folder.metrics_map.exists()
