"""Goodput from typed counts: figures worked out by hand, blanks that stay null, contradictions that are refused."""

from __future__ import annotations

import pytest

from tests.web.workbench.asking import refused, told, unit

INTERVAL = "; 95 % interval {} (Wilson, if requests are independent)"
SUCCESSFUL = ": a good request is a successful one"


def test_the_worked_example() -> None:
    found = told("goodput", measured="100", successful="90", good="80", seconds="60")
    assert found["label"] == "Computed from your figures, not a test."
    assert (found["request_throughput_rps"], found["goodput_rps"]) == (1.5, 80 / 60)
    assert (found["attainment"], found["error_rate"], found["failed"]) == (0.8, 0.1, 10)
    # Wilson for 80 of 100: centre (0.8 + z²/200) / (1 + z²/100), z = 1.959964
    assert found["attainment_interval"] == {
        "low": pytest.approx(0.711171, abs=1e-6),
        "high": pytest.approx(0.866633, abs=1e-6),
    }
    assert found["error_rate_interval"] == {
        "low": pytest.approx(0.055229, abs=1e-6),
        "high": pytest.approx(0.174366, abs=1e-6),
    }
    assert found["lines"] == [
        ["Successful throughput", "1.5 req/s", "90 successful / 60 s"],
        ["Goodput", "1.333 req/s", "80 good / 60 s"],
        ["Attainment", "80 %", "80 good / 100 measured" + INTERVAL.format("71.11 % to 86.67 %")],
        ["Error rate", "10 %", "10 failed / 100 measured" + INTERVAL.format("5.52 % to 17.44 %")],
    ]  # fmt: skip


def test_0_is_a_measured_0() -> None:
    found = told("goodput", measured="20", successful="20", good="0", seconds="10")
    assert (found["goodput_rps"], found["attainment"], found["error_rate"], found["failed"]) == (0.0, 0.0, 0.0, 0)


def test_a_blank_is_null_and_so_is_what_needs_it() -> None:
    found = told("goodput", measured="100", successful="", seconds="60")
    assert {name for name, value in found.items() if value is None} == {
        "successful", "failed", "good", "request_throughput_rps", "goodput_rps", "attainment", "attainment_interval",
        "error_rate", "error_rate_interval",
    }  # fmt: skip
    assert found["lines"][0] == ["Successful throughput", "-", "not known: successful left blank"]
    assert found["lines"][3] == ["Error rate", "-", "not known: successful left blank"]
    assert [line[1] for line in told("goodput")["lines"]] == ["-"] * 4


def test_of_nothing_there_is_no_share() -> None:
    found = told("goodput", measured="0", successful="0", good="0", seconds="60")
    assert (found["attainment"], found["error_rate"], found["goodput_rps"]) == (None, None, 0.0)
    assert found["lines"][2][2] == "nothing was measured, so there is no share of it"


@pytest.mark.parametrize(
    ("fields", "messages"),
    [
        ({"measured": "90", "successful": "100"}, {"successful": "100 is more than the 90 that were measured"}),
        ({"successful": "80", "good": "81"}, {"good": "81 is more than the 80 that were successful" + SUCCESSFUL}),
        ({"measured": "80", "good": "81"}, {"good": "81 is more than the 80 that were measured" + SUCCESSFUL}),
        ({"seconds": "0"}, {"seconds": "it cannot be 0: leave it blank if it is not known"}),
        ({"seconds": "60 s"}, {"seconds": unit("60 s", "60")}),
        ({"measured": "1.5"}, {"measured": "'1.5' is not a whole number"}),
        ({"good": "-1"}, {"good": "'-1' is below 0, which it cannot be"}),
        ({"measured": "2e9"}, {"measured": "'2e9' is out of range: it is a number from 0 to 1e+09"}),
        ({"users": "5"}, {"users": "there is no such field"}),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_field(fields: dict[str, str], messages: dict[str, str]) -> None:
    assert refused("goodput", **fields) == messages


def test_every_wrong_field_is_named() -> None:
    assert list(refused("goodput", measured="1,5", successful="x", seconds="0")) == [
        "measured",
        "successful",
        "seconds",
    ]
