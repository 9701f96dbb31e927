"""The JSON Schema of the envelope of a release, for other people's tools; it ships as ``envelope.schema.json``.

Write the file anew after a change of the contract::

    python -m llm_locust.records.envelope_schema
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from llm_locust.records.envelope import ENVELOPE_VERSION, SERVICE_FIELDS, WORKLOAD_FIELDS, Envelope
from llm_locust.records.evidence_schema import evidence_schema, file_schema

SCHEMA_PATH = Path(__file__).with_name("envelope.schema.json")


def envelope_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of an envelope; service and workload are held to the fields of the evidence record."""
    schema = file_schema(
        Envelope,
        f"Envelope of a release, version {ENVELOPE_VERSION}",
        "What may be published of one service. null: not measured, not known or not applicable, never 0. Units are in the "
        'names; shares run from 0 to 1; an infinite percentile is "inf".',
    )
    record = evidence_schema()["properties"]
    for name, fields in (("service", SERVICE_FIELDS), ("workload", WORKLOAD_FIELDS)):
        described = schema["properties"][name]
        schema["properties"][name] = {"description": described["description"], **_copied(record, fields)}
    return schema


def _copied(record: dict[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """An object of these fields of the evidence record, each as it is there."""
    return {
        "type": "object",
        "properties": {field: record[field] for field in fields},
        "required": list(fields),
        "additionalProperties": False,
    }


def schema_text() -> str:
    """The schema as it stands in the file."""
    return msgspec.json.format(msgspec.json.encode(envelope_schema()), indent=2).decode() + "\n"


if __name__ == "__main__":
    SCHEMA_PATH.write_text(schema_text(), encoding="utf-8")
