"""``metrics.md``: what is read of engines, what is served to Prometheus, and the lines of ``--json-lines``."""

from __future__ import annotations

from typing import get_args

from docs.generate.fields import fields_of
from docs.generate.markdown import code, codes, page, section, table, text


def metrics_page() -> str:
    """The three tables of metrics."""
    return page(
        "Metrics",
        "What is read of the server under test, and what is told of a run while it goes on.",
        _read(),
        _served(),
        _lines(),
    )


def _read() -> str:
    from llm_locust.records.server_sample import ServerSample
    from llm_locust.telemetry.metrics.mapping import known_engines, known_mapping
    from llm_locust.telemetry.metrics.names import NAMES

    meanings = {field.name: field.meaning for field in fields_of(ServerSample)}
    meanings["kv_usage"] = "Share of KV-cache blocks in use, 0 to 1, by engine."
    mappings = [known_mapping(engine) for engine in known_engines()]
    names = table(
        ("name", "kind", "several series", "what it is"),
        ((code(name), kind, join, text(meanings.get(name, ""))) for name, (kind, join) in NAMES.items()),
    )
    engines = [
        section(
            f"{mapping.title} ({'verified' if mapping.verified else 'unverified'})",
            f"A page is known by the prefix {codes(mapping.prefixes)}."
            + ("" if mapping.verified else " Not yet held against a page of this engine; reports say so."),
            table(
                ("name", "metric"),
                ((code(name), " else ".join(code(_told(a)) for a in ways)) for name, ways in mapping.figures.items()),
            ),
            level=3,
        )
        for mapping in mappings
    ]
    return section(
        "Read of the server",
        "The master reads the server's metrics page (`--metrics`, `--metrics-interval`) and keeps it in `server.csv` under "
        "names of its own. *Several series*: how those of several engines of one page are put together (`sum`; the largest "
        "of each engine, then their `max`; the largest of all, `most`). An engine of your own: "
        "[how-to](../how-to/own-engine.md).",
        names,
        *engines,
    )


def _told(alternative: object) -> str:
    scale = getattr(alternative, "scale", 1.0)
    return f"{alternative}" if scale == 1.0 else f"{alternative} x {scale:g}"


def _served() -> str:
    from llm_locust.web.exporter.metrics import METRICS

    return section(
        "Served to Prometheus",
        "By the master, with `--prometheus-port 9646`. What was not measured has no sample. Counters never fall while a run "
        "lasts, and begin anew with the next.",
        table(
            ("metric", "kind", "labels", "what it is"),
            ((code(m.full_name), m.kind, codes(m.labels), text(m.help)) for m in METRICS.values()),
        ),
    )


def _lines() -> str:
    from llm_locust.plugin import json_lines

    kinds = get_args(json_lines.AnyLine)
    inner = (json_lines.StageFigures, json_lines.GroupFigures, json_lines.StageResult)
    common = json_lines.Line.__struct_fields__
    events = [
        section(
            f"event {kind.__struct_config__.tag}",
            text(kind.__doc__),
            table(
                ("field", "value", "what it is"),
                ((code(f.name), text(f.kind), text(f.meaning)) for f in fields_of(kind) if f.name not in common),
            ),
            level=3,
        )
        for kind in kinds
    ]
    structs = [
        section(
            kind.__name__,
            text(kind.__doc__),
            table(
                ("field", "value", "what it is"),
                ((code(f.name), text(f.kind), text(f.meaning)) for f in fields_of(kind)),
            ),
            level=3,
        )
        for kind in inner
    ]
    return section(
        "Written by --json-lines",
        f"One JSON object a line; `schema` is `{json_lines.SCHEMA}`. Within a version fields may be added, and none changes "
        "its meaning. Figures are *so far*; the line `judged` says what came of the run. Every line has:",
        table(
            ("field", "value", "what it is"),
            (
                (code("event"), "text", "which line it is"),
                *((code(f.name), text(f.kind), text(f.meaning)) for f in fields_of(json_lines.Line)),
            ),
        ),
        *events,
        *structs,
    )
