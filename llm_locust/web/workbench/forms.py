"""The fields of an evidence record as a form: group, label, unit, hint and kind of each, out of the record's own types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from llm_locust.records import SCHEMA_VERSION, UsageError, format_slo, parse_slo
from llm_locust.records.evidence import FIELD_TYPES, EvidenceRecord
from llm_locust.records.facts import FACT_NAMES
from llm_locust.records.text import one_line
from llm_locust.web.workbench import typed as typing_

Kind = Literal["text", "whole", "number", "figure", "choice", "yes-no", "texts", "counts", "limits", "json"]

NONE = "none"

GRADE = "transcribed"
"""Of every record that was typed in."""

FIXED: Mapping[str, Any] = {
    "schema_version": SCHEMA_VERSION,
    "evidence_grade": GRADE,
    "evidence_grade_reasons": ["the figures were typed in by hand"],
}
"""What nobody types."""

REQUIRED = ("test_id", "tested_at")
NOT_NULL: Mapping[str, Any] = {
    field.name: field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    for field in msgspec.structs.fields(EvidenceRecord)
    if field.name not in (*FIXED, *REQUIRED) and (field.default is not None)
}
"""Fields that cannot be null, with what they hold when they are left blank."""

_FIRST_OF_GROUP = {
    "schema_version": "Identity",
    "workload_name": "Workload",
    "planned": "Results",
    "slo": "Goodput",
    "gates": "Verdict",
}
_UNITS = (
    ("_rps", "req/s"), ("_tps", "tokens/s"), ("_ms", "ms"), ("_gb", "GB"), ("_pct", "%"), ("_w", "W"), ("_s", "s"),
)  # fmt: skip
_SHORT = {
    word.lower(): word
    for word in ("TTFT", "TPOT", "ITL", "E2E", "KV", "GPU", "CPU", "RAM", "NUMA", "CUDA", "P50", "P95", "P99", "ID", "SLO")
} | {"sha256": "SHA-256", "vllm": "vLLM"}  # fmt: skip
_HOW: Mapping[Kind, str] = {
    "texts": "One on each line.",
    "counts": "For example ok=90, rejected=10.",
    "limits": "For example ttft=500, tpot=100, quality.",
    "json": "As JSON.",
    "figure": "inf: it falls among the failures.",
}


class Field(NamedTuple):
    """One field of the form."""

    name: str
    label: str
    unit: str
    hint: str
    kind: Kind
    choices: tuple[str, ...]
    is_fact: bool
    required: bool
    can_be_none: bool
    """It may be known that there are none, which is not the same as not known; :data:`NONE` is typed then."""


class Group(NamedTuple):
    """Fields that belong together."""

    name: str
    fields: list[Field]


def kind_of(of: Any) -> tuple[Kind, tuple[str, ...]]:
    """What is typed into a field of this type, and the words it may hold if they are few."""
    leaves = list(_leaves(of))
    words = tuple(word for leaf in leaves if get_origin(leaf) is Literal for word in get_args(leaf))
    simple = {leaf for leaf in leaves if isinstance(leaf, type)}
    if bool in simple:
        return "yes-no", ("yes", "no")
    if float in simple:
        return ("figure" if words else "number"), ()
    if int in simple:
        return "whole", ()
    if words:
        return "choice", words
    if str in simple:
        return "text", ()
    for leaf in leaves:
        inner = get_args(leaf)
        if get_origin(leaf) is list and set(_leaves(inner[0])) == {str}:
            return "texts", ()
        if get_origin(leaf) is dict and set(_leaves(inner[1])) == {int}:
            return "counts", ()
        if get_origin(leaf) is dict:
            return "limits", ()
    return "json", ()


def _leaves(of: Any) -> Iterator[Any]:
    origin = get_origin(of)
    if origin is Annotated:
        yield from _leaves(get_args(of)[0])
    elif origin in (Union, UnionType):
        for part in get_args(of):
            yield from _leaves(part)
    elif of is not type(None):
        yield of


def _field(name: str, of: Any) -> Field:
    kind, choices = kind_of(of)
    words, unit = name, ""
    for ending, written in _UNITS:
        if name.endswith(ending):
            words, unit = name.removesuffix(ending), written
            break
    label = " ".join(_SHORT.get(word, word) for word in words.split("_")) or name
    told = next((str(meta.description) for meta in getattr(of, "__metadata__", ()) if meta.description), "")
    told = re.sub(r"\bnull\b", "blank", told)  # which in a form it is
    can_be_none = kind in ("texts", "counts") and name not in NOT_NULL
    how = f"{_HOW.get(kind, '')}{' none: there are none.' if can_be_none else ''}"
    hint = " ".join(part for part in (f"{told[:1].upper()}{told[1:]}." if told else "", how) if part)
    return Field(
        name=name,
        label=label[:1].upper() + label[1:],
        unit=unit,
        hint=hint,
        kind=kind,
        choices=choices,
        is_fact=name in FACT_NAMES,
        required=name in REQUIRED,
        can_be_none=can_be_none,
    )


def _groups() -> list[Group]:
    found: list[Group] = []
    for name, of in FIELD_TYPES.items():
        if name in _FIRST_OF_GROUP:
            found.append(Group(_FIRST_OF_GROUP[name], []))
        if name not in FIXED:
            found[-1].fields.append(_field(name, of))
    return found


GROUPS: list[Group] = _groups()
FIELDS: Mapping[str, Field] = {field.name: field for group in GROUPS for field in group.fields}


def value_of(field: Field, typed: Any) -> Any:
    """What was typed into a field, as the record holds it.

    Raises:
        UsageError: it cannot be that.
    """
    if field.can_be_none and isinstance(typed, str) and typed.strip() == NONE:
        return [] if field.kind == "texts" else {}
    match field.kind:
        case "whole":
            return typing_.whole(typed)
        case "number":
            return typing_.number(typed)
        case "figure":
            return "inf" if isinstance(typed, str) and typed.strip().lower() == "inf" else typing_.number(typed)
        case "yes-no":
            return _yes_no(typed)
        case "texts":
            return _texts(typed)
        case "counts":
            return _counts(typed)
        case "limits":
            return _limits(typed)
        case "json":
            return _json(typed)
    return typing_.text(typed)


def text_of(field: Field, value: Any) -> str:
    """A value of the record as it would be typed; :func:`value_of` reads it back."""
    if value is None:
        return ""
    if field.can_be_none and not value:
        return NONE
    match field.kind:
        case "yes-no":
            return "yes" if value else "no"
        case "texts":
            return "\n".join(value)
        case "counts":
            return ", ".join(f"{name}={count}" for name, count in value.items())
        case "limits":
            return format_slo(value).replace(",", ", ")
        case "json":
            return json.dumps(value, ensure_ascii=False) if value else ""
        case "whole" | "number" | "figure":
            return value if isinstance(value, str) else repr(value).removesuffix(".0")
    return str(value)


def _yes_no(typed: Any) -> bool:
    word = {True: "yes", False: "no"}.get(typed, typed) if isinstance(typed, bool) else typed
    if not isinstance(word, str) or word.strip().lower() not in ("yes", "no"):
        raise UsageError("write yes or no, or leave it blank")
    return word.strip().lower() == "yes"


def _texts(typed: Any) -> list[str]:
    lines = typed.splitlines() if isinstance(typed, str) else typed
    if not isinstance(lines, list):
        raise UsageError("write one text on each line")
    return [typing_.text(line) for line in lines if not typing_.is_blank(line)]


def _counts(typed: Any) -> dict[str, int]:
    if isinstance(typed, dict):
        return {one_line(str(name)): typing_.whole(count) for name, count in typed.items()}
    found: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in typing_.text(typed).split(","))):
        name, equals, count = (piece.strip() for piece in part.partition("="))
        if not name or not equals or name in found:
            raise UsageError(
                f"{one_line(part, 60)!r}: write each name once as name=count, for example ok=90, rejected=10"
            )
        found[name] = typing_.whole(count)
    return found


def _limits(typed: Any) -> dict[str, float]:
    if isinstance(typed, dict):
        return {one_line(str(name)): float(typing_.number(limit)) for name, limit in typed.items()}
    try:
        return parse_slo(typing_.text(typed))
    except UsageError as error:
        raise UsageError(str(error).removeprefix("--slo ").replace("for example --slo ", "for example ")) from None


def _json(typed: Any) -> Any:
    if not isinstance(typed, str):
        return typed
    try:
        return msgspec.json.decode(typed)
    except msgspec.DecodeError as error:
        raise UsageError(f"not JSON: {error}") from None
