"""What a run was required to show: met, not met, or not to be told, and the exit code that follows."""

from __future__ import annotations

import pytest

from llm_locust.analysis.judgement import Point, exit_code, judge_requirements
from llm_locust.records import Requirements
from llm_locust.records.summary import (
    GeneratorHealth,
    Reconciliation,
    Requirement,
    Result,
    RunSummary,
    StageSummary,
    StageVerdict,
)


def stage(rate: float, result: Result) -> StageSummary:
    return StageSummary(
        stage=0, round=0, label="", mode="open", rate_rps=rate, arrivals="poisson", concurrency=None, planned=1,
        attempted=1, not_sent=0, lost=0, warmup_requests=0, cooldown_requests=0, measured=1, successful=1, failed=0,
        dispatched=1, sent=1, seconds=1.0, seconds_method=None,
        generator=GeneratorHealth(valid=True, lag_bound_ms=5.0),
        verdict=StageVerdict(result=result, sentence=""),
    )  # fmt: skip


def ladder(**results: Result) -> list[Point]:
    return [Point([stage(float(rate.removeprefix("r")), result)]) for rate, result in results.items()]


RATES: dict[str, tuple[list[Point], float, bool | None]] = {
    "that very rate passed": (ladder(r1="pass", r2="pass"), 2, True),
    "a higher one passed": (ladder(r1="pass", r4="pass"), 2, True),
    "the boundary lies above it": (ladder(r1="pass", r2="pass", r4="fail"), 2, True),
    "what lies above it is of no matter": (ladder(r2="pass", r4="invalid"), 2, True),
    "that very rate failed": (ladder(r1="pass", r2="fail"), 2, False),
    "a lower one failed already": (ladder(r1="fail", r2="pass"), 2, False),
    "only a higher one was tried, and failed": (ladder(r1="pass", r4="fail"), 2, False),
    "none so high was tried": (ladder(r1="pass"), 2, False),
    "that very rate is invalid": (ladder(r1="pass", r2="invalid"), 2, None),
    "that very rate is undetermined, a higher one failed": (ladder(r2="undetermined", r4="fail"), 2, None),
}


@pytest.mark.parametrize("case", RATES)
def test_a_required_rate(case: str) -> None:
    points, rate, met = RATES[case]
    (found,) = judge_requirements(points, Requirements(rate_rps=rate))
    assert found.met is met


@pytest.mark.parametrize(
    ("points", "met"),
    [
        (ladder(r1="pass", r2="pass"), True),
        (ladder(r1="pass", r2="fail"), False),
        (ladder(r1="invalid", r2="fail"), False),
        (ladder(r1="pass", r2="undetermined"), None),
        ([], None),
    ],
)
def test_every_stage_must_pass(points: list[Point], met: bool | None) -> None:
    (found,) = judge_requirements(points, Requirements(every_stage=True))
    assert found.met is met


def summary(*results: Result, sent: int = 10, lost: int = 0, met: tuple[bool | None, ...] = ()) -> RunSummary:
    return RunSummary(
        run_id="r", state="complete", started_at="", host="", workload="", workload_kind="synthetic",
        workload_sha256="", deadline_s=1.0, verdict="", sent=sent,
        requirements=[Requirement(text="", met=each) for each in met],
        reconciliation=Reconciliation(planned=10, attempted=10 - lost, not_sent=0, lost=lost),
        stages=[stage(float(n), result) for n, result in enumerate(results)],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("judged", "code"),
    [
        (summary("pass", "fail"), 0),
        (summary("fail"), 0),
        (summary("pass", "invalid"), 4),
        (summary("undetermined"), 4),
        (summary("pass", lost=1), 4),
        (summary(sent=0), 2),
        (summary("pass", "fail", met=(True,)), 0),
        (summary("pass", "invalid", met=(True,)), 0),
        (summary("pass", "fail", met=(False,)), 3),
        (summary("pass", "invalid", met=(None,)), 4),
        (summary("pass", met=(None, False)), 3),
        (summary("pass", met=(True,), lost=1), 4),
        (summary(met=(False,), sent=0), 2),
    ],
)
def test_the_exit_code_that_a_run_earns(judged: RunSummary, code: int) -> None:
    assert exit_code(judged) == code
