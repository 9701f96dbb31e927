"""The run over time: where what comes in is counted, and how points become fewer."""

from __future__ import annotations

import pytest

from llm_locust.live.request import Times, Verdict
from llm_locust.live.series import MOST_POINTS, SETTLE_S, SeriesRecorder
from llm_locust.live.snapshot import SERIES_COLUMNS, Series

T0 = 1_790_000_000.0
OK = Times(100.0, 20.0, 900.0, 30.0, 0.2, 0.1, 0.3)
NONE = Times(None, None, None, None, None, None, None)


def recorder(*, has_limits: bool = True, start_s: float = T0 + 0.4) -> SeriesRecorder:
    return SeriesRecorder(start_s, has_limits=has_limits)


def ended(series: SeriesRecorder, at: float, ttft: float = 100.0, *, good: bool = True) -> None:
    verdict = Verdict.GOOD if good else Verdict.NOT_GOOD
    series.ended(T0 + at, "ok", verdict, OK._replace(ttft=ttft), None, 10)


def column(series: Series, name: str) -> list[float | None]:
    assert len(series.columns[name]) == len(series.t)
    return series.columns[name]


def test_a_point_shows_when_nothing_more_is_expected_of_its_second() -> None:
    series = recorder()
    ended(series, 0.5)
    ended(series, 0.9, good=False)
    series.ended(T0 + 1.5, "rejected", Verdict.NOT_GOOD, NONE, None, None)
    assert series.view(T0 + 0.99 + SETTLE_S).t == []
    found = series.view(T0 + 2.0 + SETTLE_S)
    assert (found.t, found.step_s, found.whole) == ([T0, T0 + 1], 1.0, True)
    assert set(found.columns) == set(SERIES_COLUMNS)
    assert column(found, "completed_rps") == [2.0, 1.0]
    assert column(found, "ok_rps") == [2.0, 0.0]
    assert column(found, "good_rps") == [1.0, 0.0]
    assert column(found, "failed_rps") == [0.0, 1.0]
    assert column(found, "rejected_rps") == [0.0, 1.0]
    assert column(found, "timeout_rps") == [0.0, 0.0]
    assert column(found, "output_tokens_tps") == [20.0, 0.0]
    assert column(found, "ttft_p95_ms") == [100.0, None]
    assert column(found, "in_flight") == [None, None]


def test_without_limits_or_without_a_value_for_one_nothing_is_said_of_good_requests() -> None:
    free, unknown = recorder(has_limits=False), recorder()
    ended(free, 0.5)
    unknown.ended(T0 + 0.5, "ok", Verdict.UNKNOWN, OK, None, None)
    ended(unknown, 0.6)
    assert column(free.view(T0 + 4), "good_rps") == [None, None]
    assert column(unknown.view(T0 + 4), "good_rps") == [None, 0.0]


def test_what_comes_late_is_counted_in_the_oldest_open_step() -> None:
    series = recorder()
    series.view(T0 + 5)  # three steps are closed
    ended(series, 0.5)
    series.counted("sent", 4, T0 + 0.5, T0 + 1.0)
    found = series.view(T0 + 6)
    assert column(found, "completed_rps") == [0.0, 0.0, 0.0, 1.0]
    assert column(found, "sent_rps") == [0.0, 0.0, 0.0, 4.0]


def test_arrivals_between_two_reports_are_spread_over_their_time() -> None:
    series = recorder()
    series.counted("planned", 8, T0 + 0.5, T0 + 2.5)
    series.counted("planned", -3, T0 + 2.5, T0 + 2.6)  # withdrawn cool-down arrivals take nothing back
    assert column(series.view(T0 + 5), "planned_rps") == [2.0, 4.0, 2.0]


def test_levels_add_up_over_workers_and_stand_until_they_are_told_again() -> None:
    series = recorder()
    series.level("in_flight", 0, T0 + 0.2, 4)
    series.level("in_flight", 0, T0 + 0.7, 6)
    series.level("in_flight", 1, T0 + 0.5, 10)
    series.level("worker_cpu_pct_max", 0, T0 + 0.5, 20.0)
    series.level("worker_cpu_pct_max", 1, T0 + 0.5, 70.0)
    series.level("in_flight", 1, T0 + 1.5, 2)
    found = series.view(T0 + 8)
    assert column(found, "in_flight") == [15.0, 8.0, 8.0, 8.0, 2.0, None]  # each stands for three seconds
    assert column(found, "worker_cpu_pct_max")[:2] == [70.0, 70.0]


def test_a_source_that_says_nothing_leaves_a_gap() -> None:
    series = recorder()
    series.level("server_running", "a", T0 + 0.5, 3)
    series.view(T0 + 3.1)
    series.level("server_running", "a", T0 + 1.5, None)
    assert column(series.view(T0 + 4), "server_running") == [3.0, None]


def test_points_become_half_as_many_when_they_are_used_up() -> None:
    series = recorder()
    for second in range(MOST_POINTS):
        ended(series, second + 0.5, ttft=100.0 if second % 2 else 300.0)
        if not second % 2:
            ended(series, second + 0.6, ttft=200.0)
        series.level("in_flight", 0, T0 + second + 0.5, second % 2)
        series.level("worker_loop_lag_ms_max", 0, T0 + second + 0.5, 5 * (second % 2))
        series.go_on(T0 + second)
    before = series.view(T0 + MOST_POINTS - 1 + SETTLE_S)
    assert (len(before.t), before.step_s) == (MOST_POINTS - 1, 1.0)
    assert column(before, "ttft_p95_ms")[:2] == [300.0, 100.0]
    found = series.view(T0 + MOST_POINTS + SETTLE_S)
    assert (len(found.t), found.step_s, found.t[1]) == (MOST_POINTS // 2, 2.0, T0 + 2)
    assert set(column(found, "completed_rps")) == {1.5}
    assert set(column(found, "in_flight")) == {0.5}
    assert set(column(found, "worker_loop_lag_ms_max")) == {5.0}
    median, p95 = column(found, "ttft_p50_ms")[7], column(found, "ttft_p95_ms")[7]
    assert median == pytest.approx(200.0, rel=0.021)  # of 300, 200 and 100 together
    assert p95 == pytest.approx(300.0, rel=0.021)


def test_open_steps_are_put_together_too_when_the_step_doubles() -> None:
    series = recorder()
    ended(series, MOST_POINTS + 0.5)
    ended(series, MOST_POINTS + 1.5)
    found = series.view(T0 + MOST_POINTS + 2 + SETTLE_S)
    assert column(found, "completed_rps")[-1] == 1.0
    assert found.t[-1] == T0 + MOST_POINTS


def test_days_take_no_more_points_than_half_an_hour() -> None:
    series = recorder()
    for hour in range(72):
        ended(series, 3600 * hour + 1)
        series.go_on(T0 + 3600 * (hour + 1))
    found = series.view(T0 + 72 * 3600)
    assert len(found.t) <= MOST_POINTS
    assert found.step_s == 256.0
    assert sum(rate or 0 for rate in column(found, "completed_rps")) * found.step_s == pytest.approx(72, rel=0.01)


def test_only_the_newest_points_are_sent_to_who_has_the_others() -> None:
    series = recorder()
    for second in range(10):
        ended(series, second + 0.5)
    found = series.view(T0 + 10, since=T0 + 5)
    assert (found.whole, found.t) == (False, [T0 + 5, T0 + 6, T0 + 7])
    assert column(found, "ok_rps") == [1.0, 1.0, 1.0]
    assert series.view(T0 + 10, since=float("inf")).t == []
    assert series.view(T0 + 10, since=T0 - 100).t[0] == T0


def test_who_has_points_of_another_step_gets_all_anew() -> None:
    series = recorder()
    newest = series.view(T0 + MOST_POINTS - 1 + SETTLE_S).t[-1]
    found = series.view(T0 + MOST_POINTS + 2 + SETTLE_S, since=newest)
    assert (found.whole, found.step_s, len(found.t)) == (True, 2.0, MOST_POINTS // 2 + 1)
    again = series.view(T0 + MOST_POINTS + 4 + SETTLE_S, since=found.t[-1])
    assert (again.whole, again.t) == (False, [T0 + MOST_POINTS, T0 + MOST_POINTS + 2])


def test_a_long_step_is_shown_while_it_goes_on() -> None:
    series = recorder()
    series.go_on(T0 + 4 * MOST_POINTS + SETTLE_S)  # steps are of 8 s by now
    end = 4 * MOST_POINTS
    ended(series, end + 0.5)
    ended(series, end + 1.5)
    assert series.view(T0 + end + 1 + SETTLE_S).t[-1] == T0 + end - 8
    found = series.view(T0 + end + 4 + SETTLE_S)
    assert (found.step_s, found.t[-1]) == (8.0, T0 + end)
    assert column(found, "ok_rps")[-1] == 0.5  # two in four seconds


def test_after_the_end_no_points_are_added_but_what_was_late() -> None:
    series = recorder()
    ended(series, 0.5)
    series.over(T0 + 2.2)
    assert series.view(T0 + 2.5).t == []
    ended(series, 1.5)
    found = series.view(T0 + 60)
    assert (found.t, column(found, "ok_rps")) == ([T0, T0 + 1, T0 + 2], [1.0, 1.0, 0.0])
    ended(series, 1.5)
    series.close(T0 + 60)
    assert column(series.view(T0 + 61), "ok_rps") == [1.0, 1.0, 0.0, 1.0]
