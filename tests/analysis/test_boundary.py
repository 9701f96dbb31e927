"""The boundary of open arrivals over rounds and processes, and the knee of a closed-loop sweep."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from llm_locust.analysis.boundary import SweepPoint, knee
from llm_locust.analysis.quantiles import percentile
from llm_locust.records.summary import RunSummary
from llm_locust.report import merge_run
from tests.analysis.run_builder import RunBuilder, StageBuilder


def judged(run: RunBuilder) -> RunSummary:
    return merge_run(run.write()).summary


def add(
    run: RunBuilder, rate: float, good: int, slow: int = 0, arrivals: str = "poisson", **stage: int
) -> StageBuilder:
    found = run.stage(rate=rate, **stage)  # type: ignore[arg-type]
    found.manifest.spec = msgspec.structs.replace(found.manifest.spec, arrivals=arrivals)
    found.requests(good, ttft=300)
    found.requests(slow, ttft=700, first=0.01)
    return found


@pytest.fixture
def run(tmp_path: Path) -> RunBuilder:
    return RunBuilder(tmp_path, slo={"ttft": 500})


def sweep_point(concurrency: int, tps: float, largest_ms: float, n: int = 8, rounds: int = 1) -> SweepPoint:
    """The P95 of ``n`` requests of which the largest takes so long, and the others half of it."""
    values = np.full(n, largest_ms / 2)
    values[-1] = largest_ms
    return SweepPoint(concurrency, tps, {"ttft": percentile(values, 95)}, rounds)


def test_the_knee_of_the_sweep_is_candidate_2_and_p95_of_8_is_the_maximum() -> None:
    sweep = [sweep_point(1, 20.6, 309), sweep_point(2, 26.7, 335), sweep_point(4, 26.8, 674)]
    found = knee(sweep, {"ttft": 500})
    assert (found.concurrency, found.strength) == (2, "candidate")
    assert "ttft P95 of 2 in flight is the maximum of its 8 requests: too few to tell" in found.warnings
    assert found.sentence == (
        "2 in flight (candidate): 26.7 output tokens/s, ttft P95 335 ms, within 500 ms; "
        "4 in flight: 26.8 output tokens/s, ttft P95 674 ms, over 500 ms (+0.37 % tokens)"
    )


def test_more_in_flight_that_adds_throughput_within_the_limit_moves_the_knee() -> None:
    sweep = [sweep_point(1, 20.0, 100), sweep_point(2, 38.0, 120), sweep_point(4, 39.9, 200)]
    # 38 is 95.2 % of 39.9: nearly all of it.
    assert knee(sweep, {"ttft": 500}).concurrency == 2
    assert knee([*sweep, sweep_point(8, 60.0, 400)], {"ttft": 500}).concurrency == 8


def test_a_sweep_that_keeps_no_limit_has_no_knee() -> None:
    found = knee([sweep_point(1, 20.0, 600), sweep_point(2, 30.0, 900)], {"ttft": 500})
    assert (found.concurrency, found.sentence) == (None, "no tested concurrency kept ttft P95 within 500 ms")


def test_a_knee_is_signed_by_bounds_and_three_rounds() -> None:
    bounded = [
        SweepPoint(1, 20.0, {"ttft": percentile(np.full(100, 200.0), 95)}, 3),
        SweepPoint(2, 20.1, {"ttft": percentile(np.full(100, 300.0), 95)}, 3),
    ]
    found = knee(bounded, {"ttft": 500})
    assert (found.concurrency, found.strength, found.warnings) == (1, "signed", [])


def test_the_highest_tested_may_not_be_the_knee() -> None:
    found = knee([sweep_point(1, 20.0, 100), sweep_point(2, 40.0, 100)], {"ttft": 500})
    assert found.concurrency == 2
    assert "it is the highest tested, so the knee may lie above" in found.sentence


def test_a_run_of_several_concurrencies_has_a_knee(run: RunBuilder) -> None:
    run.stage(concurrency=1, window=10).requests(10, e2e=1000, tokens=21)
    fast = run.stage(concurrency=2, window=10)
    fast.requests(10, e2e=1000, tokens=21)
    fast.requests(10, e2e=1000, tokens=21)
    found = judged(run).knee
    assert found is not None
    assert (found.concurrency, found.strength) == (2, "candidate")


def void_point(concurrency: int) -> SweepPoint:
    return SweepPoint(concurrency, None, {}, 0, valid=False)


def test_an_invalid_point_is_neither_the_knee_nor_its_neighbour_and_is_named() -> None:
    sweep = [sweep_point(1, 20.0, 100), sweep_point(2, 40.0, 100), void_point(4), sweep_point(8, 41.0, 700)]
    found = knee(sweep, {"ttft": 500})
    assert found.concurrency == 2
    assert found.sentence == (
        "2 in flight (candidate): 40 output tokens/s, ttft P95 100 ms, within 500 ms; "
        "8 in flight: 41 output tokens/s, ttft P95 700 ms, over 500 ms (+2.5 % tokens)"
    )
    assert "left out as invalid: 4 in flight; the knee may lie there" in found.warnings


def test_without_two_valid_points_there_is_no_knee_and_why_is_said() -> None:
    found = knee([void_point(1), sweep_point(2, 40.0, 100), void_point(4)], {"ttft": 500})
    assert (found.concurrency, found.sentence) == (
        None,
        "no knee can be told: only 2 in flight is valid (1, 4 in flight invalid)",
    )
    assert knee([void_point(1), void_point(4)], {}).sentence == (
        "no knee can be told: none of the 2 concurrencies is valid (1, 4 in flight invalid)"
    )


def test_an_invalid_stage_of_a_run_is_no_knee(run: RunBuilder) -> None:
    run.stage(concurrency=1, window=10).requests(10, e2e=1000, tokens=21)
    run.stage(concurrency=2, window=10).requests(20, e2e=1000, tokens=21)
    broken = run.stage(concurrency=4, window=10)
    broken.requests(40, e2e=1000, tokens=21)
    broken.request(5, outcome="generator_error")
    summary = judged(run)
    assert [stage.verdict.result for stage in summary.stages] == ["pass", "pass", "invalid"]
    assert summary.knee is not None
    assert summary.knee.concurrency == 2
    assert summary.knee.sentence.endswith("it is the highest valid one, so the knee may lie above")


def test_an_invalid_round_takes_no_part_in_the_figures_of_its_point(run: RunBuilder) -> None:
    add(run, 2, good=60, slow=60, stage=0, round=0)
    add(run, 2, good=120, stage=0, round=1).request(5, outcome="generator_error")
    (point,) = judged(run).points
    assert (point.result, point.rounds, point.measured) == ("fail", 2, 120)
    assert (point.attainment, point.attainment_most, point.goodput_most_rps) == (0.5, 0.5, 1.0)


def test_the_boundary_lies_between_the_last_pass_and_the_first_fail(run: RunBuilder) -> None:
    add(run, 2, good=120)
    add(run, 3, good=90, slow=90)
    found = judged(run).boundary
    assert found is not None
    assert (found.last_pass_rps, found.first_fail_rps, found.interval_share) == (2.0, 3.0, 0.5)
    assert [d.name for d in found.failing_dimensions] == ["ttft"]
    assert found.burst is None
    assert found.not_tested == [
        "rates between 2 and 3 req/s",
        "a burst or a trace of the same mean rate",
        "three rounds with fresh seeds (there is 1)",
    ]


def test_a_burst_at_the_passing_rate_is_told_beside_the_ladder_and_moves_no_boundary(run: RunBuilder) -> None:
    add(run, 2, good=120)
    add(run, 4, good=100, slow=140)
    add(run, 2, good=60, slow=60, arrivals="bursts")
    summary = judged(run)
    assert (summary.sustained_rate_rps, summary.first_failing_rate_rps) == (2.0, 4.0)
    assert summary.boundary is not None
    assert (summary.boundary.burst, summary.boundary.burst_name) == ("fail", "2 req/s bursts")
    assert "2 req/s bursts: fail (signed), on ttft (60 of 120 over 500 ms)." in summary.verdict


def test_rounds_are_taken_together_with_their_spread(run: RunBuilder) -> None:
    add(run, 2, good=120, stage=0, round=0)
    add(run, 2, good=114, slow=6, stage=0, round=1)
    add(run, 2, good=117, slow=3, stage=0, round=2)
    (point,) = judged(run).points
    assert (point.rounds, point.result, point.measured) == (3, "pass", 360)
    assert point.attainment == 351 / 360
    assert (point.attainment_least, point.attainment_most) == (0.95, 1.0)
    assert point.attainment_interval is not None
    # Wilson of 351 of 360.
    assert (round(point.attainment_interval.low, 4), round(point.attainment_interval.high, 4)) == (0.9532, 0.9868)
    assert (point.goodput_least_rps, point.goodput_most_rps) == (1.9, 2.0)


def test_a_run_of_closed_loops_alone_has_no_boundary(run: RunBuilder) -> None:
    run.stage(concurrency=8).requests(100)
    summary = judged(run)
    assert summary.boundary is None
    assert summary.knee is None
