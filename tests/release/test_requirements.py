"""What a release requires: a run that has it all earns one, and each thing that is lacking is its own reason."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from llm_locust.analysis.release import RecordFile, ReleasedRun
from llm_locust.records import Requirements, Transcribed, UsageError, WorkloadFacts
from llm_locust.records.summary import Gate, GeneratorHealth
from tests.evidence.by_hand import FACTS
from tests.release.by_hand import (
    closed,
    failing,
    gate,
    gates,
    passing,
    released,
    rounds,
    run,
    undecided,
    unmet,
    verdict,
)

OF_THE_POINT = ["rounds", "signed", "p95", "p99", "errors", "memory", "cost", "grade"]


UNSIGNED = gate("ttft_p99", "<=", 1500.0, 950.0, signed=False)


def whole(**changes: Any) -> ReleasedRun:
    """Everything that a release requires, but for ``changes`` of the stages."""
    return run(*rounds(passing, **changes))


def test_a_run_that_has_it_all_earns_a_release() -> None:
    found = released(whole())
    assert found.refused_for == []
    assert (found.allowed, found.exit_code) == (True, 0)
    assert [one.name for one in found.requirements] == [
        "records", "one_service", "workload", "limits", "gates", "rate", *OF_THE_POINT,
    ]  # fmt: skip
    assert found.envelope is not None


def without(name: str) -> dict[str, Any]:
    return {"verdict": verdict(of=gates(**{name: None}))}


@pytest.mark.parametrize(
    ("broken", "reasons"),
    [
        pytest.param(
            run(
                *rounds(passing),
                workload=WorkloadFacts(name="made up", kind="synthetic", source="words", sha256="ab" * 32),
            ),
            {"workload": "made up, synthetic: a synthetic workload supports no capacity conclusion"},
            id="workload",
        ),
        pytest.param(
            run(*rounds(passing), summary={"limits_set": "after"}),
            {"limits": "those of run-1 were set after the run"},
            id="limits",
        ),
        pytest.param(
            run(*rounds(passing), summary={"gates_set": "after"}),
            {"gates": "those of run-1 were set after the run"},
            id="gates",
        ),
        pytest.param(
            run(*rounds(passing), summary={"gates": []}, gates=[]),
            {"gates": "those of run-1 are defaults, chosen by nobody (--gate)"},
            id="default gates",
        ),
        pytest.param(
            run(*rounds(passing), gates=["ttft_p95<=2000"]),
            {"gates": "those of run-1 were set after the run"},
            id="gates that the summary has otherwise than the manifest",
        ),
        pytest.param(
            whole(verdict=verdict(strength="candidate", of=gates(ttft_p99=UNSIGNED))),
            {
                "signed": "run-1.s0.r0: ttft_p99 <= 1500 not; run-1.s0.r1: ttft_p99 <= 1500 not; "
                "run-1.s0.r2: ttft_p99 <= 1500 not"
            },
            id="signed",
        ),
        pytest.param(whole(**without("ttft_p95")), {"p95": "none was chosen (--gate 'ttft_p95<=MS')"}, id="p95"),
        pytest.param(whole(**without("ttft_p99")), {"p99": "none was chosen (--gate 'ttft_p99<=MS')"}, id="p99"),
        pytest.param(whole(**without("error_rate")), {"errors": "none was chosen (--gate 'error_rate<=0.01')"}, id="errors"),
        pytest.param(
            run(*rounds(passing), summary={"price_per_hour": None}),
            {"cost": "no price was given: --price-per-hour PRICE, with the run or here"},
            id="cost",
        ),
        pytest.param(
            whole(good_output_tokens_in_window_tps=0.0),
            {"cost": "run-1.s0.r0 has none: no good token came out"},
            id="cost without end",
        ),
        pytest.param(
            run(*rounds(passing), versions={"engine": "vLLM", "engine_version": "latest"}),
            {"grade": "partial: the engine's version 'latest' is not exact (run-1.s0.r0; run-1.s0.r1; run-1.s0.r2)"},
            id="grade",
        ),
        pytest.param(
            run(*rounds(passing), synthetic_engine=True),
            {"grade": "protocol-only: the engine is synthetic (run-1.s0.r0; run-1.s0.r1; run-1.s0.r2)"},
            id="simulator",
        ),
        pytest.param(
            run(*rounds(passing), requirements=Requirements(rate_rps=6.0)),
            {"required": "it was not"},
            id="what the run itself was required to show",
        ),
    ],
)  # fmt: skip
def test_each_thing_that_is_lacking_is_the_only_reason(broken: ReleasedRun, reasons: dict[str, str]) -> None:
    found = released(broken)
    assert (unmet(found), undecided(found)) == (reasons, [])
    assert (found.allowed, found.exit_code, found.envelope) == (False, 3, None)


@pytest.mark.parametrize(
    "error_rate",
    [gate("error_rate", "<=", 0.01, 0.0, default=True), gate("error_rate", "<=", 0.01, 0.0, slice="faq")],
    ids=["a default", "of a slice"],
)
def test_a_gate_that_nobody_chose_or_of_one_slice_alone_is_not_one_on_the_error_rate(error_rate: Gate) -> None:
    found = unmet(released(whole(verdict=verdict(of=gates(error_rate=error_rate)))))
    assert found == {"errors": "none was chosen (--gate 'error_rate<=0.01')"}


def test_a_gate_that_not_every_round_was_held_to_is_none_of_the_point() -> None:
    found = unmet(released(run(*rounds(passing, 2), passing(round=2, **without("ttft_p95")))))
    assert list(found) == ["p95"]


def test_the_same_prompts_from_another_place_are_the_same_workload() -> None:
    runs = [
        run(*rounds(passing), run_id=f"run-{k}", seed=k, options={"prompts": name}) for k, name in ((1, "a"), (2, "b"))
    ]
    assert released(*runs).refused_for == []


def test_too_few_rounds_are_no_performance_either() -> None:
    assert unmet(released(run(*rounds(passing, 2)))) == {
        "rounds": "2 of 2 req/s (--rounds 3)",
        "grade": "partial: 2 valid rounds of this test point, not 3 (run-1.s0.r0; run-1.s0.r1)",
    }


def test_a_round_whose_memory_was_not_measured_is_no_performance_either() -> None:
    found = unmet(released(run(*rounds(passing, 2), passing(round=2, device=None))))
    assert list(found) == ["memory", "grade"]
    assert found["memory"].startswith("not measured in run-1.s0.r2 (llm-locust telemetry")
    lacks = "peak_memory_gb, memory_tool, memory_scope, memory_kind not measured"
    assert found["grade"] == f"partial: the device was not sampled: {lacks} (run-1.s0.r2)"


def test_without_limits_nothing_is_good_and_nothing_has_a_cost() -> None:
    none = {
        "good_requests": None, "goodput_rps": None, "attainment": None, "goodput_vllm_rps": None,
        "goodput_unavailable": "no limits were chosen (--slo)", "good_output_tokens_in_window_tps": None,
        "verdict": verdict(of=gates(attainment=None)),
    }  # fmt: skip
    assert unmet(released(run(*rounds(passing, **none), slo={}))) == {
        "limits": "run-1 has none (--slo ttft=500,e2e=3000)",
        "cost": "run-1.s0.r0 has none: no limits were chosen (--slo)",
    }


def test_all_reasons_are_named_at_once() -> None:
    broken = run(
        *rounds(passing, 2, device=None, verdict=verdict(strength="candidate", of=gates(ttft_p95=None, ttft_p99=None))),
        summary={"gates_set": "after", "price_per_hour": None},
        workload=WorkloadFacts(name="made up", kind="synthetic", source="words", sha256="ab" * 32),
    )
    assert list(unmet(released(broken))) == [
        "workload", "gates", "rounds", "signed", "p95", "p99", "memory", "cost", "grade",
    ]  # fmt: skip


def test_where_no_rate_passed_the_rest_cannot_be_told() -> None:
    found = released(run(*rounds(failing)))
    assert unmet(found) == {"rate": "none passed below the first that failed (4 req/s: fail)"}
    assert undecided(found) == OF_THE_POINT
    assert found.exit_code == 3


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"verdict": verdict("undetermined")}, "none passed below the first that failed (2 req/s: undetermined)"),
        (
            {
                "verdict": verdict("invalid"),
                "generator": GeneratorHealth(valid=False, reasons=["late"], lag_bound_ms=5.0),
            },
            "no stage of open arrivals is valid (open 2/s poisson: as it was judged; open 2/s poisson: as it was judged; "
            "open 2/s poisson: as it was judged)",
        ),
    ],
)
def test_what_was_not_decided_is_not_refused(changes: dict[str, Any], said: str) -> None:
    found = released(whole(**changes))
    assert {one.name: one.found for one in found.refused_for}["rate"] == said
    assert (unmet(found), undecided(found)) == ({}, ["rate", *OF_THE_POINT])
    assert (found.allowed, found.exit_code) == (None, 4)


def test_a_closed_loop_alone_shows_no_rate() -> None:
    found = released(run(*rounds(lambda round: closed(8, round=round))))
    assert unmet(found) == {"rate": "no open arrivals were run: a closed loop slows down with its server"}


def test_a_simulator_is_refused_for_its_grade_whatever_passed() -> None:
    found = unmet(released(run(*rounds(failing), synthetic_engine=True)))
    assert found["grade"] == "protocol-only: the engine is synthetic"


def test_figures_of_another_tool_are_refused_for_their_grade() -> None:
    of = Transcribed(tool="vLLM bench", file="x.json", sha256="ab" * 32)
    found = unmet(released(run(*rounds(passing), transcribed=of)))
    assert found["grade"].startswith("transcribed: the figures are those of a file of vLLM bench")


def refiled(of: ReleasedRun, file: RecordFile | None) -> ReleasedRun:
    records = dict(of.records)
    del records[0, 1]
    return of._replace(records=records if file is None else records | {(0, 1): file})


def test_a_record_must_be_there_valid_and_what_its_run_says() -> None:
    of = whole()
    file = of.records[0, 1]
    document: Any = file.document
    for changed, said in (
        (None, "it has none: run llm-locust merge run-1 again"),
        (file._replace(document=None), "is no JSON: run llm-locust merge run-1 again"),
        (
            file._replace(document=document | {"good_requests": 90}),
            "is not valid (goodput_rps: goodput_rps = good_requests",
        ),
        (
            file._replace(document=document | {"owner": "Somebody"}),
            "does not say what its run says: run llm-locust merge",
        ),
    ):
        found = unmet(released(refiled(of, changed)))
        assert list(found) == ["records"]
        assert found["records"].startswith("run-1.s0.r1: ")
        assert said in found["records"]


def apart(seed: int, **changes: Any) -> ReleasedRun:
    return run(passing(), run_id=f"run-{seed}", seed=seed, **changes)


def test_rounds_that_were_run_apart_count_together() -> None:
    found = released(apart(1), apart(2), apart(3))
    assert found.refused_for == []
    assert found.envelope is not None
    assert {one.evidence_grade for one in found.envelope.evidence} == {"partial"}


def test_the_same_arrivals_again_are_no_further_round() -> None:
    same = [run(passing(), run_id=f"run-{k}") for k in range(3)]
    found = unmet(released(*same))
    assert found["rounds"] == "3 of 2 req/s, of which 1 with fresh arrivals (give each run another --seed) (--rounds 3)"
    assert list(found) == ["rounds", "grade"]


def test_a_burst_and_a_closed_loop_may_be_runs_of_their_own() -> None:
    burst = run(passing(arrivals="gamma:cv=3"), run_id="run-2", seed=2)
    loop = run(*rounds(lambda round: closed(8, round=round)), run_id="run-3", seed=3, host="http://10.0.0.2:8000")
    assert released(whole(), burst, loop).refused_for == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"versions": {"engine": "vLLM", "engine_version": "0.12.0"}},
         "engine: engine_version 0.11.0 against engine_version 0.12.0"),
        ({"model": "other"}, "model: Qwen/Qwen3-8B against other"),
        ({"facts": {**FACTS, "accelerator": "L4"}}, "accelerator: NVIDIA H100 80GB HBM3 against L4"),
        ({"slo": {"ttft": 900.0}}, "slo: ttft=500 against ttft=900"),
        ({"workload": WorkloadFacts(name="faq", kind="representative", source="support log", sha256="cd" * 32)},
         "workload: faq (SHA-256 abababababab) against faq (SHA-256 cdcdcdcdcdcd)"),
        ({"options": {"reset_prefix_cache": True}}, "reset_prefix_cache: not said against yes"),
    ],
)  # fmt: skip
def test_runs_of_another_service_are_refused_with_what_differs(changes: dict[str, Any], said: str) -> None:
    other = run(*rounds(passing), run_id="run-2", **({"seed": 2} | changes))
    assert unmet(released(whole(), other)) == {"one_service": f"the runs differ in {said}"}


def test_two_prices_are_none_until_one_is_given() -> None:
    other = run(*rounds(passing), run_id="run-2", seed=2, summary={"price_per_hour": 7.2})
    assert unmet(released(whole(), other)) == {
        "cost": "not one price in all runs (run-1: 3.6, run-2: 7.2): give the one that holds with --price-per-hour"
    }
    assert released(whole(), other, price_per_hour=7.2).allowed is True


def test_what_is_required_beside_is_asked_of_all_runs_together() -> None:
    assert released(whole(), asked=Requirements(rate_rps=2.0)).allowed is True
    assert unmet(released(whole(), asked=Requirements(rate_rps=3.0))) == {"required": "it was not"}


def test_no_run_and_one_that_was_given_twice_or_sent_nothing_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="a release needs a run"):
        released()
    with pytest.raises(UsageError, match="run run-1 was given twice"):
        released(whole(), whole())
    with pytest.raises(UsageError, match="run run-1 sent nothing"):
        released(run(*rounds(passing), summary={"sent": 0}))


def test_verdicts_are_data() -> None:
    found = released(run(*rounds(passing, 2)))
    assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found
