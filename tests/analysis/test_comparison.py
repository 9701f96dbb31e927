"""Runs side by side: points lined up, figures by hand, differences shown or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llm_locust.records import UsageError
from llm_locust.records.comparison import ComparedFigure, Comparison, PointComparison
from llm_locust.report import merge_run
from llm_locust.report.compare import compare_folders
from llm_locust.report.comparison import difference_words, render_comparison
from tests.analysis.run_builder import RunBuilder, StageBuilder


def run(tmp_path: Path, run_id: str, **changes: Any) -> RunBuilder:
    return RunBuilder(tmp_path, run_id, **({"slo": {"ttft": 500.0}} | changes))


def fill(stage: StageBuilder, *, slow: int = 0, rejected: int = 0, count: int = 120, **fields: Any) -> None:
    """120 requests over the minute, the first ``slow`` over the limit, the next ``rejected`` refused."""
    for k in range(count):
        at = k * 60 / count
        if slow <= k < slow + rejected:
            stage.request(at, outcome="rejected", status=503)
        else:
            stage.request(at, **({"ttft": 600 if k < slow else 100} | fields))


def compared(*builders: RunBuilder, allow: tuple[str, ...] = ()) -> Comparison:
    return compare_folders([merge_run(each.write()).report.parent for each in builders], allow)


def figure(point: PointComparison, name: str, slice_: str | None = None) -> ComparedFigure:
    part = next(part for part in point.parts if part.slice == slice_)
    return next(of for of in part.figures if of.name == name)


def test_figures_are_those_of_the_report_and_differences_are_less_the_first(tmp_path: Path) -> None:
    a, b = run(tmp_path, "a"), run(tmp_path, "b", model="m-int4")
    fill(a.stage(rate=2), slow=60, rejected=12)
    fill(b.stage(rate=2), slow=12)
    found = compared(a, b)
    assert found.compared == "model: not said against m-int4"
    (point,) = found.points
    assert point.names == ["2 req/s", "2 req/s"]
    ttft = figure(point, "ttft_p50_ms")
    # A: 60 at 600 ms and 48 at 100 ms, of which the 54th is 600; B: 12 at 600, 108 at 100.
    assert ttft.values == [600.0, 100.0]
    assert ttft.counts == [108, 120]
    assert (ttft.differences[0].difference, ttft.differences[0].relative) == (-500.0, pytest.approx(-5 / 6))
    attainment = figure(point, "attainment")
    assert attainment.values == [0.4, 0.9]  # 48 and 108 of 120
    of = attainment.differences[0]
    assert of.difference == pytest.approx(0.5)
    assert of.shown is True
    errors = figure(point, "error_rate")
    assert errors.values == [0.1, 0.0]
    assert errors.differences[0].shown is True  # 12 of 120 against none: from -16.7 to -4.5 points
    goodput = figure(point, "goodput_rps")
    assert goodput.values == [pytest.approx(0.8), pytest.approx(1.8)]
    assert goodput.counts == [10, 10]
    assert figure(point, "completed_in_window_rps").values == [pytest.approx(106 / 60), pytest.approx(118 / 60)]
    assert any("ok requests only" in note for note in point.notes)


def test_runs_of_the_same_show_no_difference(tmp_path: Path) -> None:
    a, b = run(tmp_path, "a"), run(tmp_path, "b")
    for of in (a, b):
        stage = of.stage(rate=2)
        for k in range(120):
            stage.request(k / 2, ttft=100 + 7 * (k * k % 31), e2e=1000 + 11 * (k * k % 37))
    found = compared(a, b)
    assert found.compared.startswith("nothing differs in what the runs say of themselves")
    (point,) = found.points
    for of in point.parts[0].figures:
        (difference,) = of.differences
        assert difference.difference == 0.0
        assert difference.shown is (None if of.name.endswith("p99_ms") else False), of.name


def test_too_few_requests_for_an_interval_say_so(tmp_path: Path) -> None:
    a, b = run(tmp_path, "a"), run(tmp_path, "b")
    fill(a.stage(rate=2), count=58)
    fill(b.stage(rate=2), count=59)
    (point,) = compared(a, b).points
    of = figure(point, "ttft_p95_ms").differences[0]
    assert (of.interval, of.shown) == (None, None)
    assert of.reason == "too few requests in A (58) for a bound on P95"
    assert figure(point, "ttft_p50_ms").differences[0].shown is False


def test_a_latency_that_is_missing_for_some_has_no_interval(tmp_path: Path) -> None:
    a, b = run(tmp_path, "a"), run(tmp_path, "b")
    fill(a.stage(rate=2))
    fill(b.stage(rate=2))
    b.stages[0].records[5].last_output_ns = b.stages[0].records[5].first_output_ns  # buffered
    (point,) = compared(a, b).points
    of = figure(point, "tpot_p50_ms").differences[0]
    assert (of.shown, of.reason) == (None, "tpot is missing for 1 requests of B")


def test_rounds_of_a_point_are_taken_together(tmp_path: Path) -> None:
    a, b = run(tmp_path, "a"), run(tmp_path, "b")
    for of in (a, b):
        for number in range(2):
            fill(of.stage(rate=2, round=number, stage=number), slow=30 * number)
    (point,) = compared(a, b).points
    assert point.rounds == [2, 2]
    attainment = figure(point, "attainment")
    assert (attainment.values, attainment.counts) == ([0.875, 0.875], [240, 240])
    assert figure(point, "goodput_rps").counts == [20, 20]


def test_slices_are_compared_alone_too(tmp_path: Path) -> None:
    a, b = run(tmp_path, "a"), run(tmp_path, "b")
    for of, ttft in ((a, 100), (b, 400)):
        stage = of.stage(rate=2)
        for k in range(120):
            stage.request(k / 2, ttft=ttft if k % 2 else 100, slice="short" if k % 2 else "long")
    (point,) = compared(a, b).points
    assert [part.slice for part in point.parts] == [None, "long", "short"]
    assert figure(point, "ttft_p50_ms", "short").values == [100.0, 400.0]
    assert figure(point, "ttft_p50_ms", "long").differences[0].shown is False


def test_points_that_only_one_has_are_named_and_left_out(tmp_path: Path) -> None:
    a, b = run(tmp_path, "a"), run(tmp_path, "b")
    fill(a.stage(rate=2))
    fill(b.stage(rate=2))
    fill(b.stage(rate=4))
    found = compared(a, b)
    assert [point.names[0] for point in found.points] == ["2 req/s"]
    assert found.not_compared == ["4 req/s: only in B"]


def test_open_arrivals_against_a_closed_loop_are_lined_up_by_place(tmp_path: Path) -> None:
    a, b = run(tmp_path, "a"), run(tmp_path, "b")
    fill(a.stage(concurrency=4))
    fill(b.stage(rate=2))
    found = compared(a, b)
    assert found.compared == "load: closed loop against open arrivals"
    assert found.points[0].names == ["4 in flight (closed loop)", "2 req/s"]


def test_without_a_common_point_as_many_are_needed(tmp_path: Path) -> None:
    a, b = run(tmp_path, "a"), run(tmp_path, "b")
    fill(a.stage(rate=2))
    fill(b.stage(rate=4))
    fill(b.stage(rate=8))
    with pytest.raises(UsageError, match="no point in common, and not as many in each"):
        compared(a, b)


def test_a_stage_that_the_generator_spoilt_says_nothing(tmp_path: Path) -> None:
    a, b = run(tmp_path, "a"), run(tmp_path, "b")
    fill(a.stage(rate=2))
    fill(b.stage(rate=2), lag=900)
    found = compared(a, b)
    assert found.points == []
    assert found.not_compared[0].startswith("2 req/s: B says nothing of the server: generator-limited")


def test_more_than_two_runs_are_each_held_against_the_first(tmp_path: Path) -> None:
    builders = [run(tmp_path, name, model=name) for name in "abc"]
    for of, slow in zip(builders, (0, 60, 0), strict=True):
        fill(of.stage(rate=2), slow=slow)
    found = compared(*builders)
    attainment = figure(found.points[0], "attainment")
    assert attainment.values == [1.0, 0.5, 1.0]
    assert [of.shown for of in attainment.differences] == [True, False]
    assert [each.label for each in found.runs] == ["A", "B", "C"]


def test_the_share_of_prompts_from_the_cache_is_compared_where_the_server_tells(tmp_path: Path) -> None:
    a, b = run(tmp_path, "a"), run(tmp_path, "b")
    fill(a.stage(rate=2), prompt_tokens=100, cached_tokens=0)
    fill(b.stage(rate=2), prompt_tokens=100, cached_tokens=90)
    (point,) = compared(a, b).points
    of = figure(point, "cached_prompt_share")
    assert of.values == [0.0, 0.9]
    assert of.differences[0].shown is True


def test_quality_is_compared_where_it_was_checked_and_its_want_is_said(tmp_path: Path) -> None:
    a, b = run(tmp_path, "a"), run(tmp_path, "b")
    for of in (a, b):
        fill(of.stage(rate=2))
    assert any("nothing is said of the quality" in text for text in compared(a, b).limitations)
    a, b = run(tmp_path, "c", quality="json"), run(tmp_path, "d", quality="json")
    fill(a.stage(rate=2), quality="pass")
    fill(b.stage(rate=2), quality="fail")
    found = compared(a, b)
    assert figure(found.points[0], "quality_rate").values == [1.0, 0.0]
    assert not any("nothing is said of the quality" in text for text in found.limitations)


def test_parts_of_a_window_with_too_few_requests_make_no_interval(tmp_path: Path) -> None:
    a, b = run(tmp_path, "a"), run(tmp_path, "b")
    fill(a.stage(rate=2), count=50)
    fill(b.stage(rate=2), count=49)
    (point,) = compared(a, b).points
    of = figure(point, "goodput_rps").differences[0]
    assert (of.shown, of.reason) == (None, "too few requests in B (49) to part its windows")


def test_prompts_that_the_server_has_seen_before_are_said(tmp_path: Path) -> None:
    later = "2026-09-21T15:00:00Z"
    a, b = run(tmp_path, "a"), run(tmp_path, "b", started_at=later)
    c = run(tmp_path, "c", started_at=later, host="http://127.0.0.1:9")
    d = run(tmp_path, "d", started_at=later, options={"reset_prefix_cache": True})
    for of in (a, b, c, d):
        fill(of.stage(rate=2))
    said = "B sent the prompts that A had sent to the same server before"
    assert any(text.startswith(said) for text in compared(a, b).limitations)
    for other in (c, d):
        assert not any(text.startswith(said) for text in compared(a, other).limitations)


def test_a_run_against_itself_or_nothing_is_refused(tmp_path: Path) -> None:
    a = run(tmp_path, "a")
    fill(a.stage(rate=2))
    with pytest.raises(UsageError, match="at least two runs"):
        compared(a)
    with pytest.raises(UsageError, match="given twice"):
        compared(a, a)


def test_markdown_says_what_is_compared_how_and_what_is_not_shown(tmp_path: Path) -> None:
    a, b = run(tmp_path, "a"), run(tmp_path, "b", model="a|b", host="http://127.0.0.1:9")
    fill(a.stage(rate=2), slow=60)
    fill(b.stage(rate=2), slow=59)
    text = render_comparison(compared(a, b))
    assert "**Compared: model: not said against a\\|b.**" in text
    assert "- host: http://127.0.0.1:8000 against http://127.0.0.1:9 (differs too)" in text
    assert "## 2 req/s, 1 round" in text
    attainment = next(line for line in text.splitlines() if line.startswith("| attainment"))
    assert (
        attainment
        == "| attainment | 50 % | 50.83 % | +0.833 points, 95 % -11.6 points to +13.3 points: no difference shown |"
    )
    assert "Newcombe" in text
    assert text.count("\n| TTFT P95, ms |") == 1


def test_differences_read_with_sign_unit_and_interval(tmp_path: Path) -> None:
    a, b = run(tmp_path, "a"), run(tmp_path, "b")
    fill(a.stage(rate=2), e2e=1000)
    fill(b.stage(rate=2), e2e=800)
    (point,) = compared(a, b).points
    of = figure(point, "e2e_p95_ms").differences[0]
    assert difference_words("e2e_p95_ms", of) == "-200 (-20 %), 95 % -200 to -200"
