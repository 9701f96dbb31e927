"""Output tokens inside the window, in flight at instants, the length of the window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from llm_locust.analysis.window import (
    Window,
    in_flight_at,
    measured_window,
    output_tokens_in_window,
    peak_in_flight,
)
from llm_locust.records import NS_PER_S, StageManifest, StageSpec
from llm_locust.records.stage import TraceReplay
from llm_locust.records.summary import StageSummary
from llm_locust.report import merge_run
from tests.analysis.run_builder import T0, RunBuilder

W = Window(100 * NS_PER_S, 110 * NS_PER_S, "window")


def rows(**columns: list[object]) -> pd.DataFrame:
    names = ("first_output_ns", "last_output_ns", "output_tokens", "output_events", "end_ns")
    size = len(next(iter(columns.values())))
    table = {name: pd.array(columns.get(name, [None] * size), dtype="Int64") for name in names}
    return pd.DataFrame(table | {"gaps_at": 0, "gaps_n": 0})


NO_GAPS = np.empty(0, np.uint32)


def at(seconds: float) -> int:
    return round(seconds * NS_PER_S)


@pytest.mark.parametrize(
    ("first", "last", "tokens"),
    [
        (101, 109, 11.0),  # wholly inside
        (90, 99, 0.0),  # wholly before
        (110, 120, 0.0),  # from the end of the window on
        (105, 115, 1 + 10 * 0.5),  # the first token inside, half of the way for the other ten
        (95, 105, 10 * 0.5),  # the first token before
        (90, 130, 10 * 0.25),  # right across
    ],
)
def test_without_gaps_the_tokens_after_the_first_spread_evenly(first: float, last: float, tokens: float) -> None:
    table = rows(first_output_ns=[at(first)], last_output_ns=[at(last)], output_tokens=[11])
    assert output_tokens_in_window(table, NO_GAPS, W) == tokens


def test_with_gaps_each_event_is_where_it_came() -> None:
    # Events at 109.0, 109.5, 109.9 and 115.0; eight tokens in four events are two each.
    table = rows(
        first_output_ns=[at(109)],
        last_output_ns=[at(115)],
        output_tokens=[8],
        output_events=[4],
    ).assign(gaps_at=1, gaps_n=3)
    gaps_us = np.array([7, 500_000, 400_000, 5_100_000, 7], np.uint32)
    assert output_tokens_in_window(table, gaps_us, W) == 6.0


def test_an_unknown_number_of_tokens_is_not_measured_but_events_stand_in() -> None:
    counted = rows(first_output_ns=[at(101)], last_output_ns=[at(102)], output_events=[5])
    assert output_tokens_in_window(counted, NO_GAPS, W) == 5.0
    unknown = rows(first_output_ns=[at(101), at(101)], last_output_ns=[at(102), at(102)], output_tokens=[5, None])
    assert output_tokens_in_window(unknown, NO_GAPS, W) is None


def test_in_flight_at_an_instant_has_who_starts_and_not_who_ends() -> None:
    starts, ends = np.array([0.0, 5.0, 1.0]), np.array([5.0, 9.0, np.nan])
    assert in_flight_at(starts, ends, 5.0) == 2
    assert in_flight_at(starts, ends, 100.0) == 1


def test_peak_counts_those_that_run_into_the_window() -> None:
    starts, ends = np.array([-5.0, -4.0, 2.0, 3.0]), np.array([1.0, 4.0, 3.0, 9.0])
    assert peak_in_flight(starts, ends, (0.0, 10.0)) == 2


def stage(**fields: object) -> StageManifest:
    spec = StageSpec(
        stage=0, mode="closed", concurrency=1, warmup_s=0, window_s=None, cooldown_s=0, seed=1, first_index=0
    )
    times: dict[str, object] = {"start_ns": 0, "window_start_ns": at(100), "window_end_ns": None}
    return StageManifest(spec=spec, **(times | fields))  # type: ignore[arg-type]


def test_a_closed_loop_without_length_is_measured_until_it_was_stopped() -> None:
    assert measured_window(stage(arrivals_end_ns=at(130)), rows(end_ns=[])) == (
        at(100),
        at(130),
        "window_until_stopped",
    )
    assert measured_window(stage(), rows(end_ns=[at(120), None])) == (at(100), at(120), "window_until_stopped")


def test_a_stage_cut_short_is_measured_as_far_as_it_went() -> None:
    cut = stage(window_end_ns=at(160), arrivals_end_ns=at(112), interrupted="Ctrl-C")
    assert measured_window(cut, rows(end_ns=[])) == (at(100), at(112), "window_cut_short")
    early = stage(window_end_ns=at(160), arrivals_end_ns=at(50), interrupted="Ctrl-C")
    assert measured_window(early, rows(end_ns=[])) is None


# --- how long N requests, and a trace, took --------------------------------------------------------------------------


def judged(run: RunBuilder) -> StageSummary:
    (stage,) = merge_run(run.write()).summary.stages
    return stage


def test_n_open_requests_last_until_the_planned_time_of_the_last_and_it_is_one_of_them(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 500})
    stage = run.stage(
        rate=1, window=None, requests=4, window_end_ns=T0 + 5 * NS_PER_S, arrivals_end_ns=T0 + 6 * NS_PER_S
    )
    stage.request(-1.0, phase="warmup")
    for at in (0.5, 1.0, 3.0):
        stage.request(at, phase="measure")
    stage.request(5.0, phase="measure", ttft=600)  # the fourth stands at the window's very end
    stage.request(5.5, phase="cooldown")
    found = judged(run)
    assert (found.seconds, found.seconds_method) == (5.0, "planned_time_of_last_arrival")
    assert (found.measured, found.successful, found.good_requests) == (4, 4, 3)
    assert (found.request_throughput_rps, found.goodput_rps) == (4 / 5, 3 / 5)
    assert (found.warmup_requests, found.cooldown_requests) == (1, 1)


def test_n_closed_requests_last_from_the_first_sent_to_the_last_end(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 500})
    stage = run.stage(concurrency=2, window=None, requests=4, end_ns=T0 + 90 * NS_PER_S)
    stage.request(-2.0, phase="warmup", e2e=2500)  # ends in the window, and is none of it
    stage.request(0.25, phase="measure", e2e=1000)
    stage.request(0.5, phase="measure", e2e=1000, ttft=700)
    stage.request(1.25, phase="measure", e2e=1000)
    stage.request(1.5, phase="measure", e2e=2750, outcome="timeout")  # 0.25 to 4.25: four seconds
    found = judged(run)
    assert found.seconds_method == "first_sent_to_last_end"
    assert found.seconds == pytest.approx(4.0, abs=1e-8)
    assert (found.measured, found.successful, found.good_requests) == (4, 3, 2)
    assert found.request_throughput_rps == pytest.approx(3 / 4)
    assert found.goodput_rps == pytest.approx(2 / 4)
    assert found.warmup_requests == 1


def test_a_replay_lasts_as_long_as_its_slice_times_the_scale(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path, slo={"ttft": 500})
    replay = TraceReplay(path="/t.csv", format="azure", sha256="ab", time_scale=0.5, start_s=10, end_s=30)
    stage = run.stage(rate=0.3, window=10.0, arrivals="trace", replay=replay)  # twenty seconds, twice as fast
    for at in (0.0, 4.0, 9.5):
        stage.request(at)
    found = judged(run)
    assert (found.seconds, found.seconds_method) == (10.0, "trace_slice")
    assert (found.measured, found.request_throughput_rps) == (3, 0.3)
    assert found.arrivals == "trace"


@pytest.mark.parametrize("mode", [{"rate": 1.0}, {"concurrency": 2}])
def test_n_requests_that_were_cut_short_are_measured_as_far_as_they_went(tmp_path: Path, mode: dict[str, Any]) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(
        **mode, window=None, requests=10, interrupted="Ctrl-C", window_end_ns=T0 + 3 * NS_PER_S,
        arrivals_end_ns=T0 + 3 * NS_PER_S, end_ns=T0 + 4 * NS_PER_S,
    )  # fmt: skip
    for at in (0.5, 1.5, 2.5):
        stage.request(at, phase="measure")
    found = judged(run)
    assert (found.seconds, found.seconds_method) == (3.0, "window_cut_short")
    assert found.measured == 3


def test_a_single_request_of_a_closed_loop_lasts_as_long_as_itself(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path)
    stage = run.stage(concurrency=1, window=None, requests=1, end_ns=T0 + 9 * NS_PER_S)
    stage.request(0.0, phase="measure", e2e=4000)
    found = judged(run)
    assert found.measured == 1
    assert found.seconds == pytest.approx(4.0, abs=1e-8)
    assert found.request_throughput_rps == pytest.approx(0.25)
