"""``record.md`` and ``summary.md``: the evidence record, and the machine form of the report."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from docs.generate.fields import fields_of, inner
from docs.generate.markdown import code, page, section, table, text


def record_page() -> str:
    """Every field of the evidence record, out of its JSON Schema."""
    from llm_locust.records.evidence import FIXED_LIMITATIONS
    from llm_locust.records.evidence_schema import evidence_schema

    schema = evidence_schema()
    return page(
        "Evidence record, schema 1.1",
        f"{text(schema['description'])} One file per stage and round, `records/*.json` of a run folder; "
        "`llm-locust validate` checks them, and their JSON Schema is `llm_locust/records/evidence.schema.json`. Every field "
        "stands in a file, so that what is not known can be seen.",
        _properties(schema),
        *(
            section(name, text(inner.get("description")), _properties(inner))
            for name, inner in schema["$defs"].items()
            if inner.get("properties")
        ),
        section("What every record says of itself", "\n".join(f"* {limit}" for limit in FIXED_LIMITATIONS)),
    )


def _properties(schema: dict[str, Any]) -> str:
    rows = ((code(name), text(_form(of)), text(_description(of))) for name, of in schema["properties"].items())
    return table(("field", "value", "what it is"), rows)


def _description(of: dict[str, Any]) -> str:
    return str(
        of.get("description")
        or next((part["description"] for part in of.get("anyOf", ()) if "description" in part), "")
    )


def _form(of: dict[str, Any]) -> str:
    """The values that a schema allows, in a few words."""
    if "anyOf" in of:
        return " or ".join(dict.fromkeys(map(_form, of["anyOf"])))
    if "$ref" in of:
        return str(of["$ref"]).rpartition("/")[2]
    if "enum" in of or "const" in of:
        return " or ".join(json.dumps(value) for value in of.get("enum", [of.get("const")]))
    kind = of.get("type")
    if kind == "array":
        return f"list of {_form(of.get('items', {}))}"
    if kind == "object":
        return "object"
    words = {"string": "text", "null": "null", "boolean": "true or false", "integer": "integer", "number": "number"}
    said = words.get(str(kind), "any value")
    bounds = [
        f"{word} {of[key]:g}"
        for key, word in (("exclusiveMinimum", "above"), ("minimum", "from"), ("maximum", "to"))
        if key in of
    ]
    return " ".join([said, *bounds])


def summary_page() -> str:
    """Every field of ``summary.json``."""
    from llm_locust.records import device_figures as device
    from llm_locust.records import diagnosis, figures, server_figures, stage_summary, summary

    parts: list[tuple[str, str, type[msgspec.Struct]]] = [
        ("The run", "", summary.RunSummary),
        ("reconciliation", "", summary.Reconciliation),
        ("points[]", "", summary.PointSummary),
        ("boundary", "", summary.Boundary),
        ("knee", "", summary.Knee),
        ("requirements[]", "", summary.Requirement),
        ("agreement", "", summary.Agreement),
        ("stages[]", "", stage_summary.StageSummary),
        ("stages[].slices[]", "", stage_summary.SliceSummary),
        ("stages[].verdict", "", stage_summary.StageVerdict),
        ("stages[].verdict.gates[]", "", stage_summary.Gate),
        ("stages[].generator", "", stage_summary.GeneratorHealth),
        ("stages[].server", "", server_figures.ServerFigures),
        ("stages[].device", "", device.DeviceFigures),
        ("stages[].spans[]", "", figures.Span),
        ("stages[].drift[]", "", figures.Drift),
        ("percentiles", "", figures.Percentile),
        ("intervals", "", figures.Interval),
        ("findings[]", "", diagnosis.Finding),
    ]
    listed = {contract for _, _, contract in parts}
    parts += [(kind.__name__, "", kind) for kind in inner(summary.RunSummary) if kind not in listed]
    return page(
        "Fields of summary.json",
        "The machine form of the report. `null` means not measured or not applicable, never 0; an infinite percentile is "
        '`"inf"`; shares run from 0 to 1.',
        *(
            section(
                title,
                text((contract.__doc__ or "").strip()),
                table(
                    ("field", "value", "what it is"),
                    ((code(f.name), text(f.kind), text(f.meaning)) for f in fields_of(contract)),
                ),
            )
            for title, _, contract in parts
        ),
    )
