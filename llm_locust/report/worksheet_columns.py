"""The columns of the worksheet: four groups, each column with its unit and where its value stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from llm_locust.analysis.gates import gate_text
from llm_locust.analysis.server_gates import value_text
from llm_locust.records import Manifest, StageManifest
from llm_locust.records.evidence import EvidenceRecord
from llm_locust.records.figures import Figure
from llm_locust.records.summary import Boundary, PointSummary, RunSummary, StageSummary
from llm_locust.report.csv_cells import Cell

RETEST_WHEN: tuple[str, ...] = (
    "bursts of another kind",
    "multimodal input",
    "CPU offload",
    "another number of instances",
    "an update of the model",
)
"""What ends a decision beside what the record names."""


class Line(NamedTuple):
    """One row: a stage, or a test that was not made."""

    name: str
    summary: RunSummary
    manifest: Manifest
    stage: StageSummary | None = None
    """``None`` for what was not run."""
    record: EvidenceRecord | None = None
    run: StageManifest | None = None
    """What this project planned; ``None`` where it planned nothing."""
    point: PointSummary | None = None
    """All rounds of the stage's rate or concurrency."""
    not_run_rate_rps: float | None = None
    """The mean rate of a test that was not made."""


class Column(NamedTuple):
    """One column."""

    name: str
    unit: str
    """Empty for text."""
    cell: Callable[[Line], Cell]
    field: str | None = None
    """The field of the evidence record that holds the same; ``None`` where none does."""

    @property
    def header(self) -> str:
        """``rate [req/s]``."""
        return f"{self.name} [{self.unit}]" if self.unit else self.name


def _of_record(name: str, unit: str, field: str) -> Column:
    return Column(name, unit, lambda line: None if line.record is None else getattr(line.record, field), field)


def _of_stage(name: str, unit: str, cell: Callable[[StageSummary], Cell], field: str | None = None) -> Column:
    return Column(
        name, unit, lambda line: None if line.stage is None or not line.stage.planned else cell(line.stage), field
    )


def _percentile(name: str, figure: str) -> Column:
    return _of_stage(
        name, "ms", lambda stage: stage.percentiles[figure].value if figure in stage.percentiles else None, figure
    )


def _count(name: str, outcome: str) -> Column:
    return _of_stage(name, "requests", lambda s: s.outcomes.get(outcome, 0) if s.measured else None)


def _queue_bound(name: str, field: str) -> Column:
    def cell(stage: StageSummary) -> Figure:
        found = stage.server.percentiles.get("queue_time_p95_ms") if stage.server is not None else None
        value: Figure = None if found is None else getattr(found, field)
        return value

    return _of_stage(name, "ms", cell)


def _listed(texts: list[str] | tuple[str, ...] | None) -> str | None:
    return "; ".join(texts) if texts else None


def _boundary(line: Line) -> Boundary | None:
    of_open = line.stage is None or line.stage.mode == "open"
    return line.summary.boundary if of_open else None


FIXED: tuple[Column, ...] = (
    _of_record("engine", "", "engine"),
    _of_record("engine version", "", "engine_version"),
    Column(
        "synthetic engine",
        "",
        lambda line: line.summary.synthetic_engine if line.record is not None else None,
        "synthetic_engine",
    ),
    _of_record("image digest", "", "image_digest"),
    _of_record("model", "", "model_id"),
    _of_record("model revision", "", "model_revision"),
    _of_record("weights dtype", "", "quantization_dtype"),
    _of_record("KV-cache dtype", "", "kv_cache_dtype"),
    _of_record("tokenizer revision", "", "tokenizer_revision"),
    _of_record("accelerator", "", "accelerator"),
    _of_record("accelerators", "count", "accelerator_count"),
    _of_record("parallelism", "", "parallelism"),
    _of_record("memory for the engine", "GB", "available_memory_gb"),
    _of_record("driver, runtime, host", "", "driver_runtime_host"),
    _of_record("CPU", "", "cpu"),
    _of_record("main memory", "GB", "ram_gb"),
    _of_record("environment", "", "environment"),
    _of_record("replicas", "count", "replicas"),
    _of_record("context limit", "tokens", "context_limit_tokens"),
    _of_record("slots", "requests", "max_active_sequences"),
    _of_record("server's admission cap", "requests", "server_admission_cap"),
    _of_record("batching limits", "", "batching_limits"),
    _of_record("KV-cache size", "tokens", "kv_cache_size_tokens"),
    _of_record("prefix caching", "", "prefix_caching"),
    _of_record("cache state", "", "cache_state"),
    _of_record("model in accelerator memory", "", "gpu_residency"),
    _of_record("offload", "", "offload"),
)
TRAFFIC: tuple[Column, ...] = (
    Column("arrival mode", "", lambda line: line.stage.mode if line.stage is not None else "open", "arrival_mode"),
    Column(
        "arrival process", "", lambda line: line.stage.arrivals if line.stage is not None else None, "arrival_process"
    ),
    Column(
        "offered rate",
        "req/s",
        lambda line: line.stage.rate_rps if line.stage else line.not_run_rate_rps,
        "request_rate_rps",
    ),
    Column(
        "concurrency",
        "requests",
        lambda line: line.stage.concurrency if line.stage is not None else None,
        "concurrency",
    ),
    Column("what sets it apart", "", lambda line: line.stage.condition if line.stage is not None else None),
    Column("client's cap in flight", "requests", lambda line: line.summary.max_in_flight, "max_in_flight"),
    Column("workload", "", lambda line: line.summary.workload or None, "workload_name"),
    Column("workload kind", "", lambda line: line.summary.workload_kind, "workload_kind"),
    Column("workload SHA-256", "", lambda line: line.summary.workload_sha256 or None, "workload_sha256"),
    Column("slices", "", lambda line: _listed(line.manifest.workload.slices)),
    _of_record("input P50", "tokens", "input_tokens_p50"),
    _of_record("input P95", "tokens", "input_tokens_p95"),
    _of_record("output P50", "tokens", "output_tokens_p50"),
    _of_record("output P95", "tokens", "output_tokens_p95"),
    Column(
        "shared prefix", "share 0 to 1", lambda line: line.manifest.workload.shared_prefix_share, "shared_prefix_share"
    ),
    _of_record("cold", "share 0 to 1", "cold_share"),
    Column("warm-up", "s", lambda line: line.run.spec.warmup_s if line.run is not None else None),
    Column("window", "s", lambda line: line.run.spec.window_s if line.run is not None else None),
    Column("requests asked for", "requests", lambda line: line.run.spec.requests if line.run is not None else None),
    Column("cool-down at most", "s", lambda line: line.run.spec.cooldown_s if line.run is not None else None),
    Column("rounds", "count", lambda line: line.point.rounds if line.point is not None else None),
    Column("deadline", "s", lambda line: line.summary.deadline_s, "deadline_s"),
)

OBSERVATIONS: tuple[Column, ...] = (
    _of_stage("planned in all", "requests", lambda s: s.planned, "planned"),
    _of_stage("measured", "requests", lambda s: s.measured, "measured_requests"),
    _of_stage("sent", "requests", lambda s: s.sent, "sent"),
    _of_stage("completed", "requests", lambda s: s.successful, "successful_requests"),
    _count("rejected", "rejected"),
    _of_stage("failed", "requests", lambda s: s.failed, "failed_requests"),
    _of_stage("out of memory", "requests", lambda s: s.oom),
    _of_stage("lost", "requests", lambda s: s.lost, "lost"),
    _of_stage("sent", "req/s", lambda s: s.achieved_rate_rps, "achieved_rate_rps"),
    _of_stage("completed in window", "req/s", lambda s: s.completed_in_window_rps, "completed_in_window_rps"),
    _of_stage("output in window", "tokens/s", lambda s: s.output_tokens_in_window_tps),
    _percentile("TTFT P95", "ttft_p95_ms"),
    _percentile("TPOT P95", "tpot_p95_ms"),
    _percentile("E2E P95", "e2e_p95_ms"),
    _percentile("client wait P95", "client_wait_p95_ms"),
    _percentile("cap wait P95", "cap_wait_p95_ms"),
    _of_stage("in flight peak", "requests", lambda s: s.peak_in_flight),
    _of_stage("in flight trend", "", lambda s: s.in_flight_trend.state if s.in_flight_trend else None),
    _of_stage("running peak", "requests", lambda s: s.server.running_peak if s.server else None, "running_peak"),
    _of_stage("waiting peak", "requests", lambda s: s.server.waiting_peak if s.server else None, "waiting_peak"),
    _of_stage("waiting trend", "", lambda s: s.waiting_trend.state if s.waiting_trend else None, "waiting_trend"),
    _queue_bound("server queue P95 over", "low_ms"),
    _queue_bound("server queue P95 up to", "high_ms"),
    _of_stage(
        "KV cache peak", "% of blocks", lambda s: s.server.kv_cache_peak_pct if s.server else None, "kv_cache_peak_pct"
    ),
    _of_stage(
        "prefix-cache hits",
        "share 0 to 1",
        lambda s: s.server.prefix_cache_hit_rate if s.server else None,
        "prefix_cache_hit_rate",
    ),
    _of_stage("preemptions", "count", lambda s: s.server.preemptions if s.server else None, "preemptions"),
    _of_stage("evictions", "blocks", lambda s: s.server.evictions if s.server else None, "evictions"),
    _of_record("start-up memory peak", "GB", "startup_peak_memory_gb"),
    _of_record("memory peak", "GB", "peak_memory_gb"),
    _of_record("whose memory", "", "memory_scope"),
    _of_stage("drain", "s", lambda s: s.drain_seconds, "drain_seconds"),
)

_HOLDS = {True: "holds", False: "does not hold", None: "undetermined"}


def _gates(stage: StageSummary) -> str | None:
    asked = [gate for gate in stage.verdict.gates if gate.applicable]
    return _listed([f"{gate_text(gate)}: {value_text(gate, stage)}, {_HOLDS[gate.passed]}" for gate in asked])


def _result(line: Line) -> Cell:
    return "not_run" if line.stage is None else line.stage.verdict.result


def _retest(line: Line) -> Cell:
    return None if line.record is None else _listed([*line.record.retest_when, *RETEST_WHEN])


DECISION: tuple[Column, ...] = (
    _of_stage("gates", "", _gates),
    _of_stage("good", "req/s", lambda s: s.goodput_rps, "goodput_rps"),
    _of_stage("attainment", "share 0 to 1", lambda s: s.attainment, "attainment"),
    _of_stage("errors", "share 0 to 1", lambda s: s.error_rate, "error_rate"),
    Column("last sustained rate", "req/s", lambda line: b.last_pass_rps if (b := _boundary(line)) else None),
    Column("first failing rate", "req/s", lambda line: b.first_fail_rps if (b := _boundary(line)) else None),
    _of_stage("failing", "", lambda s: _listed([f"{d.name}: {d.detail}" for d in s.verdict.failing_dimensions])),
    Column("result", "", _result),
    _of_stage("strength", "", lambda s: s.verdict.strength),
    _of_record("evidence grade", "", "evidence_grade"),
    _of_record("owner", "", "owner"),
    Column("test again after", "", _retest),
)

GROUPS: tuple[tuple[str, tuple[Column, ...]], ...] = (
    ("fixed conditions", FIXED),
    ("traffic shape", TRAFFIC),
    ("observations", OBSERVATIONS),
    ("decision", DECISION),
)
