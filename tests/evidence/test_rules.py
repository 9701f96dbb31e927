"""Every rule of a record, broken once: what is said of which field."""

from __future__ import annotations

from typing import Any

import pytest

from llm_locust.analysis.evidence_rules import violations
from llm_locust.records.evidence import FIXED_LIMITATIONS
from tests.evidence.by_hand import document, record_of, stage

GATE = {"name": "ttft_p95", "relation": "<=", "limit": 500.0, "value": 400.0, "pass": True, "signed": True} | {
    "default": False
}
FAIL: dict[str, Any] = {
    "result": "fail",
    "gates": [GATE | {"value": 600.0, "pass": False}],
    "failing_dimensions": [{"name": "ttft_p95", "detail": "600 ms, over 500 ms"}],
}
CLOSED = {
    "arrival_mode": "closed",
    "arrival_process": None,
    "request_rate_rps": None,
    "dispatch_lag_p99_ms": None,
    "client_wait_p95_ms": None,
    "arrival_ttft_p95_ms": None,
    "arrival_e2e_p95_ms": None,
}
NO_LIMITS = {
    "slo": {},
    "good_requests": None,
    "goodput_rps": None,
    "goodput_vllm_rps": None,
    "attainment": None,
    "goodput_unavailable": "no limits were chosen (--slo)",
}
TRANSCRIBED: dict[str, Any] = {
    "evidence_grade": "transcribed",
    "run_id": None,
    "result": None,
    "result_strength": None,
    "gates": [],
    "generator": None,
}


def broken(**changes: Any) -> list[tuple[str, str]]:
    """What is wrong with a record that lacks nothing, once some of its fields are changed."""
    return [(violation.field, violation.rule) for violation in violations(document(**changes))]


@pytest.mark.parametrize("changes", [{}, FAIL, CLOSED, NO_LIMITS, TRANSCRIBED])
def test_a_record_that_keeps_the_rules_breaks_none(changes: dict[str, Any]) -> None:
    assert broken(**changes) == []


def test_a_violation_names_field_value_and_rule() -> None:
    (violation,) = violations(document(ttft_p50_ms=900.0))
    assert violation == ("ttft_p50_ms", 900.0, "ttft_p50_ms <= ttft_p95_ms, which is 800.0")


# Form


def test_a_record_is_one_object() -> None:
    assert violations([document()]) == [("", [document()], "a record is one JSON object")]


def test_a_field_that_is_left_out_is_missed() -> None:
    short = document()
    del short["owner"]
    ((field, _, rule),) = violations(short)
    assert (field, rule) == ("owner", "every field stands in a record: write null for what was not measured")


@pytest.mark.parametrize(
    ("changes", "field", "rule"),
    [
        ({"ttft_p95": 1}, "ttft_p95", "no field of schema 1.1: ttft_p95_ms is"),
        ({"schema_version": "1.0"}, "schema_version", 'one of "1.1"'),
        ({"successful_requests": -1}, "successful_requests", "expected int >= 0"),
        ({"attainment": 80}, "attainment", "expected float <= 1.0"),
        ({"weights_sha256": "abc"}, "weights_sha256", "expected str matching regex '^[0-9a-f]{64}$'"),
        ({"tested_at": "yesterday"}, "tested_at", None),
        (
            {"evidence_grade": "gold"},
            "evidence_grade",
            'one of "performance", "partial", "protocol-only", "transcribed"',
        ),
        ({"evidence_grade": None}, "evidence_grade", "expected str, got null"),
        ({"ttft_p95_ms": "fast"}, "ttft_p95_ms", 'one of a number, "inf", null'),
        ({"owner": ""}, "owner", "expected str of length >= 1"),
        ({"gates": [{"name": "x"}]}, "gates", "object missing required field relation - at $[0]"),
        ({"slo": {"ttft": 0}}, "slo", None),
    ],
)
def test_a_value_of_another_form_is_named(changes: dict[str, Any], field: str, rule: str | None) -> None:
    ((found, said),) = broken(**changes)
    assert found == field
    assert rule is None or said == rule


def test_every_mistake_of_form_is_named_not_only_the_first() -> None:
    assert [field for field, _ in broken(owner=7, lost=-1, planned="many")] == ["planned", "lost", "owner"]


def test_a_whole_number_may_be_written_with_a_point() -> None:
    assert broken(measured_requests=100.0, outcomes={"ok": 100.0}) == []


@pytest.mark.parametrize(
    "field",
    ["ttft_p50_ms", "tpot_p95_ms", "e2e_p99_ms", "peak_memory_gb", "ram_gb", "seconds", "replicas", "test_minutes"],
)
def test_0_where_nothing_can_be_0_is_told_from_null(field: str) -> None:
    assert broken(**{field: 0}) == [(field, "it cannot be 0: write null for what was not measured")]


# Counts


@pytest.mark.parametrize(
    ("changes", "field", "rule"),
    [
        (
            {"failed_requests": 1, "error_rate": 0.01},
            "measured_requests",
            "measured_requests = successful_requests + failed_requests, "
            "but successful_requests 100 + failed_requests 1 = 101",
        ),
        (
            {"lost": 1},
            "planned",
            "planned = attempted + not_sent + lost, but attempted 140 + not_sent 2 + lost 1 = 143",
        ),
        (
            {"good_requests": 101, "goodput_rps": 101 / 60, "attainment": None},
            "good_requests",
            "good_requests <= successful_requests, which is 100",
        ),
        ({"quality_failures": 101}, "quality_failures", "quality_failures <= measured_requests, which is 100"),
        ({"dispatched": 101}, "dispatched", "dispatched <= measured_requests, which is 100"),
        ({"sent": 101, "achieved_rate_rps": 101 / 60}, "sent", "sent <= measured_requests, which is 100"),
        (
            {"planned": 99, "attempted": 97, "not_sent": 1, "lost": 1},
            "measured_requests",
            "measured_requests <= planned, which is 99",
        ),
        ({"warmup_requests": 143}, "warmup_requests", "warmup_requests <= planned, which is 142"),
        ({"outcomes": {"ok": 100, "timeout": 1}}, "outcomes", "they sum to measured_requests, which is 100"),
        (
            {"outcomes": {"ok": 99, "timeout": 1}},
            "outcomes",
            "ok = successful_requests, which is 100",
        ),
        ({"status_counts": {"200": 101}}, "status_counts", "their sum <= measured_requests, which is 100"),
        (
            {"output_tokens_sources": {"usage": 99}},
            "output_tokens_sources",
            "they sum to successful_requests, which is 100",
        ),
        ({"status_counts": {"2xx": 100}}, "status_counts.2xx", "an HTTP status has three digits"),
        ({"slo": {"latency": 500.0}}, "slo.latency", None),
        ({"outcomes": {"ok": 100, "slow": 0}}, "outcomes.slow", None),
    ],
)
def test_counts_add_up_and_are_named_as_everywhere(changes: dict[str, Any], field: str, rule: str | None) -> None:
    ((found, said),) = broken(**changes)
    assert found == field
    assert rule is None or said == rule


# Percentiles


@pytest.mark.parametrize(
    ("changes", "field", "rule"),
    [
        ({"tpot_p95_ms": 41.0}, "tpot_p95_ms", "tpot_p95_ms <= tpot_p99_ms, which is 40.0"),
        ({"e2e_p95_ms": "inf"}, "e2e_p95_ms", "e2e_p95_ms <= e2e_p99_ms, which is 4500.0"),
        ({"ttft_p95_ms": None, "ttft_p50_ms": 951.0}, "ttft_p50_ms", "ttft_p50_ms <= ttft_p99_ms, which is 950.0"),
        ({"input_tokens_p99": 1025}, "input_tokens_p99", "input_tokens_p99 <= input_tokens_max, which is 1024"),
    ],
)
def test_percentiles_are_ordered(changes: dict[str, Any], field: str, rule: str) -> None:
    assert broken(**changes) == [(field, rule)]


def test_infinite_and_equal_percentiles_are_in_order() -> None:
    assert broken(e2e_p95_ms="inf", e2e_p99_ms="inf", ttft_p50_ms=800.0) == []


# Null against 0


@pytest.mark.parametrize(
    ("changes", "field", "rule"),
    [
        (CLOSED | {"request_rate_rps": 2.0}, "request_rate_rps", "null in a closed loop: nothing was planned"),
        (CLOSED | {"dispatch_lag_p99_ms": 0.0}, "dispatch_lag_p99_ms", "null in a closed loop: nothing was planned"),
        (CLOSED | {"client_wait_p95_ms": 0.0}, "client_wait_p95_ms", "null in a closed loop: nothing was planned"),
        (CLOSED | {"concurrency": None}, "concurrency", "not null in a closed loop: it is what was asked for"),
        (NO_LIMITS | {"attainment": 0.0}, "attainment", "null when no limit was chosen: there is no good then"),
        (NO_LIMITS | {"good_requests": 0}, "good_requests", "null when no limit was chosen: there is no good then"),
        (
            {"good_requests": None, "goodput_rps": None, "attainment": None},
            "goodput_unavailable",
            "not null when limits were chosen and good_requests is null",
        ),
        ({"goodput_unavailable": "who knows"}, "goodput_unavailable", "null when good_requests is known"),
        ({"memory_tool": None}, "memory_tool", "not null when peak_memory_gb is known: it says nothing without"),
        ({"memory_scope": None}, "memory_scope", "not null when peak_memory_gb is known: it says nothing without"),
        ({"run_id": None}, "run_id", "not null in a record that was measured"),
    ],
)
def test_null_is_what_was_not_measured(changes: dict[str, Any], field: str, rule: str) -> None:
    assert (field, rule) in broken(**changes)


def test_without_streaming_there_is_no_ttft() -> None:
    assert {field for field, _ in broken(streaming=False)} == {
        "ttft_p50_ms", "ttft_p95_ms", "ttft_p99_ms", "tpot_p50_ms", "tpot_p95_ms", "tpot_p99_ms", "itl_p95_ms",
        "max_gap_p95_ms", "arrival_ttft_p95_ms",
    }  # fmt: skip


def test_without_an_ok_request_there_are_no_latencies() -> None:
    nothing_ok = stage(
        successful=0, failed=100, outcomes={"rejected": 100}, request_throughput_rps=0.0, good_requests=0,
        goodput_rps=0.0, attainment=0.0, error_rate=1.0, token_sources={},
    )  # fmt: skip
    found = violations(document(record_of(nothing_ok)))
    assert {violation.rule for violation in found} == {"null when no request was ok"}
    assert {"ttft_p50_ms", "e2e_p99_ms", "itl_p95_ms", "output_tokens_max", "output_throughput_tps"} <= {
        violation.field for violation in found
    }


def test_nothing_measured_has_no_shares() -> None:
    nothing = stage(
        measured=0, successful=0, failed=0, dispatched=0, sent=0, outcomes={}, status_counts={}, percentiles={},
        achieved_rate_rps=0.0, request_throughput_rps=0.0, output_throughput_tps=None, total_throughput_tps=None,
        good_requests=0, goodput_rps=0.0, attainment=0.0, error_rate=0.0, token_sources={},
    )  # fmt: skip
    assert [(v.field, v.rule) for v in violations(document(record_of(nothing)))] == [
        ("attainment", "null when measured_requests is 0"),
        ("error_rate", "null when measured_requests is 0"),
    ]


def test_server_metrics_that_are_all_0_though_it_answered_were_not_read() -> None:
    zeros = {"running_peak": 0, "waiting_peak": 0, "kv_cache_peak_pct": 0, "queue_time_p95_ms": 0}
    assert broken(**zeros) == []  # a flat trend: it was read, and short requests fell between the samples
    found = broken(**zeros, running_trend=None, waiting_trend=None)
    assert {rule for _, rule in found} == {
        "null when the server's metrics were not read: it answered, yet all of them are 0"
    }
    assert set(zeros) < {field for field, _ in found}
    assert broken(**(zeros | {"running_peak": 1})) == []


# Rates


@pytest.mark.parametrize(
    ("changes", "field", "rule"),
    [
        (
            {"request_throughput_rps": 1.5},
            "request_throughput_rps",
            "request_throughput_rps = successful_requests / seconds, which is 100 / 60 = 1.66667",
        ),
        ({"goodput_rps": 1.6}, "goodput_rps", "goodput_rps = good_requests / seconds, which is 100 / 60 = 1.66667"),
        (
            {"achieved_rate_rps": 2.0},
            "achieved_rate_rps",
            "achieved_rate_rps = sent / seconds, which is 100 / 60 = 1.66667",
        ),
        ({"attainment": 0.99}, "attainment", "attainment = good_requests / measured_requests, which is 100 / 100 = 1"),
        ({"error_rate": 0.01}, "error_rate", "error_rate = failed_requests / measured_requests, which is 0 / 100 = 0"),
        (
            {"total_throughput_tps": 149.0},
            "output_throughput_tps",
            "output_throughput_tps <= total_throughput_tps, which is 149.0",
        ),
        ({"test_minutes": 0.5}, "seconds", "seconds <= test_minutes x 60, which is 30"),
    ],
)
def test_rates_follow_from_counts_and_seconds(changes: dict[str, Any], field: str, rule: str) -> None:
    assert broken(**changes) == [(field, rule)]


def test_a_rate_without_its_seconds_cannot_be() -> None:
    assert broken(seconds=None) == [
        ("request_throughput_rps", "request_throughput_rps = successful_requests / seconds, but seconds is null"),
        ("goodput_rps", "goodput_rps = good_requests / seconds, but seconds is null"),
        ("achieved_rate_rps", "achieved_rate_rps = sent / seconds, but seconds is null"),
    ]


def test_printed_figures_may_be_rounded_to_three_digits_and_our_own_not() -> None:
    assert broken(**TRANSCRIBED, request_throughput_rps=1.67, goodput_rps=1.67) == []
    assert [field for field, _ in broken(request_throughput_rps=1.67)] == ["request_throughput_rps"]
    assert [field for field, _ in broken(**TRANSCRIBED, goodput_rps=1.7)] == ["goodput_rps"]


# Verdict


@pytest.mark.parametrize(
    ("changes", "field", "rule"),
    [
        (
            {"gates": [GATE | {"value": 500.1}]},
            "gates.ttft_p95",
            "pass is false: 500.1 <= 500.0 does not hold",
        ),
        (FAIL | {"gates": [GATE | {"pass": False}]}, "gates.ttft_p95", "pass is true: 400.0 <= 500.0 does hold"),
        ({"gates": [GATE | {"value": "inf"}]}, "gates.ttft_p95", "pass is false: inf <= 500.0 does not hold"),
        ({"gates": [GATE | {"value": None}]}, "gates.ttft_p95", "pass is null when the value was not measured"),
        ({"gates": [GATE | {"value": "flat"}]}, "gates.ttft_p95", "a number, as its limit 500 is"),
        (
            {"gates": [GATE | {"relation": "=", "limit": "flat", "value": "rising"}]},
            "gates.ttft_p95",
            "pass is false: rising = flat does not hold",
        ),
        ({"gates": []}, "result", "a pass needs gates, and every one of them passed"),
        ({"gates": [GATE | {"pass": None}]}, "result", "a pass needs gates, and every one of them passed"),
        (FAIL | {"gates": [GATE]}, "result", "a fail needs a gate that failed"),
        (FAIL | {"failing_dimensions": []}, "failing_dimensions", None),
        ({"failing_dimensions": FAIL["failing_dimensions"]}, "failing_dimensions", None),
        ({"result_strength": None}, "result_strength", "candidate or signed for pass and fail, else null"),
        ({"result": "undetermined"}, "result_strength", "candidate or signed for pass and fail, else null"),
        (
            {"result": "invalid", "result_strength": None},
            "result",
            "invalid only when the load generator was not valid, or the server changed during the run",
        ),
    ],
)
def test_the_verdict_follows_from_its_gates(changes: dict[str, Any], field: str, rule: str | None) -> None:
    ((found, said),) = broken(**changes)
    assert found == field
    assert rule is None or said == rule


def test_a_value_equal_to_its_limit_passes_and_a_known_value_may_say_nothing() -> None:
    falling = GATE | {"name": "in_flight_trend", "relation": "=", "limit": "flat", "value": "falling", "pass": None}
    assert broken(gates=[GATE | {"value": 500.0}]) == []
    assert broken(gates=[GATE, falling], result="undetermined", result_strength=None) == []


def test_what_an_invalid_generator_sent_is_neither_pass_nor_fail() -> None:
    late = {"generator": {"valid": False, "reasons": ["late by 40 ms"]}, "evidence_grade": "partial"}
    late |= {"evidence_grade_reasons": ["the load generator was not shown to be valid"]}
    assert broken(**late) == [("result", "neither pass nor fail when the load generator was not valid")]
    assert broken(**late, result="invalid", result_strength=None) == []
    silent = late | {"generator": {"valid": False, "reasons": []}, "result": "invalid", "result_strength": None}
    assert broken(**silent) == [("generator.reasons", "a generator that is not valid says why")]


# Grade


def test_performance_is_refused_to_a_record_that_lacks_something() -> None:
    assert broken(rounds=2) == [
        ("evidence_grade", "partial, by what the record holds: 2 valid rounds of this test point, not 3")
    ]


def test_a_synthetic_engine_is_never_performance() -> None:
    said = "protocol-only, by what the record holds: the engine is synthetic"
    assert broken(synthetic_engine=True) == [("evidence_grade", said)]
    assert broken(synthetic_engine=True, evidence_grade="partial") == [("evidence_grade", said)]
    assert broken(engine="llm-locust-simulator") == [("synthetic_engine", "true for the engine llm-locust-simulator")]


def test_a_real_engine_is_not_protocol_only_and_partial_says_why() -> None:
    said = "performance, by what the record holds: it lacks nothing"
    assert broken(evidence_grade="protocol-only") == [("evidence_grade", said)]
    assert broken(evidence_grade="partial", rounds=1) == [
        ("evidence_grade_reasons", "a grade below performance says what is lacking")
    ]


# Limitations and users


@pytest.mark.parametrize("said", FIXED_LIMITATIONS)
def test_the_fixed_limitations_stand_in_every_record(said: str) -> None:
    kept = [sentence for sentence in FIXED_LIMITATIONS if sentence != said]
    assert broken(limitations=kept) == [("limitations", f"they hold the sentence {said!r}")]


@pytest.mark.parametrize("field", ["users", "concurrent_users", "supported_users_max"])
def test_no_field_is_a_number_of_users(field: str) -> None:
    assert broken(**{field: 500}) == [(field, "no field of a record is a number of users")]


def test_a_field_of_users_is_refused_whatever_its_form() -> None:
    assert [field for field, _ in broken(users={"peak": 500})] == ["users"]


@pytest.mark.parametrize(
    ("changes", "field", "claim"),
    [
        ({"verdict": "pass: serves 500 users"}, "verdict", "500 users"),
        ({"limitations": [*FIXED_LIMITATIONS, "good for 40 people"]}, "limitations[3]", "40 people"),
        ({"gates": [GATE | {"name": "500 users"}]}, "gates[0].name", "500 users"),
    ],
)
def test_no_text_turns_a_figure_into_a_number_of_users(changes: dict[str, Any], field: str, claim: str) -> None:
    assert broken(**changes) == [(field, f"no figure is a number of users, but this says {claim!r}")]


def test_where_prompts_come_from_may_name_how_many_wrote_them() -> None:
    assert broken(dataset_source="questions of 40 people, 2025") == []
