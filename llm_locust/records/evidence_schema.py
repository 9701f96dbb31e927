"""The JSON Schema of the evidence record, and what in a document is not of its form.

The schema ships as ``evidence.schema.json`` for other people's tools. Here the typed contract itself is asked, field by
field, so that every mistake of a document is named and not only the first. Write the file anew after a change of the
contract::

    python -m llm_locust.records.evidence_schema
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from llm_locust.records.evidence import FIELD_TYPES, EvidenceRecord

SCHEMA_PATH = Path(__file__).with_name("evidence.schema.json")


class Violation(NamedTuple):
    """One thing that is wrong with a record."""

    field: str
    value: object
    rule: str
    """What holds of every record and does not hold of this one."""


def evidence_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a record in a file, where every field stands."""
    return file_schema(
        EvidenceRecord,
        "Evidence record, schema 1.1",
        "One test point as evidence. null: not measured, not known or not applicable, never 0. Units are "
        'in the names; shares run from 0 to 1; an infinite percentile is "inf".',
    )


def file_schema(kind: type[msgspec.Struct], title: str, description: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a contract as it stands in a file, where no field is left out."""
    schema = msgspec.json.schema(kind)
    for definition in schema["$defs"].values():
        # A default is for who writes Python; in a file a field that is left out could be a field that was forgotten.
        definition["required"] = list(definition["properties"])
        for described in definition["properties"].values():
            described.pop("default", None)
    whole = schema["$defs"].pop(kind.__name__)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **{key: value for key, value in whole.items() if key != "title"},
        "description": description,
        "$defs": schema["$defs"],
    }


def schema_text() -> str:
    """The schema as it stands in the file."""
    return msgspec.json.format(msgspec.json.encode(evidence_schema()), indent=2).decode() + "\n"


def form_violations(document: Mapping[str, object]) -> Iterator[Violation]:
    """What in a JSON object is not of the form of a record: fields missing or unknown, values of another type or range."""
    for name, value in document.items():
        if name not in FIELD_TYPES:
            near = difflib.get_close_matches(name, FIELD_TYPES, n=1)
            yield Violation(name, value, "no field of schema 1.1" + (f": {near[0]} is" if near else ""))
    for name, kind in FIELD_TYPES.items():
        if name not in document:
            yield Violation(name, msgspec.UNSET, "every field stands in a record: write null for what was not measured")
            continue
        try:
            msgspec.convert(integral(document[name]), kind)
        except msgspec.ValidationError as error:
            yield Violation(name, document[name], _told(error, document[name], kind))


def integral(value: Any) -> Any:
    """A decoded JSON value with ``100.0`` as ``100``: to JSON Schema both are the integer."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {key: integral(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [integral(inner) for inner in value]
    return value


def _told(error: msgspec.ValidationError, value: object, kind: object) -> str:
    told = str(error).replace("`", "")
    if value == 0 and not isinstance(value, bool) and ("> 0" in told or ">= 1" in told):
        return "it cannot be 0: write null for what was not measured"
    if told.startswith("Invalid enum value") and (choices := list(_choices(kind))):
        return f"one of {', '.join(choices)}"
    return told[:1].lower() + told[1:]


def _choices(kind: object) -> Iterator[str]:
    """What a field may hold, where it is one of a few words, perhaps beside numbers and null."""
    if get_origin(kind) is Literal:
        yield from (f'"{word}"' for word in get_args(kind))
    elif get_origin(kind) in (Annotated, Union, UnionType):
        for part in get_args(kind):
            yield from _choices(part)
    elif kind in (int, float):
        yield "a number"
    elif kind is type(None):
        yield "null"


if __name__ == "__main__":
    SCHEMA_PATH.write_text(schema_text(), encoding="utf-8")
