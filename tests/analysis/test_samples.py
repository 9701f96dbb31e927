"""How many requests a result needs, against what the intervals themselves say."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_locust.analysis.quantiles import bound_ranks, wilson
from llm_locust.analysis.samples import requests_for_bound, requests_for_share
from llm_locust.analysis.verdict import needs_words
from llm_locust.report import merge_run
from tests.analysis.run_builder import RunBuilder


@pytest.mark.parametrize(
    ("good", "of", "limit"), [(1, 1, 0.95), (0, 1, 0.01), (39, 40, 0.95), (9, 10, 0.95), (1, 50, 0.01)]
)
def test_from_that_many_on_the_wilson_interval_clears_the_limit_and_not_before(
    good: int, of: int, limit: float
) -> None:
    needed = requests_for_share(good / of, limit)
    assert needed is not None

    def clears(n: int) -> bool:
        interval = wilson(good * n // of, n)
        assert interval is not None
        return not interval.low < limit < interval.high

    whole = -(-needed // of) * of
    assert clears(whole)
    assert not clears(whole - of)


def test_a_share_that_equals_its_limit_is_never_signed() -> None:
    assert requests_for_share(0.95, 0.95) is None


@pytest.mark.parametrize(("percent", "needed"), [(50, 5), (90, 29), (95, 59), (99, 299)])
def test_a_percentile_has_a_bound_from_so_many(percent: int, needed: int) -> None:
    assert requests_for_bound(percent) == needed
    assert bound_ranks(percent, needed)[1] == needed
    assert bound_ranks(percent, needed - 1)[1] is None


def test_a_candidate_says_how_long_to_run(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 500})
    run.stage(rate=2).requests(120)
    reported = merge_run(run.write())
    (stage,) = reported.summary.stages
    # No failure in 120: the error rate clears 0.01 from 381 requests, 190.5 s at two a second.
    assert (stage.verdict.strength, stage.verdict.requests_needed, stage.verdict.seconds_needed) == (
        "candidate",
        381,
        191,
    )
    words = "too few samples (120): to sign it, at least 381 are needed, a window of 191 s at this rate"
    assert needs_words(381, 191, 120) == words
    assert f"T{words[1:]}." in reported.report.read_text()


def test_a_signed_result_needs_no_more(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 500})
    run.stage(rate=7).requests(400)
    (stage,) = merge_run(run.write()).summary.stages
    assert (stage.verdict.strength, stage.verdict.requests_needed) == ("signed", None)


def test_too_few_arrivals_to_see_a_trend_say_how_many_would_do(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    run.stage(rate=0.1).requests(8, e2e=100)
    (stage,) = merge_run(run.write()).summary.stages
    assert stage.verdict.result == "undetermined"
    # Noise of 3 requests must be at most a third of the arrivals: nine; and 381 for the error rate.
    assert stage.verdict.requests_needed == 381
