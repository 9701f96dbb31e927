"""One row per scenario, its rounds merged: what the run folders hold, and how far it may be trusted.

Percentiles are over the ok requests of all rounds together, rates over the sum of their seconds; a peak is the largest of
the rounds'. What was not measured is null, a scenario that was not run has no figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import pandas as pd

from llm_locust.analysis import window as windows
from llm_locust.analysis.batch_figures import batch_figures
from llm_locust.analysis.evidence_files import record_path
from llm_locust.analysis.judgement import rows_of
from llm_locust.analysis.merged_file import read_merged
from llm_locust.analysis.points import Point
from llm_locust.matrix.config import SMOKE, MatrixConfig
from llm_locust.matrix.ledger import State
from llm_locust.matrix.scenarios import Scenario, scenarios, variants
from llm_locust.records import Manifest, RunFolder
from llm_locust.records.evidence import EvidenceRecord, Grade
from llm_locust.records.summary import Figure, Result, RunSummary, StageSummary

FIGURES: tuple[str, ...] = (
    *(f"{name}_p{at}_ms" for name in ("ttft", "tpot", "e2e") for at in (50, 95, 99)),
    "itl_p95_ms",
    "input_tokens_p50",
    "input_tokens_max",
    "output_tokens_p50",
)
"""Percentiles of a row."""

CACHE_CONFIG = "cache_config_info"
"""A fact that vLLM tells of itself."""

PEAKS: tuple[str, ...] = ("kv_cache_peak_pct", "running_peak", "waiting_peak", "peak_memory_gb")


class RoundRow(msgspec.Struct, frozen=True, kw_only=True):
    """One round of a scenario, by itself."""

    round: int
    result: Result
    measured: int
    request_throughput_rps: float | None
    output_throughput_tps: float | None
    ttft_p95_ms: Figure
    e2e_p95_ms: Figure
    requests_sha256: str | None
    record: str
    """Its evidence record, seen from the matrix's folder."""


class Row(msgspec.Struct, kw_only=True):
    """One scenario."""

    scenario: str
    variant: str
    prompts: str
    concurrency: int
    status: Literal["measured", "not_run"] = "not_run"
    reason: str | None = None
    """Why it was not run."""
    result: Result = "not_run"
    """The worst of its rounds."""
    protocol_ok: bool | None = None
    """Of a smoke test: every request of every round came out ok, as long as it was asked to be; else ``None``."""
    evidence_grade: Grade | None = None
    grade_reasons: list[str] = []
    run: str | None = None
    """Its run folder, seen from the matrix's."""
    rounds: int = 0
    """Measured with a valid generator."""
    engine: str | None = None
    engine_version: str | None = None
    workload_sha256: str | None = None
    measured: int | None = None
    successful: int | None = None
    failed: int | None = None
    error_rate: float | None = None
    seconds: float | None = None
    request_throughput_rps: float | None = None
    output_throughput_tps: float | None = None
    total_throughput_tps: float | None = None
    good_requests: int | None = None
    goodput_rps: float | None = None
    attainment: float | None = None
    figures: dict[str, Figure] = {}
    """By name, of :data:`FIGURES`."""
    at_maximum: list[str] = []
    """Of those the ones whose rank cannot be told apart from the maximum."""
    kv_cache_peak_pct: float | None = None
    running_peak: int | None = None
    waiting_peak: int | None = None
    peak_memory_gb: float | None = None
    preemptions: int | None = None
    """In all rounds."""
    prefix_cache_hit_rate: float | None = None
    """Mean of the rounds'."""
    of_rounds: list[RoundRow] = []


class Results(msgspec.Struct, kw_only=True):
    """``matrix.json``."""

    schema_version: str = "1"
    name: str
    mode: str
    made_by: str
    engine: str
    engine_version: str
    engine_said: str | None
    notes: list[str]
    rows: list[Row]
    comparisons: list[list[str]] = []
    """Commands that hold a variant against the first one, run by run."""

    @property
    def measured(self) -> int:
        """Scenarios that were run."""
        return sum(row.status == "measured" for row in self.rows)

    @property
    def complete(self) -> bool:
        """Every scenario was run; of a smoke test also came out as it must."""
        return all(row.status == "measured" and row.protocol_ok is not False for row in self.rows)


class _Unit(NamedTuple):
    """A finished run, read."""

    folder: RunFolder
    manifest: Manifest
    summary: RunSummary
    rows: pd.DataFrame
    gaps_us: Any


def read_results(config: MatrixConfig, state: State, folder: Path) -> Results:
    """The results so far.

    Args:
        config: The matrix.
        state: What was done.
        folder: Where it is.

    Raises:
        UsageError: a run folder is not whole.
    """
    rows: list[Row] = []
    digests: dict[str, str] = {}
    read: tuple[str, _Unit] | None = None
    for scenario in scenarios(config):
        name = scenario.unit.name
        unit = state.units.get(name)
        if unit is None or unit.status != "done" or unit.run is None:
            rows.append(_not_run(scenario, state))
            continue
        if read is None or read[0] != name:
            read = (name, _read(folder / unit.run))
        first = digests.setdefault(scenario.unit.prompts.name, read[1].manifest.workload.sha256)
        rows.append(_row(scenario, config, state.mode, folder, read[1], first))
    return Results(
        name=config.name,
        mode=state.mode,
        made_by=state.made_by,
        engine=config.engine.name,
        engine_version=config.engine.version,
        engine_said=state.engine_said,
        notes=[*state.notes, *(f"{name}: the engine did not start: {why}" for name, why in state.engines.items())],
        rows=rows,
        comparisons=_comparisons(config, state, folder),
    )


def _read(path: Path) -> _Unit:
    folder = RunFolder(path)
    rows, gaps_us = read_merged(folder.merged)
    return _Unit(folder, Manifest.load(folder.manifest), RunSummary.load(folder.summary), rows, gaps_us)


def _not_run(scenario: Scenario, state: State, reason: str | None = None) -> Row:
    unit = state.units.get(scenario.unit.name)
    why = reason or (unit.reason if unit is not None and unit.reason else None)
    if why is None and (engine := state.engines.get(scenario.unit.variant.name)) is not None:
        why = f"the engine did not start: {engine}"
    if why is None and unit is not None and unit.status == "running":
        why = "its run was cut off"
    return Row(
        scenario=scenario.name,
        variant=scenario.unit.variant.name,
        prompts=scenario.unit.prompts.name,
        concurrency=scenario.concurrency,
        reason=why or "not reached yet",
    )


def _row(scenario: Scenario, config: MatrixConfig, mode: str, folder: Path, unit: _Unit, first_digest: str) -> Row:
    stages = [
        stage
        for stage in unit.summary.stages
        if stage.concurrency == scenario.concurrency and stage.verdict.result != "not_run"
    ]
    row = Row(
        scenario=scenario.name,
        variant=scenario.unit.variant.name,
        prompts=scenario.unit.prompts.name,
        concurrency=scenario.concurrency,
        run=str(unit.folder.path.relative_to(folder)),
    )
    if not stages:
        row.reason = "the run ended before its rounds"
        return row
    records = [EvidenceRecord.load(record_path(unit.folder, stage.stage, stage.round)) for stage in stages]
    figures = _together(unit, stages)
    row.status = "measured"
    row.result = Point(stages).result
    row.rounds = max((record.rounds or 0 for record in records), default=0)
    row.engine, row.engine_version = records[0].engine, records[0].engine_version
    row.workload_sha256 = unit.manifest.workload.sha256
    for name in (
        "measured", "successful", "failed", "error_rate", "seconds", "request_throughput_rps", "output_throughput_tps",
        "total_throughput_tps", "good_requests", "goodput_rps", "attainment",
    ):  # fmt: skip
        setattr(row, name, figures.get(name))
    percentiles = figures["percentiles"]
    row.figures = {name: percentiles[name].value for name in FIGURES if name in percentiles}
    row.at_maximum = [name for name in row.figures if percentiles[name].at_maximum]
    for name in PEAKS:
        setattr(row, name, max(_known(getattr(record, name) for record in records), default=None))
    preempted = _known(record.preemptions for record in records)
    row.preemptions = int(sum(preempted)) if preempted else None
    hits = _known(record.prefix_cache_hit_rate for record in records)
    row.prefix_cache_hit_rate = sum(hits) / len(hits) if hits else None
    row.of_rounds = [
        _round(unit, stage, record_path(unit.folder, stage.stage, stage.round), folder) for stage in stages
    ]
    row.protocol_ok = _protocol_ok(stages, config) if mode == SMOKE else None
    row.evidence_grade, row.grade_reasons = grade_rounds(
        records, config, same_workload=row.workload_sha256 == first_digest, smoke=mode == SMOKE
    )
    return row


def _together(unit: _Unit, stages: Sequence[StageSummary]) -> dict[str, Any]:
    """The figures of several stages as if they were one batch."""
    frames, parts, seconds = [], [], []
    for stage in stages:
        of_stage = rows_of(unit.rows, stage.stage, stage.round)
        run = next(m for m in unit.manifest.stages if (m.spec.stage, m.spec.round) == (stage.stage, stage.round))
        window = windows.measured_window(run, of_stage)
        frames.append(of_stage)
        parts.append(windows.batch(of_stage, run, window))
        seconds.append(None if window is None else window.seconds)
    known = [one for one in seconds if one is not None]
    whole = sum(known) if len(known) == len(seconds) else None
    together = pd.concat(frames, ignore_index=True)
    return batch_figures(together, unit.gaps_us, np.concatenate(parts), unit.summary.slo, whole)


def _round(unit: _Unit, stage: StageSummary, record: Path, folder: Path) -> RoundRow:
    def figure(name: str) -> Figure:
        found = stage.percentiles.get(name)
        return found.value if found else None

    return RoundRow(
        round=stage.round,
        result=stage.verdict.result,
        measured=stage.measured,
        request_throughput_rps=stage.request_throughput_rps,
        output_throughput_tps=stage.output_throughput_tps,
        ttft_p95_ms=figure("ttft_p95_ms"),
        e2e_p95_ms=figure("e2e_p95_ms"),
        requests_sha256=stage.requests_sha256,
        record=str(record.relative_to(folder)),
    )


def _protocol_ok(stages: Sequence[StageSummary], config: MatrixConfig) -> bool:
    """Every round is there, every request came out ok, and prompts and replies had the lengths that were asked for."""
    return len(stages) == config.load.rounds and all(
        stage.measured > 0
        and stage.failed == 0
        and all(
            length is not None and length.worst_off_share == 0 for length in (stage.input_lengths, stage.output_lengths)
        )
        for stage in stages
    )


def grade_rounds(
    records: Sequence[EvidenceRecord], config: MatrixConfig, *, same_workload: bool, smoke: bool = False
) -> tuple[Grade, list[str]]:
    """The grade of a scenario: that of its weakest round, and of a matrix's own conditions.

    Args:
        records: Of its rounds.
        config: The matrix: its version is the one that counts, and its rounds are those that must be there.
        same_workload: The digest of what was sent is the one of the first setting.
        smoke: It was a test of the protocol, whatever answered.
    """
    if smoke or any(record.evidence_grade == "protocol-only" for record in records):
        return "protocol-only", ["the engine is synthetic"]
    reasons = list(dict.fromkeys(reason for record in records for reason in record.evidence_grade_reasons))
    for record in records:
        said = (record.engine, record.engine_version)
        if said != (config.engine.name, config.engine.version):
            words = " ".join(part or "(not said)" for part in said)
            reasons.append(f"the engine is {words}, not {config.engine.name} {config.engine.version}")
            break
    if len(records) < config.load.rounds:
        reasons.append(f"{len(records)} of {config.load.rounds} rounds were run")
    if not same_workload:
        reasons.append("what was sent is not what the first setting was sent: their digests differ")
    return ("partial" if reasons else "performance"), reasons


def _comparisons(config: MatrixConfig, state: State, folder: Path) -> list[list[str]]:
    """``llm-locust compare`` of the first variant's runs with those of each that differs from it in one setting."""
    first, *others = variants(config)
    found = []
    for other in others:
        if sum(one != an_other for one, an_other in zip(first.settings, other.settings, strict=True)) != 1:
            continue
        for prompts in config.prompts:
            states = [state.units.get(f"{variant.name}.{prompts.name}") for variant in (first, other)]
            runs = [folder / one.run for one in states if one is not None and one.status == "done" and one.run]
            if len(runs) == 2:
                found.append(["llm-locust", "compare", *map(str, runs), *_allowed(runs)])
    return found


def _allowed(runs: Sequence[Path]) -> list[str]:
    """The engine's own table of its cache says once more what its settings say, and how much memory was free."""
    said = [Manifest.load(RunFolder(run).manifest).server_facts_start.get(CACHE_CONFIG) for run in runs]
    return ["--allow", CACHE_CONFIG] if said[0] != said[1] else []


def _known(values: Iterable[Any]) -> list[float]:
    return [value for value in values if value is not None]
