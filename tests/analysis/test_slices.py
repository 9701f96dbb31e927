"""Slices: the same figures alone, gates of their own, and no hiding in the whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_locust.analysis.judgement import conclude
from llm_locust.records.gates import parse_gates
from llm_locust.records.summary import RunSummary, SliceSummary, StageSummary
from llm_locust.report import merge_run
from tests.analysis.run_builder import RunBuilder


@pytest.fixture
def merged(tmp_path: Path) -> RunSummary:
    """95 questions that are answered at once, and 5 long documents that are not."""
    run = RunBuilder(tmp_path, slo={"ttft": 500})
    stage = run.stage(rate=2)
    stage.requests(95, ttft=100, slice="faq")
    stage.requests(5, ttft=900, slice="long", first=0.1)
    return merge_run(run.write()).summary


def judged(merged: RunSummary, *gates: str) -> StageSummary:
    (stage,) = conclude(merged, parse_gates(gates)).stages
    return stage


def of(stage: StageSummary, name: str) -> SliceSummary:
    return next(each for each in stage.slices if each.name == name)


def test_each_slice_has_its_own_figures(merged: RunSummary) -> None:
    (stage,) = merged.stages
    faq, long = stage.slices
    assert (faq.name, faq.measured, faq.attainment, faq.percentiles["ttft_p95_ms"].value) == ("faq", 95, 1.0, 100.0)
    assert (long.name, long.measured, long.attainment, long.percentiles["ttft_p95_ms"].value) == ("long", 5, 0.0, 900.0)
    assert long.limits[0].missed == 5
    assert (faq.goodput_rps, long.goodput_rps) == (95 / 60, 0.0)
    assert (stage.attainment, stage.verdict.result) == (0.95, "pass")
    assert (faq.result, long.result) == (None, None)


def test_a_slice_that_fails_its_gate_fails_the_stage(merged: RunSummary) -> None:
    stage = judged(merged, "attainment>=0.95", "faq:ttft_p95<=800", "long:ttft_p95<=800")
    assert stage.verdict.result == "fail"
    assert [(d.name, d.detail) for d in stage.verdict.failing_dimensions] == [("long:ttft_p95", "900 ms, over 800 ms")]
    assert (of(stage, "faq").result, of(stage, "long").result) == ("pass", "fail")
    assert of(stage, "long").failing_dimensions == stage.verdict.failing_dimensions


def test_a_star_holds_every_slice_but_those_with_a_gate_of_their_own(merged: RunSummary) -> None:
    stage = judged(merged, "*:attainment>=0.9", "long:attainment>=0")
    assert [(g.slice, g.name, g.limit) for g in stage.verdict.gates[:2]] == [
        ("faq", "attainment", 0.9),
        ("long", "attainment", 0.0),
    ]
    assert stage.verdict.result == "pass"


def test_a_slice_that_sent_nothing_is_undetermined(merged: RunSummary) -> None:
    stage = judged(merged, "code:ttft_p95<=800")
    assert stage.verdict.result == "undetermined"
    assert stage.verdict.sentence == "code:ttft_p95: no request of this slice was measured"


def test_the_limits_behind_a_slices_attainment_are_named_with_the_slice(merged: RunSummary) -> None:
    stage = judged(merged, "*:attainment>=0.9")
    assert [(d.name, d.detail) for d in stage.verdict.failing_dimensions] == [("long:ttft", "5 of 5 over 500 ms")]


def test_a_run_without_slices_has_none(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    run.stage(rate=2).requests(100)
    (stage,) = merge_run(run.write()).summary.stages
    assert stage.slices == []
    star = judged(merge_run(run.write()).summary, "*:error_rate<=0.5")
    assert star.verdict.result == "undetermined"
