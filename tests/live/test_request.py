"""One request's times and verdict: the very ones that the merge finds for the same rows."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_locust.analysis.derived import add_durations
from llm_locust.analysis.goodput import judge as judge_table
from llm_locust.live.request import Verdict, judge, times, tpot_ms
from llm_locust.live.rows import read_rows
from llm_locust.records import COLUMNS, STRING_COLUMNS, Outcome, RequestRecord, encode_rows
from llm_locust.records.quality import QUALITY
from llm_locust.records.slo import SLO_NAMES

T0 = 1_790_000_000_123_456_789
MS = 1_000_000

instants = st.none() | st.integers(0, 4 * MS).map(lambda ns: T0 + 250 * ns)
records = st.builds(
    RequestRecord,
    run_id=st.just("r"),
    stage=st.just(0),
    phase=st.just("measure"),
    index=st.just(0),
    request_id=st.just("r.0"),
    worker=st.just(0),
    user=st.just("Chat"),
    planned_ns=instants,
    dispatched_ns=instants,
    sent_ns=instants,
    first_output_ns=instants,
    last_output_ns=instants,
    complete_ns=instants,
    outcome=st.sampled_from([Outcome.OK, Outcome.OK, Outcome.OK, Outcome.TIMEOUT]),
    output_tokens=st.none() | st.integers(0, 5),
    max_gap_ns=st.none() | st.integers(0, 1000 * MS),
    quality=st.sampled_from([None, "pass", "fail", "error"]),
)
limits = st.dictionaries(st.sampled_from(SLO_NAMES), st.sampled_from([0.25, 50.0, 500.0, 900.0]), min_size=1).map(
    lambda slo: {name: 1.0 if name == QUALITY else limit for name, limit in slo.items()}
)


def table(among: list[RequestRecord]) -> pd.DataFrame:
    columns = {
        name: pd.array([getattr(record, name) for record in among], dtype="str" if name in STRING_COLUMNS else "Int64")
        for name in COLUMNS
        if name != "gaps_us"
    }
    return add_durations(pd.DataFrame(columns | {"gaps_at": 0, "gaps_n": 0}))


def known(value: float) -> float | None:
    return None if math.isnan(value) else value


@settings(max_examples=80, deadline=None)
@given(st.lists(records, min_size=1, max_size=20), limits)
def test_times_and_verdicts_are_those_of_the_merge(among: list[RequestRecord], slo: dict[str, float]) -> None:
    rows = table(among)
    judged = judge_table(rows, slo)
    ok = [record.outcome is Outcome.OK for record in among]
    checked = any(record.quality for record in among)
    good: list[int | None] = []
    for k, record in enumerate(among):
        found = times(record)
        for name in ("dispatch_lag", "cap_wait", "client_wait"):
            assert getattr(found, name) == known(rows[f"{name}_ms"][k])
        for name in ("ttft", "tpot", "e2e", "max_gap"):
            assert getattr(found, name) == (known(rows[f"{name}_ms"][k]) if ok[k] else None)
        verdict = judge(record, found, slo)
        unchecked = QUALITY in slo and not checked and ok[k]
        good.append({Verdict.GOOD: 1, Verdict.NOT_GOOD: 0, Verdict.UNKNOWN: -1}[verdict] if not unchecked else -1)
    assert good == judged.good.tolist()


def test_a_shipped_line_says_what_its_record_says() -> None:
    record = ok(gaps_us=[1_000, 250_500], quality="fail", slice="long, and quoted", status=200, first_coalesced=True)
    lines = encode_rows([record, RequestRecord(**{**plain(record), "error": 'said "no"\nand left', "index": 1})])
    rows = list(read_rows(lines))
    assert len(rows) == 2
    for row in rows:
        assert row is not None
        assert times(row) == times(record)
        assert (row.stage, row.worker, row.user, row.slice) == (0, 0, "Chat", "long, and quoted")
        assert (row.outcome, row.status, row.quality, row.first_coalesced) == ("ok", "200", "fail", 1)
        assert row.gaps == "1000 250500"


def test_what_is_no_row_is_told_apart_from_rows() -> None:
    whole = encode_rows([ok()])
    assert [row is None for row in read_rows(whole + "torn,line\n" + whole)] == [False, True, False]
    cells = whole.split(",")
    cells[COLUMNS.index("stage")] = "x"
    assert list(read_rows(",".join(cells))) == [None]


def ok(**fields: Any) -> RequestRecord:
    """Sent at T0; first output after 100 ms, complete after 1,000 ms with 10 tokens."""
    given_fields: dict[str, Any] = {
        "run_id": "r", "stage": 0, "phase": "measure", "index": 0, "request_id": "r.0", "worker": 0, "user": "Chat",
        "planned_ns": T0 - 2 * MS, "dispatched_ns": T0 - MS, "sent_ns": T0, "first_output_ns": T0 + 100 * MS,
        "last_output_ns": T0 + 1000 * MS, "complete_ns": T0 + 1000 * MS, "end_ns": T0 + 1001 * MS, "outcome": Outcome.OK,
        "output_tokens": 10, "max_gap_ns": 300 * MS,
    }  # fmt: skip
    return RequestRecord(**{**given_fields, **fields})


def plain(record: RequestRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in COLUMNS}


def verdict(record: RequestRecord, **slo: float) -> Verdict:
    return judge(record, times(record), slo)


def test_the_times_of_a_request() -> None:
    assert times(ok())._asdict() == {
        "ttft": 100.0, "tpot": 100.0, "e2e": 1000.0, "max_gap": 300.0, "dispatch_lag": 1.0, "cap_wait": 1.0,
        "client_wait": 2.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    "record",
    [
        ok(output_tokens=1),
        ok(output_tokens=0),
        ok(output_tokens=None),
        ok(last_output_ns=T0 + 100 * MS),
        ok(last_output_ns=None),
        ok(first_output_ns=None),
        ok(complete_ns=None),
        ok(outcome=Outcome.TRUNCATED),
    ],
    ids=["one token", "no token", "not counted", "one receive time", "no last", "no first", "not complete", "not ok"],
)
def test_tpot_needs_two_tokens_and_two_receive_times(record: RequestRecord) -> None:
    assert tpot_ms(record) is None


def test_a_limit_that_is_equalled_is_met_and_one_that_lacks_its_value_leaves_it_open() -> None:
    assert verdict(ok(), ttft=100.0, tpot=100.0) is Verdict.GOOD
    assert verdict(ok(first_output_ns=T0 + 100 * MS + 1), ttft=100.0) is Verdict.NOT_GOOD
    assert verdict(ok(output_tokens=None), ttft=100.0, tpot=100.0) is Verdict.UNKNOWN
    assert verdict(ok(output_tokens=1), ttft=100.0, tpot=50.0) is Verdict.GOOD  # TPOT does not apply
    assert verdict(ok(output_tokens=1), tpot=50.0) is Verdict.UNKNOWN  # ... and nothing else does
    assert verdict(ok(outcome=Outcome.TIMEOUT), ttft=1000.0) is Verdict.NOT_GOOD
    assert verdict(ok(planned_ns=None), arrival_e2e=5000.0) is Verdict.UNKNOWN
    assert verdict(ok(quality="fail"), quality=1.0, ttft=100.0) is Verdict.NOT_GOOD
    assert verdict(ok(quality="error"), quality=1.0, ttft=100.0) is Verdict.UNKNOWN
