"""What the dry run says of chosen gates before anything is sent."""

from __future__ import annotations

import pytest

from llm_locust.records.gates import GateSpec, parse_gates
from llm_locust.sizing.evidence import best_verdict, gates_ahead, requests_to_sign


def gates(*texts: str) -> tuple[GateSpec, ...]:
    return tuple(parse_gates(texts))


@pytest.mark.parametrize(
    ("gate", "needed"),
    [
        ("ttft_p95<=1000", 59),
        ("e2e_p99<=3000", 299),
        ("attainment>=0.99", 381),  # 0.01 from 1 is as far as 0.01 from 0: see the error rate
        ("http_503=0", 1),
        ("itl_p95<=50", None),  # gaps are nowhere near independent: there is no bound
        ("queue_p95<=300", None),  # nobody read the server
    ],
)
def test_each_gate_is_signed_from_so_many_flawless_requests(gate: str, needed: int | None) -> None:
    found = gates_ahead(True, "open", gates(gate))
    assert (found[0].requests_to_sign, found[0].default) == (needed, False)


def test_a_stage_is_signed_when_its_slowest_gate_is() -> None:
    assert requests_to_sign(True, "open", gates("ttft_p95<=1000", "e2e_p99<=3000")) == 299
    assert requests_to_sign(True, "open") == 381


def test_too_few_for_a_percentile_gate_are_undetermined_at_best() -> None:
    asked = gates("ttft_p95<=1000")
    assert best_verdict(19, 19, True, "open", asked).result == "undetermined"
    assert best_verdict(20, 20, True, "open", asked).result == "pass"
    assert best_verdict(59, 59, True, "open", asked).strength == "signed"


def test_a_gate_that_nothing_can_answer_is_undetermined_at_best() -> None:
    assert best_verdict(1000, 1000, True, "open", gates("waiting_trend=flat")).result == "undetermined"


def test_gates_of_slices_are_foretold_too() -> None:
    (found, *_) = gates_ahead(True, "open", gates("faq:ttft_p95<=800"))
    assert (found.name, found.requests_to_sign) == ("faq:ttft_p95", 59)
