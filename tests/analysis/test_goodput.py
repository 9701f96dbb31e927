"""The good rules, request by request."""

from __future__ import annotations

import pandas as pd
import pytest

from llm_locust.analysis.derived import add_durations
from llm_locust.analysis.goodput import Judged, judge
from llm_locust.records import COLUMNS, STRING_COLUMNS

MS = 1_000_000
START = 1_790_000_000_123_456_789


def table(*requests: dict[str, object]) -> pd.DataFrame:
    """Requests with times in ns after START."""
    columns = {}
    for name in COLUMNS:
        cells = [request.get(name) for request in requests]
        if name.endswith("_ns") and name != "max_gap_ns":
            cells = [None if cell is None else START + int(str(cell)) for cell in cells]
        columns[name] = pd.array(cells, dtype="str" if name in STRING_COLUMNS else "Int64")
    columns |= {"gaps_at": 0, "gaps_n": 0}
    return add_durations(pd.DataFrame(columns))


def ok(ttft_ns: int = 100 * MS, e2e_ns: int = 600 * MS, tokens: int | None = 11, **fields: object) -> dict[str, object]:
    times = {"sent_ns": 0, "first_output_ns": ttft_ns, "last_output_ns": e2e_ns, "complete_ns": e2e_ns}
    return times | {"outcome": "ok", "output_tokens": tokens} | fields


def verdicts(judged: Judged) -> list[int]:
    return judged.good.tolist()


def test_a_value_equal_to_its_limit_meets_it_and_a_nanosecond_more_does_not() -> None:
    rows = table(ok(ttft_ns=500 * MS), ok(ttft_ns=500 * MS + 1))
    assert verdicts(judge(rows, {"ttft": 500.0})) == [1, 0]
    tenth = table(ok(ttft_ns=100_000), ok(ttft_ns=100_001))
    assert verdicts(judge(tenth, {"ttft": 0.1})) == [1, 0]


def test_tpot_is_generation_time_over_tokens_less_one() -> None:
    rows = table(ok(ttft_ns=100 * MS, e2e_ns=600 * MS, tokens=11))
    assert rows["tpot_ms"].tolist() == [50.0]
    assert rows["ntpot_ms"].tolist() == [600 / 11]
    assert verdicts(judge(rows, {"tpot": 50.0})) == [1]


def test_all_chosen_limits_are_judged_together() -> None:
    rows = table(ok(), ok(ttft_ns=300 * MS), ok(e2e_ns=900 * MS), {"outcome": "timeout", "sent_ns": 0})
    found = judge(rows, {"ttft": 200.0, "e2e": 700.0})
    assert verdicts(found) == [1, 0, 0, 0]
    assert found.good_count == 1
    assert [(c.name, c.judged, c.missed) for c in found.limits] == [("ttft", 3, 1), ("e2e", 3, 1)]


def test_tpot_of_a_one_token_reply_takes_no_part_beside_another_limit() -> None:
    one = ok(tokens=1, e2e_ns=100 * MS)
    found = judge(table(one, ok()), {"ttft": 200.0, "tpot": 50.0})
    assert verdicts(found) == [1, 1]
    assert found.unavailable is None
    assert [c.not_applicable for c in found.limits] == [0, 1]


def test_an_ok_request_to_which_no_limit_applies_makes_goodput_unavailable() -> None:
    one = ok(tokens=1, e2e_ns=100 * MS)
    found = judge(table(one, ok()), {"tpot": 50.0})
    assert verdicts(found) == [-1, 1]
    assert found.good_count is None
    assert found.unavailable == "no chosen limit applies to 1 of 2 ok requests (one-token replies)"


@pytest.mark.parametrize("fields", [{"tokens": None}, {"last_output_ns": 100 * MS}])
def test_a_missing_value_of_a_chosen_limit_makes_goodput_unavailable_with_the_count(fields: dict[str, int]) -> None:
    found = judge(table(ok(**fields), ok()), {"ttft": 200.0, "tpot": 50.0})  # type: ignore[arg-type]
    assert verdicts(found) == [-1, 1]
    assert found.unavailable == "tpot is missing for 1 of 2 ok requests"


def test_a_missing_value_of_a_failed_request_does_not_matter() -> None:
    found = judge(table({"outcome": "rejected", "sent_ns": 0}, ok()), {"tpot": 50.0})
    assert verdicts(found) == [0, 1]
    assert found.unavailable is None


def test_the_longest_gap_follows_the_rules_of_tpot() -> None:
    rows = table(
        ok(max_gap_ns=80 * MS),
        ok(max_gap_ns=81 * MS),
        ok(tokens=1, e2e_ns=100 * MS),  # one token: there is no gap
        ok(tokens=5, last_output_ns=100 * MS),  # five tokens at one instant: something buffers
    )
    assert rows["max_gap_state"].tolist() == ["value", "value", "not_applicable", "missing"]
    assert verdicts(judge(rows, {"max_gap": 80.0, "e2e": 700.0})) == [1, 0, 1, -1]


def test_limits_from_arrival_count_the_wait_before_sending() -> None:
    rows = table(ok(planned_ns=-50 * MS))
    assert verdicts(judge(rows, {"ttft": 100.0})) == [1]
    assert verdicts(judge(rows, {"arrival_ttft": 100.0})) == [0]
    assert verdicts(judge(rows, {"arrival_e2e": 650.0})) == [1]


def test_limits_from_arrival_are_missing_in_a_closed_loop() -> None:
    assert judge(table(ok()), {"arrival_e2e": 650.0}).unavailable == "arrival_e2e is missing for 1 of 1 ok requests"


def test_without_limits_there_is_no_good() -> None:
    found = judge(table(ok()), {})
    assert verdicts(found) == [-1]
    assert found.good_count is None
