"""A record typed in by hand: its fields as a document, held to the rules of ``llm-locust validate``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from llm_locust.analysis.evidence_rules import violations
from llm_locust.records.evidence import FIELD_TYPES, FIXED_LIMITATIONS
from llm_locust.records.text import one_line
from llm_locust.web.workbench.forms import FIELDS, FIXED, NOT_NULL, REQUIRED, value_of
from llm_locust.web.workbench.typed import Fields

_LONGEST_MESSAGE = 600


def check_record(typed: Mapping[str, Any]) -> dict[str, Any]:
    """The record that the fields make, as a file.

    Raises:
        Refused: a field cannot be read, or a rule between fields does not hold; every field that is wrong is named.
    """
    document = record_document(typed)
    return {
        "grade": document["evidence_grade"],
        "filled": sum(value not in (None, [], {}) for value in document.values()),
        "fields": len(document),
        "file": f"{_file_name(document['test_id'])}.json",
        "text": msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n",
    }


def record_document(typed: Mapping[str, Any]) -> dict[str, Any]:
    """The record as it stands in a file; see :func:`check_record`."""
    fields = Fields(typed, tuple(FIELDS))
    document: dict[str, Any] = dict.fromkeys(FIELD_TYPES)
    for name, field in FIELDS.items():
        value = fields.read(name, partial(value_of, field))
        document[name] = NOT_NULL.get(name) if value is None else value
    for name in REQUIRED:
        if document[name] is None:
            fields.refuse(name, "it cannot be blank: no record is without it")
    document |= FIXED
    stated = document["limitations"] or []
    document["limitations"] = [*FIXED_LIMITATIONS, *(said for said in stated if said not in FIXED_LIMITATIONS)]
    fields.check()
    found: dict[str, list[str]] = {}
    for violation in violations(document):
        root = re.split(r"[.\[]", violation.field, maxsplit=1)[0]
        told = violation.rule if root == violation.field else f"{violation.field}: {violation.rule}"
        found.setdefault(root if root in FIELDS else "record", []).append(told)
    for name, rules in found.items():
        fields.refuse(name, one_line(_for_a_form("; ".join(rules)), _LONGEST_MESSAGE))
    fields.check()
    return document


def _for_a_form(rule: str) -> str:
    """A rule in the words of a form, where null is a field that is left blank."""
    return re.sub(r"\bnull\b", "blank", rule.replace("write null", "leave it blank"))


def _file_name(test_id: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", test_id).strip("-.")[:80] or "record"
