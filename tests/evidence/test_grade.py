"""The grade: performance only when nothing is lacking, and what is lacking in words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from llm_locust.analysis.evidence import evidence_record
from llm_locust.analysis.evidence_grade import grade, is_exact
from llm_locust.records.evidence import EvidenceRecord, RecordGenerator
from tests.evidence.by_hand import manifest, performance_record, record_of, stage, summary


def changed(**changes: Any) -> EvidenceRecord:
    return msgspec.structs.replace(performance_record(), **changes)


def test_a_record_that_lacks_nothing_is_performance() -> None:
    record = performance_record()
    assert (record.evidence_grade, record.evidence_grade_reasons) == ("performance", [])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"accelerator": None}, "the device was not inventoried: accelerator not known"),
        ({"accelerator_count": None}, "the device was not inventoried: accelerator_count not known"),
        ({"driver_runtime_host": None}, "the device was not inventoried: driver_runtime_host not known"),
        ({"peak_memory_gb": None}, "the device was not sampled: peak_memory_gb not measured"),
        (
            {"running_peak": None, "waiting_peak": None},
            "the engine's metrics were not read: running_peak, waiting_peak not measured",
        ),
        ({"kv_cache_peak_pct": None}, "the engine's metrics were not read: kv_cache_peak_pct not measured"),
        ({"engine_version": None}, "engine_version not known"),
        ({"engine": None, "engine_version": None}, "engine, engine_version not known"),
        ({"engine_version": "latest"}, "the engine's version 'latest' is not exact"),
        ({"rounds": 2}, "2 valid rounds of this test point, not 3"),
        ({"successful_requests": 98}, "98 of 100 requests succeeded, fewer than 99 %"),
        ({"measured_requests": 0, "successful_requests": 0}, "no request was measured"),
        ({"success_threshold": 0.9}, "its success threshold is 0.9, not 0.99"),
        (
            {"output_tokens_sources": {"usage": 99, "events": 1}},
            "output tokens were not all counted by the server's usage report",
        ),
        ({"output_tokens_sources": {}}, "output tokens were not all counted by the server's usage report"),
        ({"generator": RecordGenerator(valid=False, reasons=["late"])}, "the load generator was not shown to be valid"),
    ],
)
def test_whatever_is_lacking_makes_it_partial_and_is_named(changes: dict[str, Any], reason: str) -> None:
    assert grade(changed(**changes)) == ("partial", [reason])


def test_99_of_100_is_enough() -> None:
    assert grade(changed(successful_requests=99)) == ("performance", [])


def test_a_server_without_accelerators_is_inventoried_by_its_cpu_and_memory() -> None:
    on_cpu = {"accelerator": None, "accelerator_count": 0, "available_memory_gb": None}
    assert grade(changed(**on_cpu)) == ("partial", ["the device was not inventoried: cpu, ram_gb not known"])
    assert grade(changed(**on_cpu, cpu="AMD EPYC 9454", ram_gb=768.0)) == ("performance", [])


def test_the_simulator_is_protocol_only_though_it_lacks_nothing_else() -> None:
    assert grade(changed(synthetic_engine=True)) == ("protocol-only", ["the engine is synthetic"])


def test_a_bare_run_names_all_that_it_lacks() -> None:
    assert record_of(stage()).evidence_grade_reasons == [
        "the device was not inventoried: accelerator, accelerator_count, available_memory_gb, driver_runtime_host "
        "not known",
        "the device was not sampled: peak_memory_gb, memory_tool, memory_scope, memory_kind not measured",
        "the engine's metrics were not read: running_peak, waiting_peak, kv_cache_peak_pct not measured",
        "1 valid round of this test point, not 3",
        "90 of 100 requests succeeded, fewer than 99 %",
    ]


def test_a_run_on_the_simulator_is_graded_so() -> None:
    one = stage()
    assert evidence_record(manifest(synthetic_engine=True), summary(one), one).evidence_grade == "protocol-only"


@pytest.mark.parametrize("version", ["0.11.0", "b6789-1a2b3c4", "0.5.4.post1", "0.11.1.dev12+g1a2b3c4", "v0.9"])
def test_a_version_that_names_one_build_is_exact(version: str) -> None:
    assert is_exact(version)


@pytest.mark.parametrize("version", ["latest", "0.11.x", "v0.11.*", ">=0.11", "1-nightly", "0.11-dev", "unknown"])
def test_a_version_that_moves_is_not_exact(version: str) -> None:
    assert not is_exact(version)
