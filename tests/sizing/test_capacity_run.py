"""What sizing reads out of a judged run: only what passed, and no pass above a fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from llm_locust.records.stage_summary import FailingDimension, Gate, StageSummary, StageVerdict
from llm_locust.report import merge_run
from llm_locust.sizing.measured_run import MeasuredRun, measured_run
from tests.analysis.run_builder import RunBuilder
from tests.evidence import by_hand

LATE = FailingDimension(name="ttft", detail="30 of 90 over 500 ms")
FAILED = FailingDimension(name="error_rate", detail="10 of 100 failed: 10 rejected")


def verdict(*failing: FailingDimension, limits: bool = True) -> StageVerdict:
    errors = FAILED not in failing
    gates = [
        Gate(name="error_rate", relation="<=", limit=0.01, value=0.0 if errors else 0.1, passed=errors),
        Gate(name="oom", relation="=", limit=0, value=0.0, passed=True),
        Gate(name="in_flight_trend", relation="=", limit="flat", value=None, passed=None, applicable=False),
    ]
    if limits:
        # Failures miss the attainment too: it fails on either side.
        gates.append(Gate(name="attainment", relation=">=", limit=0.95, value=0.9, passed=not failing))
    return StageVerdict(
        result="fail" if failing else "pass", sentence="", gates=gates, failing_dimensions=list(failing)
    )


def closed(concurrency: int, *failing: FailingDimension, **changes: Any) -> StageSummary:
    given: dict[str, Any] = {
        "mode": "closed", "rate_rps": None, "arrivals": None, "concurrency": concurrency,
        "output_tokens_in_window_tps": 50.0 * concurrency, "verdict": verdict(*failing),
    }  # fmt: skip
    return by_hand.stage(**(given | changes))


def at_rate(rate: float, *failing: FailingDimension, **changes: Any) -> StageSummary:
    given: dict[str, Any] = {"rate_rps": rate, "peak_in_flight": int(4 * rate), "verdict": verdict(*failing)}
    return by_hand.stage(**(given | changes))


def read(*stages: StageSummary) -> MeasuredRun:
    return measured_run(by_hand.summary(*stages))


def test_latency_and_errors_each_have_the_highest_concurrency_that_held_them() -> None:
    found = read(closed(2), closed(4), closed(8, LATE), closed(16, LATE, FAILED))
    assert (found.tail_latency.concurrency, found.error_rate.concurrency) == (4, 8)
    assert found.tail_latency.broken == "8 in flight (closed loop)"
    assert found.error_rate.broken == "16 in flight (closed loop)"


def test_failures_that_miss_the_attainment_are_no_tail_latency() -> None:
    found = read(closed(2), closed(4, FAILED))
    assert (found.tail_latency.concurrency, found.error_rate.concurrency) == (4, 2)


def test_supply_is_that_of_points_that_passed_in_their_slowest_round() -> None:
    rounds = [closed(4, round=k, output_tokens_in_window_tps=tps) for k, tps in enumerate([210.0, 190.0, 205.0])]
    found = read(closed(2), *rounds, closed(8, LATE, output_tokens_in_window_tps=900.0))
    assert (found.output_tokens_s, found.output_tokens_at) == (190.0, "4 in flight (closed loop)")
    assert read(closed(8, LATE)).output_tokens_s is None
    assert read(closed(8, output_tokens_in_window_tps=None)).output_tokens_s is None


def test_a_round_that_fails_fails_the_point_and_a_pass_above_it_does_not_count() -> None:
    found = read(closed(2), closed(4, round=0), closed(4, LATE, round=1), closed(8))
    assert found.tail_latency.concurrency == 2


def test_when_the_lowest_point_fails_the_bound_is_0() -> None:
    found = read(closed(2, LATE, FAILED))
    assert (found.tail_latency.concurrency, found.error_rate.concurrency) == (0, 0)


def test_open_arrivals_bound_the_rate_and_the_peak_that_was_in_flight() -> None:
    found = read(
        at_rate(1.0), at_rate(2.0, peak_in_flight=9), at_rate(2.0, round=1, peak_in_flight=7), at_rate(3.0, LATE)
    )
    assert (found.tail_latency.rate_rps, found.tail_latency.concurrency) == (2.0, 7)
    assert (found.error_rate.rate_rps, found.error_rate.concurrency) == (3.0, 12)
    assert read(at_rate(2.0, peak_in_flight=None)).tail_latency.concurrency is None


def test_invalid_and_undetermined_stages_say_nothing() -> None:
    invalid = StageVerdict(result="invalid", sentence="")
    found = read(closed(2), closed(4, verdict=invalid), closed(8, LATE))
    assert found.tail_latency.concurrency == 2
    none = read(closed(2, verdict=invalid))
    assert none.error_rate.concurrency is None
    assert none.error_rate.reason == "no stage of the run was judged: they are invalid or undetermined"


def test_without_a_latency_limit_tail_latency_is_not_known() -> None:
    found = read(closed(2, verdict=verdict(limits=False)))
    assert found.tail_latency.concurrency is None
    assert found.tail_latency.reason is not None
    assert "no latency limit: run it with --slo" in found.tail_latency.reason
    assert found.error_rate.concurrency == 2


def test_a_real_merged_run_is_read(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 500})
    run.stage(rate=1.0).requests(60, ttft=300)
    slow = run.stage(rate=2.0)
    slow.requests(60, ttft=300)
    slow.requests(60, ttft=700, first=0.01)
    found = measured_run(merge_run(run.write()).summary)
    assert (found.tail_latency.rate_rps, found.tail_latency.broken) == (1.0, "2 req/s")
    assert (found.error_rate.rate_rps, found.error_rate.broken) == (2.0, None)
