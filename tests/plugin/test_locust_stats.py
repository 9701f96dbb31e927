"""Rows in Locust's statistics: once per request, totals untouched, and TPOT as the files' judge computes it."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from locust.env import Environment
from locust.stats import RequestStats

from llm_locust.analysis.derived import add_durations
from llm_locust.live.request import tpot_ms
from llm_locust.plugin.locust_stats import _log_many
from llm_locust.records import COLUMNS, STRING_COLUMNS, Outcome, RequestRecord

MS = 1_000_000


def record(**values: object) -> RequestRecord:
    identity = {
        "run_id": "r",
        "stage": 0,
        "phase": "measure",
        "index": 0,
        "request_id": "r.0",
        "worker": 0,
        "user": "U",
    }
    times = {"sent_ns": 0, "first_output_ns": 100 * MS, "last_output_ns": 400 * MS, "complete_ns": 400 * MS}
    fixed = {"outcome": Outcome.OK, "output_tokens": 4}
    return RequestRecord(**{**identity, **times, **fixed, **values})  # type: ignore[arg-type]


CASES = {
    "four tokens over 300 ms": (record(), 100.0),
    "a finish event after the last output counts": (record(complete_ns=430 * MS), 110.0),
    "one token": (record(output_tokens=1, last_output_ns=100 * MS, complete_ns=100 * MS), None),
    "buffered: one receive time": (record(last_output_ns=100 * MS), None),
    "no token count": (record(output_tokens=None), None),
}


@pytest.mark.parametrize("case", CASES)
def test_tpot_is_the_one_that_a_run_is_judged_by(case: str) -> None:
    row, expected = CASES[case]
    types = {name: "string" if name in STRING_COLUMNS else "Int64" for name in COLUMNS}
    frame = pd.DataFrame([{name: getattr(row, name) for name in COLUMNS}]).astype(types)
    judged = float(add_durations(frame)["tpot_ms"].iloc[0])
    assert (None if math.isnan(judged) else judged) == expected
    assert tpot_ms(row) == expected


def test_logging_many_gaps_at_once_equals_logging_them_one_by_one() -> None:
    gaps = [400, 20_600, 147_000, 3_432_000, 20_499]
    one_by_one, at_once = RequestStats(), RequestStats()
    for gap in gaps:
        one_by_one.entries[("/", "ITL")].log(gap / 1000, 0)  # type: ignore[arg-type]
    _log_many(at_once.entries[("/", "ITL")], gaps)
    ours, theirs = at_once.entries[("/", "ITL")], one_by_one.entries[("/", "ITL")]
    for name in ("num_requests", "response_times", "min_response_time", "max_response_time", "total_content_length"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.total_response_time == pytest.approx(theirs.total_response_time)
    assert at_once.total.num_requests == 0


def test_a_request_fires_locusts_event_once_and_our_rows_leave_its_totals_alone() -> None:
    from llm_locust.plugin.locust_stats import llm_request, report_request
    from llm_locust.users import OpenAIChatUser

    class Chat(OpenAIChatUser):
        pass

    environment = Environment(user_classes=[Chat])
    environment.create_local_runner()
    fired: list[dict[str, object]] = []
    seen: list[object] = []
    environment.events.request.add_listener(lambda **event: fired.append(event))
    keep = llm_request.add_listener(lambda record, **_: seen.append(record))
    try:
        ok = record(planned_ns=0, gaps_us=[100_000, 100_000, 100_000])
        failed = record(outcome=Outcome.REJECTED, status=503, complete_ns=None, end_ns=5 * MS, output_tokens=None)
        for row in (ok, failed):
            report_request(environment, row, None, Chat(environment))
    finally:
        llm_request.remove_listener(keep)
    assert [(event["response_time"], str(event["exception"])) for event in fired] == [
        (400.0, "None"),
        (5.0, "rejected (HTTP 503)"),
    ]
    assert seen == [ok, failed]
    assert (environment.stats.total.num_requests, environment.stats.total.num_failures) == (2, 1)
    counts = {method: entry.num_requests for (_, method), entry in environment.stats.entries.items()}
    assert counts == {"POST": 2, "TTFT": 1, "TPOT": 1, "E2E": 1, "ITL": 3, "client wait": 1}
    environment.runner.quit()  # type: ignore[union-attr]


@pytest.mark.parametrize("outcome", [Outcome.NOT_SENT, Outcome.LOST])
def test_what_was_never_sent_is_no_request_of_locusts(outcome: Outcome) -> None:
    from llm_locust.plugin.locust_stats import llm_request, report_request
    from llm_locust.users import OpenAIChatUser

    class Chat(OpenAIChatUser):
        pass

    environment = Environment(user_classes=[Chat])
    environment.create_local_runner()
    fired: list[object] = []
    seen: list[object] = []
    environment.events.request.add_listener(lambda **event: fired.append(event))
    keep = llm_request.add_listener(lambda record, **_: seen.append(record))
    row = record(outcome=outcome, planned_ns=0, sent_ns=None, first_output_ns=None, last_output_ns=None,
                 complete_ns=None, output_tokens=None)  # fmt: skip
    try:
        report_request(environment, row, None, Chat(environment))
    finally:
        llm_request.remove_listener(keep)
    assert (fired, seen) == ([], [row])
    assert (environment.stats.total.num_requests, dict(environment.stats.entries)) == (0, {})
    environment.runner.quit()  # type: ignore[union-attr]
