"""The JSON Schema that ships is the contract's, and the contract has every field that a record needs."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from llm_locust.records.evidence import FIELD_TYPES, EvidenceRecord, StageTelemetry
from llm_locust.records.evidence_schema import SCHEMA_PATH, schema_text
from llm_locust.records.manifest import SCHEMA_VERSION
from tests.evidence.by_hand import document

FIELDS = {
    # identity
    "schema_version", "test_id", "run_id", "tested_at", "evidence_stage", "environment", "engine", "engine_version",
    "image_digest", "model_id", "model_revision", "weights_sha256", "quantization_dtype", "kv_cache_dtype",
    "tokenizer_revision", "chat_template_sha256", "accelerator", "accelerator_count", "interconnect", "parallelism",
    "available_memory_gb", "gpu_residency", "driver_runtime_host", "cuda", "cpu", "ram_gb", "numa", "power_limit_w",
    "replicas", "server_admission_cap", "prefix_caching", "batching_limits",
    # workload
    "workload_name", "workload_kind", "dataset_source", "workload_sha256", "slices", "arrival_mode", "streaming",
    "request_rate_rps", "achieved_rate_rps", "concurrency", "max_in_flight", "max_active_sequences",
    "context_limit_tokens", "input_tokens_p50", "input_tokens_p95", "input_tokens_p99", "input_tokens_max",
    "output_tokens_p50", "output_tokens_p95", "output_tokens_p99", "output_tokens_max", "shared_prefix_share",
    "cold_share", "cache_state", "sampling", "success_criterion", "quality_precondition", "warmup_requests",
    "measured_requests", "test_minutes", "seconds_method", "deadline_s", "drain_policy", "percentile_method",
    # results
    "planned", "dispatched", "sent", "not_sent", "successful_requests", "failed_requests", "outcomes",
    "status_counts", "quality_failures", "request_throughput_rps", "output_throughput_tps", "total_throughput_tps",
    "ttft_p50_ms", "ttft_p95_ms", "ttft_p99_ms", "tpot_p50_ms", "tpot_p95_ms", "tpot_p99_ms", "e2e_p50_ms",
    "e2e_p95_ms", "e2e_p99_ms", "itl_p95_ms", "max_gap_p95_ms", "arrival_ttft_p95_ms", "arrival_e2e_p95_ms",
    "dispatch_lag_p99_ms", "cap_wait_p95_ms", "client_wait_p95_ms", "queue_time_p95_ms", "running_peak",
    "running_trend", "waiting_peak", "waiting_trend", "kv_cache_peak_pct", "kv_cache_size_tokens",
    "kv_cache_max_concurrency", "prefix_cache_hit_rate", "startup_peak_memory_gb", "peak_memory_gb", "memory_tool",
    "memory_scope", "memory_kind", "preemptions", "evictions", "offload",
    # goodput
    "slo", "good_requests", "goodput_rps", "attainment", "error_rate", "completed_in_window_rps", "goodput_vllm_rps",
    "seconds", "drain_seconds", "in_flight_at_window_end",
    # verdict
    "gates", "gates_set", "result", "failing_dimensions", "generator", "evidence_grade", "evidence_location",
    "limitations", "owner", "retest_when",
}  # fmt: skip
"""The fields of schema 1.1."""

ADDED = {
    "stage", "round", "synthetic_engine", "arrival_process", "output_tokens_sources", "attempted", "lost",
    "goodput_unavailable", "server_changes", "result_strength", "verdict", "rounds", "success_threshold",
    "evidence_grade_reasons",
}  # fmt: skip
"""What the sums, the grade and the verdict of a record need beside them."""


def schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(SCHEMA_PATH.read_bytes())
    return found


def test_the_contract_has_every_field() -> None:
    assert set(FIELD_TYPES) == FIELDS | ADDED


def test_the_schema_that_ships_is_made_of_the_contract() -> None:
    # python -m llm_locust.records.evidence_schema writes it anew.
    assert SCHEMA_PATH.read_text(encoding="utf-8") == schema_text()


def test_in_a_file_every_field_stands_and_no_other() -> None:
    for definition in (schema(), schema()["$defs"]["RecordGate"], schema()["$defs"]["RecordGenerator"]):
        assert definition["required"] == list(definition["properties"])
        assert definition["additionalProperties"] is False
    assert list(schema()["properties"]) == list(FIELD_TYPES) == list(document())


@pytest.mark.parametrize("field", list(FIELD_TYPES))
def test_every_field_says_what_it_is(field: str) -> None:
    assert len(schema()["properties"][field]["description"]) > 5


def test_a_field_of_the_schema_has_the_types_and_ranges_of_the_contract() -> None:
    fields = schema()["properties"]
    assert fields["schema_version"]["enum"] == [SCHEMA_VERSION]
    assert fields["ttft_p95_ms"]["anyOf"] == [
        {"type": "number", "exclusiveMinimum": 0},
        {"enum": ["inf"]},
        {"type": "null"},
    ]
    assert fields["attainment"]["anyOf"] == [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "null"}]
    assert fields["evidence_grade"]["enum"] == ["partial", "performance", "protocol-only", "transcribed"]


def test_what_telemetry_reads_are_fields_of_the_record() -> None:
    assert set(StageTelemetry.__struct_fields__) < set(EvidenceRecord.__struct_fields__)


def test_a_record_survives_its_file() -> None:
    raw = msgspec.json.encode(document())
    assert msgspec.json.encode(msgspec.json.decode(raw, type=EvidenceRecord)) == raw
