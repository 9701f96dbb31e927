"""The live picture of a run's rows beside the summary that the merge makes of the same files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llm_locust.live.run import LiveRun
from llm_locust.live.snapshot import LATENCIES, GroupView, StageView
from llm_locust.records import NS_PER_S, Manifest, Outcome
from llm_locust.records.summary import BatchFigures, RunSummary, StageSummary
from llm_locust.report.run import merge_run
from tests.analysis.run_builder import T0, RunBuilder, StageBuilder

SLO = {"ttft": 400.0, "tpot": 60.0, "max_gap": 900.0}


def fill(stage: StageBuilder, seed: int, count: int) -> None:
    """Requests over warm-up, window and cool-down, a tenth of them failed, of two slices and two user classes."""
    random = np.random.default_rng(seed)
    for k in range(count):
        at = -5 + 75 * k / count
        fields: dict[str, Any] = {
            "slice": ("faq", "long")[k % 3 == 0],
            "user": ("Chat", "Completion")[k % 4 == 0],
            "lag": float(random.exponential(0.3)),
            "cap_wait": float(random.exponential(0.1)),
            "worker": k % 2,
        }
        tokens = int(random.integers(1, 60))
        ttft = float(random.lognormal(5, 0.6))
        gaps = [int(gap) for gap in random.lognormal(10, 0.7, tokens - 1)]
        fate = random.random()
        if fate < 0.04:
            stage.request(at, outcome="rejected", status=429, e2e=3, **fields)
        elif fate < 0.07:
            stage.request(at, outcome="timeout", status=200, e2e=30_000, **fields)
        elif fate < 0.08:
            stage.request(at, outcome="not_sent", **fields)
        else:
            stage.request(
                at,
                ttft=ttft,
                e2e=ttft + sum(gaps) / 1000,
                tokens=tokens,
                gaps_us=gaps or None,
                max_gap_ns=max(gaps, default=0) * 1000 if gaps else None,
                **fields,
            )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = RunBuilder(tmp_path_factory.mktemp("runs"), slo=SLO, workers=2, offsets_ns={1: (5 * NS_PER_S, 5 * NS_PER_S)})
    fill(run.stage(rate=10, window=60, warmup=5, cooldown=10), seed=1, count=700)
    fill(run.stage(rate=4, window=60, warmup=5, cooldown=10), seed=2, count=150)
    closed = run.stage(concurrency=4, window=None, requests=40)
    closed.manifest.end_ns = closed.window_start_ns + 90 * NS_PER_S
    for k in range(40):
        closed.request(2.0 * k + 1, ttft=100 + k, e2e=1000 + 10 * k, tokens=20, phase="measure", worker=k % 2)
    return run.write()


@pytest.fixture(scope="module")
def summary(folder: Path) -> RunSummary:
    return merge_run(folder, html=False).summary


@pytest.fixture(scope="module")
def live(folder: Path) -> list[StageView]:
    manifest = Manifest.load(folder / "manifest.json")
    run = LiveRun(lambda: T0 + 4 * 3600 * NS_PER_S)
    run.begin(manifest, str(folder), len(manifest.stages))
    for stage in manifest.stages:
        run.stage_starts(stage)
    for path in sorted((folder / "requests").glob("worker-?.csv")):
        for _ in run.on_rows(path.read_text().partition("\n")[2]):
            pass
    for stage in manifest.stages:
        run.stage_ends(stage)
    now = run.snapshot()
    assert now.notes == []
    return now.stages


def in_common(found: GroupView, due: BatchFigures) -> None:
    assert (found.measured, found.ok, found.failed) == (due.measured, due.successful, due.failed)
    assert found.outcomes == due.outcomes
    assert found.status_counts == due.status_counts
    assert (found.good, found.attainment, found.error_rate) == (due.good_requests, due.attainment, due.error_rate)
    assert (found.seconds, found.goodput_rps) == (due.seconds, due.goodput_rps)
    assert (found.throughput_rps, found.output_tokens) == (due.request_throughput_rps, due.output_tokens)
    waiting = {"cap_wait", "client_wait"} if Outcome.NOT_SENT in due.outcomes else set()
    for name in LATENCIES:
        for percent in (50, 95, 99):
            figure = due.percentiles[f"{name}_p{percent}_ms"]
            if name in waiting and percent > 50:
                continue  # one given up while it was held back waits for ever in the merge, and has no wait here
            if figure.value is None:
                assert name not in found.latencies
            elif name not in waiting:
                spread = found.latencies[name]
                assert getattr(spread, f"p{percent}") == pytest.approx(figure.value, rel=0.0051), (name, percent)
                assert spread.count == figure.n


def pairs(summary: RunSummary, live: list[StageView]) -> list[tuple[StageSummary, StageView]]:
    return list(zip(summary.stages, live, strict=True))


def test_counts_goodput_and_percentiles_of_every_stage(summary: RunSummary, live: list[StageView]) -> None:
    for due, found in pairs(summary, live):
        assert (found.stage, found.label, found.phase) == (due.stage, due.label, "done")
        assert found.groups[0].slice is None
        assert found.groups[0].user is None
        assert due.measured > 30
        in_common(found.groups[0], due)
    assert [due.good_requests is None for due in summary.stages] == [
        False,
        False,
        True,
    ]  # the last lacks its longest gaps


def test_each_slice_alone(summary: RunSummary, live: list[StageView]) -> None:
    for due, found in pairs(summary, live)[:2]:
        by_name = {group.slice: group for group in found.groups if group.user is None and group.slice is not None}
        assert sorted(by_name) == [of.name for of in due.slices] == ["faq", "long"]
        for of in due.slices:
            in_common(by_name[of.name], of)


def test_groups_come_in_their_order_and_add_up(live: list[StageView]) -> None:
    groups = live[0].groups
    assert [(group.slice, group.user) for group in groups] == [
        (None, None), ("faq", None), ("long", None), (None, "Chat"), (None, "Completion"),
        ("faq", "Chat"), ("faq", "Completion"), ("long", "Chat"), ("long", "Completion"),
    ]  # fmt: skip
    assert sum(group.measured for group in groups[5:]) == groups[0].measured
    assert [(group.slice, group.user) for group in live[2].groups] == [(None, None), (None, "Chat")]


def test_everything_that_ended_is_complete_and_the_generator_kept_up(
    summary: RunSummary, live: list[StageView]
) -> None:
    for due, found in pairs(summary, live):
        assert found.completed == due.attempted
        assert found.generator.keeps_up is due.generator.valid is True
        assert found.generator.first_coalesced_share == due.generator.first_coalesced_share
        if due.generator.dispatch_lag_p99_ms is not None:
            assert found.generator.dispatch_lag_p99_ms == pytest.approx(due.generator.dispatch_lag_p99_ms, rel=0.0051)
            assert found.generator.lag_bound_ms == due.generator.lag_bound_ms
