"""A run that machines watch: the Prometheus page and the JSON lines say what the rows on disk say."""

from __future__ import annotations

import json
import select
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from prometheus_client.parser import text_string_to_metric_families

from llm_locust.simulator.process import running
from llm_locust.web.exporter.metrics import exported_series
from tests.e2e.conftest import Locust, Run, free_port, processes

pytestmark = pytest.mark.process

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Watched:
    """A finished run, the last page that said that it was judged, and its lines."""

    def __init__(self, run: Run, page: str, pages: int) -> None:
        self.run = run
        self.pages = pages
        self.lines: list[dict[str, Any]] = [json.loads(line) for line in run.stdout.splitlines()]
        self.samples: Samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
        }

    def total(self, name: str, **labels: str) -> float:
        wanted = set(labels.items())
        return sum(value for (of, held), value in self.samples.items() if of == name and wanted <= held)

    def by(self, name: str, label: str, **labels: str) -> dict[str, int]:
        found: Counter[str] = Counter()
        for (of, held), value in self.samples.items():
            if of == name and set(labels.items()) <= held:
                found[dict(held)[label]] += int(value)
        return dict(found)

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == kind]

    def measured(self, stage: int) -> pd.DataFrame:
        rows = self.run.rows()
        return rows[(rows["stage"] == stage) & (rows["phase"] == "measure")]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    home: Path = tmp_path_factory.mktemp("watched")
    locust = Locust(home)
    port = free_port()
    with running(slots=4, decode_ms=10, fault=["status=429:0.2"]) as server:
        process = locust.start(
            "--headless", "--host", server.base_url, *processes(1), "--rates", "10,20", "--stage-time", "1",
            "--warmup-time", "0.5", "--cooldown", "0.5", "--max-tokens", "8", "--deadline", "5",
            "--slo", "ttft=2000,e2e=4000", "--prometheus-port", str(port), "--json-lines",
        )  # fmt: skip
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        judged, pages, give_up = "", 0, time.monotonic() + 90
        while process.poll() is None and time.monotonic() < give_up:
            try:
                with opener.open(f"http://127.0.0.1:{port}/metrics", timeout=5) as reply:
                    page = reply.read().decode()
                    pages += 1
            except (urllib.error.URLError, OSError):
                page = ""
            judged = page if 'run_state{state="running"} 0.0' in page else judged
            select.select([], [], [], 0.1)
        run = locust.finish(process)
        yield Watched(run, judged, pages)
    locust.kill_leftovers()


def test_the_page_counts_what_the_rows_count(watched: Watched) -> None:
    assert watched.run.code in (0, 4), watched.run.stderr
    assert watched.pages > 5
    for stage in (0, 1):
        rows, of = watched.measured(stage), {"stage": str(stage)}
        assert len(rows) > 5
        assert (
            watched.by("llm_locust_measured_requests_total", "outcome", **of)
            == rows["outcome"].value_counts().to_dict()
        )
        statuses = {str(status): count for status, count in rows["status"].value_counts().items()}
        assert watched.by("llm_locust_measured_responses_total", "status", **of) == statuses
        ok = rows[rows["outcome"] == "ok"]
        assert watched.total("llm_locust_measured_output_tokens_total", **of) == ok["output_tokens"].sum()
        assert watched.total("llm_locust_ttft_seconds_count", **of) == len(ok)
        ttft_s = float((ok["first_output_ns"] - ok["sent_ns"]).sum()) / 1e9
        assert watched.total("llm_locust_ttft_seconds_sum", **of) == pytest.approx(ttft_s)
        assert watched.total("llm_locust_requests_completed_total", **of) == len(
            watched.run.rows().query("stage == @stage")
        )


def test_the_page_and_the_merge_count_the_same_good_requests(watched: Watched) -> None:
    for stage in watched.run.summary.stages:
        assert watched.total("llm_locust_good_requests_total", stage=str(stage.stage)) == stage.good_requests


def test_the_page_holds_nothing_but_what_is_documented(watched: Watched) -> None:
    assert {name for name, _ in watched.samples} <= exported_series()
    assert watched.total("llm_locust_run_info", run_id=watched.run.folder.run_id, synthetic="true") == 1
    assert watched.total("llm_locust_server_up") == 1


def test_standard_output_is_lines_and_nothing_else(watched: Watched) -> None:
    kinds = [line["event"] for line in watched.lines]
    assert [kind for kind in kinds if kind != "figures"] == [
        "run_started", "stage_started", "stage_ended", "stage_started", "stage_ended", "judged",
    ]  # fmt: skip
    assert kinds.count("figures") >= 4
    assert {line["run_id"] for line in watched.lines} == {watched.run.folder.run_id}
    assert "offered" in watched.run.stderr  # the table went there


def test_lines_end_with_the_figures_and_results_of_the_summary(watched: Watched) -> None:
    summary = watched.run.summary
    for line, stage in zip(watched.events("stage_ended"), summary.stages, strict=True):
        everybody = line["stage"]["groups"][0]
        assert everybody["outcomes"] == stage.outcomes
        assert (everybody["measured"], everybody["good"]) == (stage.measured, stage.good_requests)
        assert everybody["attainment"] == pytest.approx(stage.attainment)
    (last,) = watched.events("judged")
    assert last["exit_code"] == watched.run.code
    assert last["sentence"] == summary.verdict
    assert [result["result"] for result in last["results"]] == [stage.verdict.result for stage in summary.stages]


def test_an_unusable_port_is_refused_before_load(locust: Locust) -> None:
    refused = locust.run("--host", "http://127.0.0.1:9", "--rates", "1", "--prometheus-port", "99999")
    assert refused.code == 2
    assert "--prometheus-port 99999: a port is at most 65535" in refused.stderr
    assert not refused.folder.path.exists()
