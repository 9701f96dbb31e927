"""AIPerf: ``profile_export.jsonl``, a request a line, with ``profile_export_aiperf.json`` beside it for how it was run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from llm_locust.analysis.imported.base import (
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
)
from llm_locust.arrivals import process_name
from llm_locust.records import Outcome, UsageError

TOOL = "AIPerf"

_NS_PER = {"ms": 1e6, "sec": 1e9, "s": 1e9, "us": 1e3, "ns": 1.0}


class _Value(msgspec.Struct):
    value: float | list[float] | None = None
    unit: str | None = None


class _Metadata(msgspec.Struct):
    request_start_ns: int
    request_end_ns: int
    x_request_id: str | None = None
    benchmark_phase: str | None = None
    was_cancelled: bool = False


class _Error(msgspec.Struct):
    code: int | None = None
    type: str | None = None
    message: str | None = None


class _Line(msgspec.Struct):
    metadata: _Metadata
    metrics: dict[str, _Value] | None = None
    error: _Error | None = None


def is_one(document: Document) -> bool:
    """A line with its metadata and metrics, or the summary that stands beside such a file."""
    first = document.lines[0] if document.lines else document.whole
    if not isinstance(first, dict):
        return False
    metadata = first.get("metadata")
    return (isinstance(metadata, dict) and "request_start_ns" in metadata) or "aiperf_version" in first


def companion(path: Path) -> Path:
    """The summary that AIPerf writes beside its export."""
    return path.with_name(f"{path.stem}_aiperf.json")


def read(document: Document) -> ImportedRun:
    """The run of an export.

    Raises:
        UsageError: it is the summary instead, or lacks the one beside it; a line is none; the load was neither a rate nor a
            concurrency.
    """
    lines = document.lines or [document.whole]
    if "aiperf_version" in lines[0]:
        raise UsageError(f"{document.path}: the summary of an AIPerf run; give the profile_export.jsonl beside it")
    summary = _summary(document)
    requests, failures, by_tokenizer = [], [], 0
    for number, line in enumerate(lines, 1):
        told = converted(document, line, _Line, f"a request of {TOOL}", number)
        request, failed = _request(told)
        requests.append(request)
        by_tokenizer += request.output_tokens_source == "tokenizer"
        if failed is not None:
            failures.append(failed)
    config = summary.get("input_config") or {}
    endpoint = config.get("endpoint") or {}
    stage, cap = _load(document, config)
    stage.requests = requests
    stage.printed = _printed(summary)
    counted = (
        f"Output tokens of {by_tokenizer} requests were counted by {TOOL}'s tokenizer, for want of a usage report."
        if by_tokenizer
        else f"Output tokens are the server's usage reports; {TOOL}'s own per-token figures use its tokenizer's count."
    )
    return ImportedRun(
        tool=TOOL,
        version=_text(summary.get("aiperf_version")),
        model=_text(_first(endpoint.get("model_names")) or _first_name(config.get("models"))),
        target=_text(_first(endpoint.get("urls")) or endpoint.get("url")),
        streaming=bool(endpoint.get("streaming", any(r.first_output_ns is not None for r in requests))),
        max_in_flight=cap,
        workload=_text((_first(config.get("datasets")) or {}).get("type")) or "not told",
        stages=[stage],
        lacks=[
            NO_PLAN,
            RECEIVED,
            NO_FINISH,
            counted,
            NO_PROMPTS,
            NO_SERVER,
            *failures_told(failures, TOOL),
        ],
    )


def _summary(document: Document) -> Mapping[str, Any]:
    path = companion(document.path)
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(
            f"{document.path}: with what rate or concurrency it was run stands in AIPerf's summary: put {path.name} "
            "beside it"
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    if not isinstance(found, dict) or "input_config" not in found:
        raise UsageError(
            f"{path}: not the summary of an AIPerf run: it has no input_config; "
            "put the profile_export_aiperf.json of the same run there"
        )
    return found


def _load(document: Document, config: Mapping[str, Any]) -> tuple[ImportedStage, int | None]:
    """The load, without its requests, and the cap on requests in flight beside a rate."""
    phases = [phase for phase in config.get("phases") or () if isinstance(phase, dict)]
    of_it = [phase for phase in phases if "profiling" in (phase.get("kind"), phase.get("name"))] or phases
    loadgen = config.get("loadgen") or {}
    phase = of_it[-1] if of_it else {}
    rate = phase.get("rate") or loadgen.get("request_rate")
    concurrency = phase.get("concurrency") or loadgen.get("concurrency")
    kind = str(phase.get("type") or loadgen.get("request_rate_mode") or "")
    if isinstance(rate, int | float):
        process = kind if kind in ("poisson", "constant") else None
        smoothness = phase.get("smoothness") or loadgen.get("arrival_smoothness")
        if kind == "gamma" and isinstance(smoothness, int | float) and smoothness > 0:
            process = process_name(f"gamma:cv={smoothness**-0.5:.6g}")
        if process is None:
            raise UsageError(
                f"{document.path}: its arrivals are {kind!r}, which is no process known here; "
                "run AIPerf with poisson, constant or gamma arrivals"
            )
        cap = concurrency if isinstance(concurrency, int) else None
        return ImportedStage(mode="open", rate_rps=float(rate), arrivals=process, requests=[]), cap
    if isinstance(concurrency, int):
        return ImportedStage(mode="closed", concurrency=concurrency, requests=[]), None
    raise UsageError(
        f"{document.path}: its load ({kind or 'no type told'}) is neither a rate nor a concurrency; "
        "run AIPerf with one of the two"
    )


def _request(line: _Line) -> tuple[ImportedRequest, Failure | None]:
    meta = line.metadata
    request = ImportedRequest(
        request_id=meta.x_request_id,
        phase="warmup" if meta.benchmark_phase == "warmup" else "measure",
        sent_ns=meta.request_start_ns,
        end_ns=meta.request_end_ns,
        outcome=Outcome.OK,
    )
    failed: Failure | None = None
    if line.error is not None or meta.was_cancelled:
        error = line.error or _Error()
        failed = failure(": ".join(filter(None, (error.type, error.message))), error.code)
        if meta.was_cancelled:
            failed = failed._replace(outcome=Outcome.CANCELLED, told=True)
        request.outcome, request.status, request.error = failed.outcome, failed.status, failed.error or None
        return request, failed
    metrics = line.metrics or {}
    ttft, answer, latency = (
        _ns(metrics.get(name)) for name in ("time_to_first_token", "time_to_first_output_token", "request_latency")
    )
    last = request.end_ns if latency is None else request.sent_ns + latency
    request.end_ns = max(request.end_ns, last)
    request.complete_ns = last
    if ttft is not None:
        request.first_output_ns, request.last_output_ns = request.sent_ns + ttft, last
        request.first_answer_ns = None if answer is None else request.sent_ns + answer
    gaps = metrics.get("inter_chunk_latency")
    if gaps is not None and isinstance(gaps.value, list) and gaps.value:
        scale = _NS_PER.get(gaps.unit or "ms", 1e6)
        request.gaps_us = [max(0, round(gap * scale / 1e3)) for gap in gaps.value]
        request.max_gap_ns = round(max(gaps.value) * scale)
        request.output_events = len(gaps.value) + 1
    request.prompt_tokens = _count(metrics, "usage_prompt_tokens", "input_sequence_length")
    request.output_tokens = _count(metrics, "usage_completion_tokens", "output_sequence_length")
    if request.output_tokens is not None:
        request.output_tokens_source = "usage" if "usage_completion_tokens" in metrics else "tokenizer"
    return request, None


def _ns(metric: _Value | None) -> int | None:
    if metric is None or not isinstance(metric.value, int | float):
        return None
    return round(metric.value * _NS_PER.get(metric.unit or "ms", 1e6))


def _count(metrics: Mapping[str, _Value], *names: str) -> int | None:
    for name in names:
        found = metrics.get(name)
        if found is not None and isinstance(found.value, int | float):
            return round(found.value)
    return None


def _printed(summary: Mapping[str, Any]) -> list[Printed]:
    """AIPerf interpolates percentiles linearly."""

    def ttft(request: ImportedRequest) -> float | None:
        measured = request.phase == "measure" and request.first_output_ns is not None
        return (request.first_output_ns - request.sent_ns) / 1e6 if measured and request.first_output_ns else None

    def e2e(request: ImportedRequest) -> float | None:
        measured = request.phase == "measure" and request.complete_ns is not None
        return (request.complete_ns - request.sent_ns) / 1e6 if measured and request.complete_ns else None

    return [
        Printed(f"{name} P{at}", float(value), of, lambda values, at=at: float(np.percentile(values, at)))  # type: ignore[misc]
        for name, key, of in (("TTFT", "time_to_first_token", ttft), ("E2E", "request_latency", e2e))
        for at in (50, 95, 99)
        if isinstance(value := (summary.get(key) or {}).get(f"p{at}"), int | float)
    ]


def _first(values: Any) -> Any:
    return values[0] if isinstance(values, list) and values else None


def _first_name(models: Any) -> Any:
    item = _first(models.get("items")) if isinstance(models, dict) else None
    return item.get("name") if isinstance(item, dict) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


FORMAT = Format("aiperf", "AIPerf: profile_export.jsonl, its profile_export_aiperf.json beside it", is_one, read)
