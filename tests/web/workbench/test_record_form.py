"""The evidence record as a form: every field, read back as it was written, held to the rules of ``llm-locust validate``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_locust.analysis.evidence_rules import violations
from llm_locust.records.evidence import FIELD_TYPES, FIXED_LIMITATIONS
from llm_locust.web.workbench.desk import answer
from llm_locust.web.workbench.forms import FIELDS, FIXED, GROUPS, Kind, text_of, value_of
from tests.evidence.by_hand import SEEN, document, record_of, stage
from tests.web.workbench.asking import COMMA, refused, told, unit

NAMED = {"test_id": "paper-1", "tested_at": "2026-11-30"}


def test_every_field_of_the_record_stands_in_the_form_or_is_fixed() -> None:
    assert [*FIXED, *FIELDS] == sorted(FIELD_TYPES, key=[*FIXED, *FIELDS].index)
    assert [group.name for group in GROUPS] == ["Identity", "Workload", "Results", "Goodput", "Verdict"]


@pytest.mark.parametrize("written", [document(), document(record_of(stage(**SEEN)))])
def test_a_record_typed_as_it_stands_is_that_record_but_transcribed(written: dict[str, Any]) -> None:
    texts = {name: text_of(field, written[name]) for name, field in FIELDS.items()}
    found = json.loads(told("record", **texts)["text"])
    assert found == written | FIXED


def test_a_blank_form_with_a_name_is_a_record_of_nulls_graded_transcribed() -> None:
    found = told("record", **NAMED)
    record = json.loads(found["text"])
    assert violations(record) == []
    assert (record["evidence_grade"], record["limitations"]) == ("transcribed", list(FIXED_LIMITATIONS))
    assert {name for name, value in record.items() if value not in (None, [], {})} == {
        "schema_version", "test_id", "tested_at", "synthetic_engine", "success_threshold", "evidence_grade",
        "evidence_grade_reasons", "limitations",
    }  # fmt: skip
    assert found["file"] == "paper-1.json"


def test_0_is_0_and_blank_is_null() -> None:
    record = json.loads(told("record", **NAMED, preemptions="0", evictions="", accelerator_count="0")["text"])
    assert (record["preemptions"], record["evictions"], record["accelerator_count"]) == (0, None, 0)


def test_a_grade_cannot_be_typed() -> None:
    assert refused("record", **NAMED, evidence_grade="performance") == {"evidence_grade": "there is no such field"}


@pytest.mark.parametrize(
    ("fields", "messages"),
    [
        ({"ttft_p95_ms": "1,5"}, {"ttft_p95_ms": f"'1,5' {COMMA}"}),
        ({"ram_gb": "64 GB"}, {"ram_gb": unit("64 GB", "64")}),
        ({"ttft_p95_ms": "0"}, {"ttft_p95_ms": "it cannot be 0: leave it blank for what was not measured"}),
        ({"prefix_caching": "maybe"}, {"prefix_caching": "write yes or no, or leave it blank"}),
        ({"measured_requests": "1.5"}, {"measured_requests": "'1.5' is not a whole number"}),
        ({"attainment": "1.5", "slo": "ttft=500"}, {"attainment": "expected float <= 1.0"}),
        ({"arrival_mode": "ajar"}, {"arrival_mode": '"open", "closed"'}),
        ({"outcomes": "ok"}, {"outcomes": "'ok': write each name once as name=count, for example ok=90, rejected=10"}),
        ({"slo": "ttft=fast"}, {"slo": "'ttft=fast': the limit is a bare number of milliseconds, without a unit"}),
        ({"gates": "["}, {"gates": "not JSON: Input data was truncated"}),
        ({"weights_sha256": "abc"}, {"weights_sha256": "expected str matching regex '^[0-9a-f]{64}$'"}),
        ({"tested_at": "yesterday"}, {"tested_at": "expected str matching regex"}),
        ({"environment": "for 500 users"}, {"environment": "no figure is a number of users, but this says '500 users'"}),
        (
            {"measured_requests": "100", "successful_requests": "90", "failed_requests": "5"},
            {"measured_requests": "but successful_requests 90 + failed_requests 5 = 95"},
        ),
        ({"ttft_p50_ms": "200", "ttft_p95_ms": "100"}, {"ttft_p50_ms": "ttft_p50_ms <= ttft_p95_ms, which is 100"}),
        ({"goodput_rps": "1"}, {"goodput_rps": "blank when no limit was chosen: there is no good then"}),
        (
            {"peak_memory_gb": "10"},
            dict.fromkeys(("memory_tool", "memory_scope", "memory_kind"), "not blank when peak_memory_gb is known"),
        ),
    ],
)  # fmt: skip
def test_what_breaks_a_rule_is_named_by_field(fields: dict[str, str], messages: dict[str, str]) -> None:
    found = refused("record", **(NAMED | fields))
    assert list(found) == list(messages)
    assert all(message in found[name] for name, message in messages.items())


def test_what_no_record_is_without_is_asked_for() -> None:
    assert refused("record") == dict.fromkeys(("test_id", "tested_at"), "it cannot be blank: no record is without it")


def test_a_typed_text_is_one_inert_line() -> None:
    record = json.loads(told("record", **NAMED, owner="<script>\n\x1b]0;x\x07\u202e")["text"])
    assert record["owner"] == "<script> ]0;x"


def test_the_name_of_the_file_is_a_file_name() -> None:
    assert told("record", **(NAMED | {"test_id": "../../etc/passwd x"}))["file"] == "etc-passwd-x.json"


@pytest.mark.parametrize("typed", ["x", "-1", "9e99", True, [], {}, [[1]], {"a": {"b": 1}}, 1e300, "{}", "[1]", "\x00"])
def test_nothing_that_is_posted_breaks_a_field(typed: Any) -> None:
    for name in FIELDS:
        status, body = answer("record", None, json.dumps(NAMED | {name: typed}).encode())
        assert status in (200, 400), (name, body)


def test_a_form_reads_every_kind_back() -> None:
    kinds = {field.kind: field for field in FIELDS.values()}
    values: dict[Kind, Any] = {
        "texts": ["a", "b"], "counts": {"ok": 3}, "limits": {"ttft": 500.0}, "figure": "inf", "yes-no": True,
    }  # fmt: skip
    for kind, value in values.items():
        assert value_of(kinds[kind], text_of(kinds[kind], value)) == value
    assert [value_of(FIELDS[name], "none") for name in ("slices", "outcomes")] == [[], {}]
