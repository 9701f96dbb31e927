"""The envelope: the maxima of what was shown, for what they hold, what they rest on, and all that they leave out."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import msgspec
import pytest

from llm_locust.analysis.evidence_rules import invented_users
from llm_locust.analysis.release import ReleasedRun
from llm_locust.records.envelope import Envelope
from llm_locust.records.envelope_schema import SCHEMA_PATH, schema_text
from llm_locust.records.evidence import FIXED_LIMITATIONS
from llm_locust.records.summary import FailingDimension, GeneratorHealth
from llm_locust.report.envelope_page import render_envelope
from tests.release.by_hand import AT, GATES, closed, failing, gates, passing, released, rounds, run, verdict


def envelope(*runs: ReleasedRun, **options: Any) -> Envelope:
    found = released(*runs, **options)
    assert found.refused_for == []
    assert found.envelope is not None
    return found.envelope


def whole() -> Envelope:
    """A ladder of 2 and 4 req/s in three rounds, the third dearer, and closed loops of 8 and 16."""
    return envelope(
        run(
            *rounds(passing, 2),
            passing(round=2, good_output_tokens_in_window_tps=40.0, peak_in_flight=11),
            *rounds(failing),
            *rounds(lambda round: closed(8, round=round)),
            *rounds(lambda round: closed(16, 3, round, verdict=verdict("fail"))),
        )
    )


def test_the_maxima() -> None:
    found = whole()
    assert (found.max_rate_rps, found.arrivals, found.first_failing_rate_rps) == (2.0, "poisson", 4.0)
    assert found.failing_dimensions == [FailingDimension(name="ttft", detail="60 of 100 over 500 ms")]
    assert (found.max_concurrency, found.max_concurrency_at) == (11, "the peak at 2 req/s, run-1.s0.r2")
    assert (found.closed_loop_passed, found.closed_loop_first_failing) == (8, 16)
    # 40 good tokens a second are 144,000 an hour; for 3.6 that is 25 a million, and the other rounds' 50 a second are 20.
    assert found.cost_per_million_good_tokens == pytest.approx(25.0, rel=1e-12)
    assert [of.cost_per_million_good_tokens for of in found.points[0].rounds] == pytest.approx([20.0, 20.0, 25.0])
    assert (found.price_per_hour, found.price_set) == (3.6, "before")
    assert [point.name for point in found.points] == ["2 req/s", "8 in flight (closed loop)"]


def test_a_closed_loop_that_keeps_more_in_flight_is_the_maximum_concurrency() -> None:
    loop = rounds(lambda round: closed(32, round=round))
    found = envelope(run(*rounds(passing), *loop))
    assert (found.max_concurrency, found.max_concurrency_at) == (32, "kept at 32 in flight (closed loop)")


def test_for_what_it_holds() -> None:
    found = whole()
    assert (found.released_at, found.released_by, found.owner) == (AT, "llm-locust 0.1.0", "Inference team")
    assert found.service_of == "run-1.s0.r0"
    known = {name: value for name, value in found.service.items() if value is not None}
    assert known == {
        "model_id": "Qwen/Qwen3-8B",
        "model_revision": "0123abc",
        "engine": "vLLM",
        "engine_version": "0.11.0",
        "accelerator": "NVIDIA H100 80GB HBM3",
        "accelerator_count": 1,
        "available_memory_gb": 80.0,
        "driver_runtime_host": "driver 570.86, Docker 28.0",
    }
    assert (found.workload["workload_name"], found.workload["workload_sha256"]) == ("faq", "ab" * 32)
    assert (found.workload["input_tokens_p99"], found.workload["output_tokens_max"]) == (1000, 128)
    assert found.limits.slo == {"ttft": 500.0}
    assert found.limits.gates == GATES
    assert (found.limits.gates_set, found.limits.deadline_s, found.limits.max_in_flight) == ("before", 30.0, 64)


def test_what_it_rests_on() -> None:
    of = run(*rounds(passing), *rounds(failing))
    found = envelope(of)
    assert [(one.test_id, one.result, one.counted) for one in found.evidence] == [
        ("run-1.s0.r0", "pass", True),
        ("run-1.s0.r1", "pass", True),
        ("run-1.s0.r2", "pass", True),
        ("run-1.s1.r0", "fail", True),
        ("run-1.s1.r1", "fail", True),
        ("run-1.s1.r2", "fail", True),
    ]
    assert [(one.file, one.sha256) for one in found.evidence] == [
        (file.name, file.sha256) for file in of.records.values()
    ]
    assert [(one.run_id, one.started_at) for one in found.runs] == [("run-1", "2026-09-21T14:13:10+00:00")]
    assert all(one.met for one in found.requirements)


def test_what_it_leaves_out() -> None:
    assert envelope(run(*rounds(passing))).not_covered == [
        "Rates above 2 req/s were not tested, or not well enough: no rate failed.",
        "A burst, or a trace played again, of the mean rate 2 req/s was not run.",
        "No closed loop was run: the number in flight is a peak of open arrivals, not one that was kept.",
        "No soak was run: the longest window was 60 s.",
        "Cold start was not measured: neither after idling nor with the model unloaded.",
        "Answer quality was not checked (--quality).",
        "No prompt was longer than 1024 tokens, and no reply than 128.",
    ]


def test_what_was_run_is_not_left_out() -> None:
    hour = {"seconds": 3600.0, "achieved_rate_rps": 1 / 36, "request_throughput_rps": 1 / 36, "goodput_rps": 1 / 36}
    burst = run(*rounds(passing, arrivals="gamma:cv=3", **hour), run_id="run-2", seed=2, quality="regex:.", minutes=61)
    ladder = [*rounds(passing), *rounds(failing), *rounds(lambda round: closed(8, round=round))]
    found = envelope(run(*ladder, quality="regex:."), burst)
    assert found.not_covered == [
        "Rates between 2 and 4 req/s were not tested, or not well enough.",
        "Cold start was not measured: neither after idling nor with the model unloaded.",
        "No prompt was longer than 1024 tokens, and no reply than 128.",
    ]
    assert found.burst is not None
    assert (found.burst.name, found.burst.result) == ("2 req/s gamma:cv=3", "pass")


def test_a_burst_that_fails_is_said_first_of_all_bursts() -> None:
    burst = run(passing(arrivals="gamma:cv=2"), failing(rate=2.0, arrivals="gamma:cv=3"), run_id="run-2", seed=2)
    found = envelope(run(*rounds(passing)), burst)
    assert found.burst is not None
    assert (found.burst.name, found.burst.result) == ("2 req/s gamma:cv=3", "fail")
    assert "Arrivals that come in bursts: 2 req/s gamma:cv=3 came to fail." in found.not_covered


def test_a_burst_of_another_mean_rate_says_nothing_of_the_released_one() -> None:
    burst = run(*rounds(passing, rate=1.0, arrivals="gamma:cv=3"), run_id="run-2", seed=2)
    found = envelope(run(*rounds(passing), *rounds(passing, stage=1, rate=1.5)), burst)
    assert (found.max_rate_rps, found.burst) == (2.0, None)


def test_a_closed_loop_that_lacks_something_is_named_and_no_maximum() -> None:
    found = envelope(run(*rounds(passing), closed(32)))
    assert (found.max_concurrency, found.closed_loop_passed) == (9, None)
    said = "32 in flight (closed loop) passed, but is no part of this, for want of: rounds, grade."
    assert said in found.not_covered


def test_a_closed_loop_that_fails_with_no_more_than_the_peak_is_said() -> None:
    found = envelope(run(*rounds(passing), closed(8, verdict=verdict("fail"))))
    assert (found.max_concurrency, found.closed_loop_first_failing) == (9, 8)
    said = "8 in flight (closed loop) failed, though open arrivals passed with 9 in flight at a moment."
    assert said in found.not_covered


def test_a_rate_that_passed_without_all_that_is_required_gives_way_to_a_lower_one() -> None:
    above = rounds(passing, stage=1, rate=3.0, verdict=verdict(strength="candidate"), peak_in_flight=30)
    found = envelope(run(*rounds(passing), *above))
    assert (found.max_rate_rps, found.max_concurrency) == (2.0, 9)
    assert "3 req/s passed, but is no part of this, for want of: signed." in found.not_covered


def test_lower_rates_that_had_more_in_flight_count_for_the_concurrency() -> None:
    lower = rounds(passing, stage=1, rate=1.0, peak_in_flight=14)
    found = envelope(run(*rounds(passing), *lower))
    assert (found.max_rate_rps, found.max_concurrency) == (2.0, 14)


def test_invalid_rounds_are_named_and_count_in_neither_direction() -> None:
    late = GeneratorHealth(valid=False, reasons=["late"], lag_bound_ms=5.0)
    of = run(*rounds(passing), passing(round=3, verdict=verdict("invalid"), generator=late))
    found = envelope(of)
    assert found.not_covered[-1] == "Invalid, and counted in neither direction: run-1.s0.r3."
    assert [one.counted for one in found.evidence] == [True, True, True, False]
    assert len(found.points[0].rounds) == 3


def test_attainment_that_no_gate_was_on_is_said() -> None:
    some = {
        "good_requests": 80,
        "goodput_rps": 80 / 60,
        "attainment": 0.8,
        "verdict": verdict(of=gates(attainment=None)),
    }
    found = envelope(run(*rounds(passing, **some)))
    said = "No gate was on attainment: at least 80 % of the requests of each round met all limits together."
    assert said in found.not_covered


def test_what_no_record_says_no_envelope_says_either() -> None:
    found = whole()
    assert set(FIXED_LIMITATIONS) <= set(found.limitations)
    assert not any(one.startswith("Fewer than three rounds") for one in found.limitations)


def test_what_else_is_not_alike_in_the_runs_is_noted_without_their_addresses() -> None:
    other = run(*rounds(passing), run_id="run-2", seed=2, host="http://10.0.0.2:8000", machine={"cpus": 4})
    found = envelope(run(*rounds(passing)), other)
    assert found.limitations[-1] == "The runs were not made alike in: host; generator (cpus not said against cpus 4)."
    assert "10.0.0.2" not in render_envelope(found)


def test_the_price_may_come_with_the_release() -> None:
    found = envelope(run(*rounds(passing), summary={"price_per_hour": None}), price_per_hour=7.2)
    assert (found.price_set, found.price_per_hour) == ("after", 7.2)
    assert found.cost_per_million_good_tokens == pytest.approx(40.0, rel=1e-12)


def test_the_schema_that_ships_is_the_contracts_and_an_envelope_obeys_it() -> None:
    assert SCHEMA_PATH.read_text() == schema_text()
    schema = json.loads(schema_text())
    document = msgspec.json.decode(msgspec.json.encode(whole()))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert list(validator.iter_errors(document)) == []
    for spoilt in ({"max_rate_rps": 0}, {"service": {}}, {"concurrent_users": 9}, {"evidence": []}):
        assert list(validator.iter_errors(document | spoilt)), spoilt


def test_no_envelope_is_a_number_of_users() -> None:
    assert list(invented_users(msgspec.json.decode(msgspec.json.encode(whole())))) == []


def test_the_page_has_the_maxima_first_and_what_is_not_covered_next() -> None:
    page = render_envelope(whole())
    assert page.startswith("# Release envelope: Qwen/Qwen3-8B on 1 x NVIDIA H100 80GB HBM3\n\n")
    for line in (
        "- Maximum sustained rate: **2 req/s** (poisson arrivals)",
        "- Maximum concurrency: **11 requests in flight** (the peak at 2 req/s, run-1.s0.r2)",
        "- Cost per million good output tokens at that rate: **25**, in the currency of the price: 3.6 an hour",
        "- First failing rate: 4 req/s, on ttft: 60 of 100 over 500 ms",
        "- First failing closed loop: 16 requests kept in flight",
    ):
        assert line in page.splitlines()
    assert page.index("## Not covered") < page.index("## What it does not say") < page.index("## Service")


def test_text_from_elsewhere_does_nothing_on_the_page() -> None:
    found = msgspec.structs.replace(whole(), owner="<img src=x>\x1b[2J | `rm`")
    page = render_envelope(found)
    assert "<img" not in page.replace("\\<img", "")
    assert "\x1b" not in page
