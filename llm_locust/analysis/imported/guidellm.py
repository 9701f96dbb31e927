"""GuideLLM: ``benchmarks.json``, one benchmark a load level, each with its requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from llm_locust.analysis.imported.base import (
    BY_TOKENIZER,
    NO_FINISH,
    NO_PLAN,
    NO_PROMPTS,
    NO_SERVER,
    RECEIVED,
    Document,
    Failure,
    Format,
    ImportedRequest,
    ImportedRun,
    ImportedStage,
    Printed,
    converted,
    failure,
    failures_told,
    ns,
)
from llm_locust.analysis.quantiles import nearest_rank
from llm_locust.records import Outcome, UsageError

TOOL = "GuideLLM"


class _Timings(msgspec.Struct):
    """Unix seconds."""

    targeted_start: float | None = None
    request_start: float | None = None
    resolve_start: float | None = None
    first_token_iteration: float | None = None
    first_output_token_iteration: float | None = None
    last_token_iteration: float | None = None
    token_iterations: int | None = None
    request_end: float | None = None
    resolve_end: float | None = None


class _Info(msgspec.Struct):
    timings: _Timings
    error: str | None = None


class _Input(msgspec.Struct):
    cached_tokens: int | None = None


class _Request(msgspec.Struct):
    info: _Info
    request_id: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    input_metrics: _Input | None = None


class _Requests(msgspec.Struct):
    successful: list[_Request] = []
    errored: list[_Request] = []
    incomplete: list[_Request] = []


class _Strategy(msgspec.Struct):
    type_: str
    rate: float | None = None
    streams: int | None = None
    max_concurrency: int | None = None


class _Backend(msgspec.Struct):
    target: str | None = None
    model: str | None = None
    stream: bool = True
    timeout: float | None = None


class _Config(msgspec.Struct):
    strategy: _Strategy
    backend: _Backend = msgspec.field(default_factory=_Backend)
    requests: Any = None


class _Totals(msgspec.Struct):
    successful: int = 0
    errored: int = 0
    incomplete: int = 0


class _Metrics(msgspec.Struct):
    request_totals: _Totals = msgspec.field(default_factory=_Totals)
    time_to_first_token_ms: dict[str, Any] = {}
    inter_token_latency_ms: dict[str, Any] = {}


class _Scheduled(msgspec.Struct):
    measure_start_time: float | None = None
    measure_end_time: float | None = None


class _Benchmark(msgspec.Struct):
    config: _Config
    requests: _Requests
    metrics: _Metrics = msgspec.field(default_factory=_Metrics)
    scheduler_metrics: _Scheduled = msgspec.field(default_factory=_Scheduled)
    warmup_duration: float | None = None
    cooldown_duration: float | None = None


def is_one(document: Document) -> bool:
    """Benchmarks, each with its requests."""
    whole = document.whole
    if not isinstance(whole, dict) or not isinstance(whole.get("benchmarks"), list):
        return False
    first = whole["benchmarks"][0] if whole["benchmarks"] else {}
    return "guidellm_version" in (whole.get("metadata") or {}) or (
        isinstance(first, dict) and "scheduler_metrics" in first
    )


def read(document: Document) -> ImportedRun:
    """The run of a file of benchmarks.

    Raises:
        UsageError: it holds no benchmark or no requests, or only a sample of them; a benchmark is none as read here.
    """
    stages, failures = [], []
    backend = _Backend()
    for number, item in enumerate(document.whole["benchmarks"], 1):
        benchmark = converted(document, item, _Benchmark, f"benchmark {number} of {TOOL}")
        stage, failed = _stage(document, number, benchmark)
        stages.append(stage)
        failures += failed
        backend = benchmark.config.backend
    if not stages:
        raise UsageError(f"{document.path}: it holds no benchmark; give the result of a run that ended")
    planned = all(request.planned_ns is not None for stage in stages for request in stage.requests)
    waits = (
        f"Client wait is from {TOOL}'s own planned time; of how late its scheduler was, and what its cap held back, each "
        "alone, the file says nothing."
    )
    gaps = "Gaps between tokens are not in the file: ITL, stalls and longest gaps are not measured."
    fine = "Times are seconds with fractions, good to a quarter of a microsecond."
    version = (document.whole.get("metadata") or {}).get("guidellm_version")
    return ImportedRun(
        tool=TOOL,
        version=version if isinstance(version, str) else None,
        model=backend.model,
        target=backend.target,
        streaming=backend.stream,
        deadline_s=backend.timeout or None,
        stages=stages,
        lacks=[
            waits if planned else NO_PLAN,
            RECEIVED,
            fine,
            gaps,
            NO_FINISH,
            BY_TOKENIZER.format(tool=TOOL),
            NO_PROMPTS,
            NO_SERVER,
            *failures_told(failures, TOOL),
        ],
    )


def _stage(document: Document, number: int, benchmark: _Benchmark) -> tuple[ImportedStage, list[Failure]]:
    kept, totals = benchmark.requests, benchmark.metrics.request_totals
    for name in ("successful", "errored", "incomplete"):
        n, of = len(getattr(kept, name)), getattr(totals, name)
        if n < of:
            raise UsageError(
                f"{document.path}, benchmark {number}: it holds {n} of {of} {name} requests; run GuideLLM without a "
                "sample size, or no rate can be told"
            )
    stage = _load(document, number, benchmark)
    failures: list[Failure] = []
    for request in kept.successful:
        stage.requests.append(_request(document, number, request, benchmark, stage.mode == "open"))
    for request in (*kept.errored, *kept.incomplete):
        failed = failure(request.info.error or "")
        if request.info.error is None and any(request is one for one in kept.incomplete):
            failed = Failure(Outcome.CANCELLED, None, "not finished when the benchmark ended", True)
        failures.append(failed)
        made = _request(document, number, request, benchmark, stage.mode == "open")
        made.outcome, made.status, made.error = failed.outcome, failed.status, failed.error or None
        made.complete_ns = None
        stage.requests.append(made)
    if not stage.requests:
        raise UsageError(
            f"{document.path}, benchmark {number}: it holds no request; give the result of a run that kept its requests"
        )
    stage.requests.sort(key=lambda request: request.sent_ns)
    stage.printed = _printed(benchmark.metrics)
    return stage, failures


def _load(document: Document, number: int, benchmark: _Benchmark) -> ImportedStage:
    strategy = benchmark.config.strategy
    if strategy.rate is not None and strategy.type_ in ("poisson", "constant"):
        return ImportedStage(mode="open", rate_rps=strategy.rate, arrivals=strategy.type_, requests=[])
    in_flight = 1 if strategy.type_ == "synchronous" else strategy.streams or strategy.max_concurrency
    if strategy.type_ in ("synchronous", "concurrent", "throughput") and in_flight:
        return ImportedStage(mode="closed", concurrency=in_flight, requests=[])
    raise UsageError(
        f"{document.path}, benchmark {number}: its load ({strategy.type_}) is neither a rate nor a concurrency; "
        "run GuideLLM with --profile constant, poisson, concurrent or synchronous"
    )


def _request(
    document: Document, number: int, request: _Request, benchmark: _Benchmark, planned: bool
) -> ImportedRequest:
    times = request.info.timings
    start = times.request_start or times.resolve_start
    end = times.request_end or times.resolve_end
    if start is None:
        raise UsageError(f"{document.path}, benchmark {number}: request {request.request_id} has no start")
    if end is None or end < start:
        end = start
    made = ImportedRequest(
        request_id=request.request_id,
        phase=_phase(benchmark, start),
        planned_ns=ns(times.targeted_start) if planned and times.targeted_start is not None else None,
        sent_ns=ns(start),
        end_ns=ns(end),
        outcome=Outcome.OK,
        prompt_tokens=request.prompt_tokens,
        output_tokens=request.output_tokens,
        output_tokens_source="tokenizer" if request.output_tokens is not None else None,
        cached_tokens=request.input_metrics.cached_tokens if request.input_metrics is not None else None,
    )
    made.complete_ns = made.end_ns
    if times.first_token_iteration is not None:
        last = times.last_token_iteration
        made.first_output_ns = ns(times.first_token_iteration)
        made.first_answer_ns = None if (answer := times.first_output_token_iteration) is None else ns(answer)
        made.last_output_ns = ns(last) if last is not None else made.first_output_ns
        made.complete_ns = made.last_output_ns
        made.output_events = times.token_iterations
    return made


def _phase(benchmark: _Benchmark, start: float) -> str:
    """Warm-up and cool-down are what it cut off at both ends of the benchmark, if it did."""
    measured = benchmark.scheduler_metrics
    if benchmark.warmup_duration and measured.measure_start_time is not None and start < measured.measure_start_time:
        return "warmup"
    if benchmark.cooldown_duration and measured.measure_end_time is not None and start > measured.measure_end_time:
        return "cooldown"
    return "measure"


def _printed(metrics: _Metrics) -> list[Printed]:
    """GuideLLM's percentiles are nearest ranks; its inter-token latency is weighted by tokens, so its mean is compared."""

    def ttft(request: ImportedRequest) -> float | None:
        if request.outcome != Outcome.OK or request.phase != "measure" or request.first_output_ns is None:
            return None
        return (request.first_output_ns - request.sent_ns) / 1e6

    told = (metrics.time_to_first_token_ms.get("successful") or {}).get("percentiles") or {}
    return [
        Printed(f"TTFT P{at}", float(value), ttft, lambda values, at=at: _nearest(values, at))  # type: ignore[misc]
        for at in (50, 95, 99)
        if isinstance(value := told.get(f"p{at}"), int | float)
    ]


def _nearest(values: Sequence[float], percent: int) -> float:
    return sorted(values)[nearest_rank(percent, len(values)) - 1]


FORMAT = Format("guidellm", "GuideLLM: benchmarks.json", is_one, read)
