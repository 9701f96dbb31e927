"""``matrix.json``, ``matrix.csv`` and ``matrix.md``: the rows for machines, for a spreadsheet and for reading."""

from __future__ import annotations

from pathlib import Path

import msgspec

from llm_locust.analysis.judgement import SYNTHETIC
from llm_locust.analysis.words import number, percent
from llm_locust.matrix.commands import shell
from llm_locust.matrix.config import SMOKE
from llm_locust.matrix.plan_files import write_text
from llm_locust.matrix.results import FIGURES, PEAKS, Results, Row
from llm_locust.records.evidence import FIXED_LIMITATIONS
from llm_locust.report.csv_cells import Cell, csv_text
from llm_locust.report.inert import LONGEST_SENTENCE, escape
from llm_locust.report.markdown_pieces import bullets, table

JSON, CSV, MARKDOWN = "matrix.json", "matrix.csv", "matrix.md"

_PLAIN = (
    "scenario", "variant", "prompts", "concurrency", "status", "reason", "result", "protocol_ok", "evidence_grade", "rounds",
    "engine", "engine_version", "workload_sha256", "measured", "successful", "failed", "error_rate", "seconds",
    "request_throughput_rps", "output_throughput_tps", "total_throughput_tps", "good_requests", "goodput_rps", "attainment",
)  # fmt: skip
_TELEMETRY = (*PEAKS, "preemptions", "prefix_cache_hit_rate", "run")


def write_results(results: Results, folder: Path) -> list[Path]:
    """Write the three files, each atomically; returns their paths."""
    texts = {
        JSON: msgspec.json.format(msgspec.json.encode(results), indent=2).decode() + "\n",
        CSV: results_csv(results),
        MARKDOWN: results_markdown(results),
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    return [folder / name for name in texts]


def results_csv(results: Results) -> str:
    """A header and a line per scenario; an empty cell was not measured."""
    header = [*_PLAIN, *FIGURES, *_TELEMETRY, "grade_reasons"]
    lines: list[list[Cell]] = [list(header)]
    for row in results.rows:
        cells: list[Cell] = [getattr(row, name) for name in _PLAIN]
        cells += [row.figures.get(name) for name in FIGURES]
        cells += [getattr(row, name) for name in _TELEMETRY]
        lines.append([*cells, "; ".join(row.grade_reasons) or None])
    return csv_text(lines)


def results_markdown(results: Results) -> str:
    """What came of it, in tables."""
    smoke = results.mode == SMOKE
    blocks = [f"# Matrix {escape(results.name)}"]
    if smoke:
        blocks.append(f"> **{SYNTHETIC}** A test of the protocol: `protocol-only`, whatever the figures.")
    blocks.append(_in_a_sentence(results))
    if results.notes:
        blocks.append(bullets(escape(note, LONGEST_SENTENCE) for note in results.notes))
    blocks += ["## Scenarios", _scenarios(results, smoke=smoke)]
    measured = [row for row in results.rows if row.status == "measured"]
    if measured:
        blocks += ["## Server", _server(measured)]
    if reasons := _grades(measured):
        blocks += ["## What the grades lack", bullets(reasons)]
    if missing := _not_run(results.rows):
        blocks += ["## Not run", bullets(missing)]
    if digests := _digests(measured):
        blocks += ["## What was sent", bullets(digests)]
    if results.comparisons:
        commands = "\n".join(map(shell, results.comparisons))
        blocks += [
            "## Comparing",
            "Differences with their confidence intervals, for settings that differ from the first in one thing, for each "
            "kind of prompts. What else differs is named and refused; `--allow NAME` lets it:",
            f"```sh\n{commands}\n```",
        ]
    blocks += ["## Limits", bullets(FIXED_LIMITATIONS)]
    return "\n\n".join(blocks) + "\n"


def _in_a_sentence(results: Results) -> str:
    engine = f"{results.engine} {results.engine_version}"
    parts = [f"{results.measured} of {len(results.rows)} scenarios were run ({results.mode})."]
    if results.mode == SMOKE:
        ok = sum(row.protocol_ok is True for row in results.rows)
        parts.append(f"In {ok} of them every request came out as asked. The simulator stood for {engine}.")
    else:
        grades = [row.evidence_grade for row in results.rows if row.evidence_grade is not None]
        counted = ", ".join(f"{grades.count(grade)} {grade}" for grade in dict.fromkeys(grades))
        parts += [f"Pinned to {engine}.", f"Grades: {counted}." if counted else ""]
    parts.append("Rounds are merged: percentiles over all their ok requests, rates over the sum of their seconds.")
    parts.append("A blank was not measured; `*`: too few requests to tell it from the maximum.")
    return escape(" ".join(filter(None, parts)), LONGEST_SENTENCE).replace("\\`", "`").replace("\\*", "*")


def _scenarios(results: Results, *, smoke: bool) -> str:
    header = [
        "setting", "prompts", "in flight", "protocol" if smoke else "result", "grade", "rounds", "measured", "errors",
        "req/s", "out tok/s", "TTFT P50", "TTFT P95", "TPOT P50", "TPOT P95", "E2E P95", "goodput", "good",
    ]  # fmt: skip
    left = [True, True, False, True, True, *[False] * 12]
    return table(header, [_cells(row, smoke=smoke) for row in results.rows], left)


def _cells(row: Row, *, smoke: bool) -> list[str]:
    begin = [row.variant, row.prompts, str(row.concurrency)]
    if row.status != "measured":
        return [*begin, "not run", *[""] * 13]
    outcome = ("ok" if row.protocol_ok else "**not ok**") if smoke else row.result
    return [
        *begin,
        outcome,
        row.evidence_grade or "",
        str(len(row.of_rounds) if smoke else row.rounds),  # how many are valid is said of measurements
        str(row.measured),
        percent(row.error_rate, up=True),
        _shown(row.request_throughput_rps),
        _shown(row.output_throughput_tps),
        *(_figure(row, name) for name in ("ttft_p50_ms", "ttft_p95_ms", "tpot_p50_ms", "tpot_p95_ms", "e2e_p95_ms")),
        _shown(row.goodput_rps),
        "" if row.attainment is None else percent(row.attainment),
    ]


def _figure(row: Row, name: str) -> str:
    value = row.figures.get(name)
    return "" if value is None else number(value) + ("*" if name in row.at_maximum else "")


def _shown(value: float | None) -> str:
    return "" if value is None else number(value)


def _server(rows: list[Row]) -> str:
    header = [
        "scenario",
        "running",
        "waiting",
        "KV cache %",
        "prefix hits",
        "preemptions",
        "memory GB",
        "input P50",
        "output P50",
    ]
    lines = [
        [
            row.scenario,
            _shown(row.running_peak),
            _shown(row.waiting_peak),
            _shown(row.kv_cache_peak_pct),
            "" if row.prefix_cache_hit_rate is None else percent(row.prefix_cache_hit_rate),
            _shown(row.preemptions),
            _shown(row.peak_memory_gb),
            _figure(row, "input_tokens_p50"),
            _figure(row, "output_tokens_p50"),
        ]
        for row in rows
    ]
    return table(header, lines, [True, *[False] * 8])


def _grades(rows: list[Row]) -> list[str]:
    """Each reason once, with how many scenarios it holds down."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for reason in row.grade_reasons:
            found.setdefault(reason, []).append(row.scenario)
    return [
        f"{escape(reason, LONGEST_SENTENCE)} ({'all' if len(names) == len(rows) else ', '.join(names)})"
        for reason, names in found.items()
    ]


def _not_run(rows: list[Row]) -> list[str]:
    """Each reason once, with the scenarios that were not run for it."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.status != "measured":
            found.setdefault(row.reason or "", []).append(row.scenario)
    return [f"{', '.join(names)}: {escape(reason, LONGEST_SENTENCE)}" for reason, names in found.items()]


def _digests(rows: list[Row]) -> list[str]:
    """The digest of each kind of prompts; where settings were sent different things, that is said."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        if row.workload_sha256 is not None:
            names = found.setdefault(row.prompts, {}).setdefault(row.workload_sha256, [])
            if row.variant not in names:
                names.append(row.variant)
    said = []
    for prompts, digests in found.items():
        if len(digests) == 1:
            said.append(f"{prompts}: SHA-256 {next(iter(digests))}, the same in every setting")
        else:
            parts = "; ".join(f"{', '.join(names)} {digest}" for digest, names in digests.items())
            said.append(f"{prompts}: **settings were sent different prompts, so they cannot be compared**: {parts}")
    return said
