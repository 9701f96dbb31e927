"""vLLM's bench: the result file of ``vllm bench serve --save-result --save-detailed``."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import msgspec
import numpy as np

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
from llm_locust.arrivals import process_name
from llm_locust.records import Outcome, UsageError

TOOL = "vLLM bench"


class _Result(msgspec.Struct):
    """The fields that are read."""

    date: str
    duration: float
    input_lens: list[int]
    output_lens: list[int]
    ttfts: list[float]
    itls: list[list[float]]
    errors: list[str | None]
    start_times: list[float]
    """Seconds of a clock that starts anywhere."""
    latencies: list[float] | None = None
    model_id: str | None = None
    request_rate: float | str | None = None
    burstiness: float | None = None
    max_concurrency: int | None = None
    ramp_up_strategy: str | None = None
    median_ttft_ms: float | None = None
    p99_ttft_ms: float | None = None
    median_tpot_ms: float | None = None
    p99_tpot_ms: float | None = None
    median_e2el_ms: float | None = None
    p99_e2el_ms: float | None = None


_DETAILS = ("input_lens", "output_lens", "ttfts", "itls", "errors", "start_times")


def is_one(document: Document) -> bool:
    """Its names of lists per request, or of the figures that a file without them still has."""
    whole = document.whole
    return isinstance(whole, dict) and (
        {"ttfts", "itls"} <= whole.keys() or {"mean_ttft_ms", "num_prompts"} <= whole.keys()
    )


def read(document: Document) -> ImportedRun:
    """The run of a result file.

    Raises:
        UsageError: it has no lists per request, they are not of one length, or its rate was a ramp.
    """
    missing = [name for name in _DETAILS if document.whole.get(name) is None]
    if missing:
        raise UsageError(
            f"{document.path}: a result of {TOOL}, but without {', '.join(missing)}: run the bench with --save-result "
            "--save-detailed (start_times needs a version that writes them)"
        )
    result = converted(document, document.whole, _Result, f"a result of {TOOL}")
    if result.ramp_up_strategy is not None:
        raise UsageError(
            f"{document.path}: its rate went up meanwhile (ramp_up_strategy): it is no one test point; "
            "run the bench at one rate (without --ramp-up-strategy)"
        )
    lengths = {name: len(getattr(result, name)) for name in _DETAILS}
    lengths |= {} if result.latencies is None else {"latencies": len(result.latencies)}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {n}" for name, n in lengths.items())
        raise UsageError(f"{document.path}: its lists are not of one length: {told}")
    requests, failures = _requests(document, result)
    stage = _stage(document, result, requests)
    lacks = [
        NO_PLAN,
        RECEIVED,
        NO_FINISH,
        BY_TOKENIZER.format(tool=TOOL),
        "Input tokens are as the bench counted them.",
        "Absolute times are made from the date of the file, which has no time zone (taken for UTC): only differences are "
        "exact.",
        NO_PROMPTS,
        NO_SERVER,
        *failures_told(failures, TOOL),
    ]
    if failures:
        lacks.append("When a failed request ended is not in the file: it counts as ended when it began.")
    if stage.mode == "closed" and result.max_concurrency is None:
        lacks.append("All requests were sent at once; that is taken for a closed loop with all of them in flight.")
    return ImportedRun(
        tool=TOOL,
        model=result.model_id,
        streaming=any(result.ttfts),
        max_in_flight=result.max_concurrency if stage.mode == "open" else None,
        stages=[stage],
        lacks=lacks,
    )


def _requests(document: Document, result: _Result) -> tuple[list[ImportedRequest], list[Failure]]:
    if not result.start_times:
        raise UsageError(f"{document.path}: it holds no request; give the result of a run that sent some")
    try:
        written = datetime.strptime(result.date, "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        raise UsageError(f"{document.path}: its date {result.date!r} is not of the form 20260131-235959") from None
    origin = ns(written.timestamp()) - ns(result.duration)
    first = min(result.start_times)
    requests, failures = [], []
    for k, start in enumerate(result.start_times):
        sent = origin + ns(start - first)
        ttft, gaps, error = result.ttfts[k], result.itls[k], result.errors[k]
        if error:
            failed = failure(error)
            failures.append(failed)
            requests.append(
                ImportedRequest(
                    sent_ns=sent,
                    end_ns=sent,
                    outcome=failed.outcome,
                    status=failed.status,
                    error=failed.error,
                    prompt_tokens=result.input_lens[k] or None,
                )
            )
            continue
        latency = result.latencies[k] if result.latencies is not None else ttft + math.fsum(gaps)
        end = sent + ns(latency)
        streamed = ttft > 0
        requests.append(
            ImportedRequest(
                sent_ns=sent,
                first_output_ns=sent + ns(ttft) if streamed else None,
                last_output_ns=end if streamed else None,
                complete_ns=end if streamed else None,
                end_ns=end,
                outcome=Outcome.OK if streamed else Outcome.EMPTY,
                prompt_tokens=result.input_lens[k] or None,
                output_tokens=result.output_lens[k] if streamed else None,
                output_tokens_source="tokenizer" if streamed else None,
                output_events=len(gaps) + 1 if streamed else None,
                gaps_us=[max(0, round(gap * 1e6)) for gap in gaps] or None,
                max_gap_ns=ns(max(gaps)) if gaps else None,
            )
        )
    return requests, failures


def _stage(document: Document, result: _Result, requests: list[ImportedRequest]) -> ImportedStage:
    printed = _printed(result)
    try:
        rate = float(result.request_rate if result.request_rate is not None else "inf")
    except ValueError:
        raise UsageError(f"{document.path}: its request_rate {result.request_rate!r} is no number") from None
    if math.isinf(rate):
        concurrency = result.max_concurrency or len(requests)
        return ImportedStage(mode="closed", concurrency=concurrency, requests=requests, printed=printed)
    burstiness = result.burstiness if result.burstiness is not None else 1.0
    process = "poisson" if burstiness == 1 else _gamma(burstiness)
    return ImportedStage(mode="open", rate_rps=rate, arrivals=process, requests=requests, printed=printed)


def _gamma(burstiness: float) -> str:
    """The bench draws gaps from a gamma distribution of this shape; its coefficient of variation is 1 / sqrt(shape)."""
    if burstiness <= 0 or math.isinf(burstiness):
        return "constant"
    try:
        return process_name(f"gamma:cv={1 / math.sqrt(burstiness):.6g}")
    except UsageError:
        return "constant"


def _printed(result: _Result) -> list[Printed]:
    """The bench interpolates percentiles linearly."""

    def ttft(request: ImportedRequest) -> float | None:
        return None if request.first_output_ns is None else (request.first_output_ns - request.sent_ns) / 1e6

    def e2e(request: ImportedRequest) -> float | None:
        return None if request.complete_ns is None else (request.complete_ns - request.sent_ns) / 1e6

    def tpot(request: ImportedRequest) -> float | None:
        tokens = request.output_tokens or 0
        if request.complete_ns is None or request.first_output_ns is None or tokens < 2:
            return None
        return (request.complete_ns - request.first_output_ns) / (tokens - 1) / 1e6

    return [
        Printed(f"{name} {word}", value, of, lambda values, at=at: float(np.percentile(values, at)))  # type: ignore[misc]
        for name, key, of in (("TTFT", "ttft", ttft), ("TPOT", "tpot", tpot), ("E2E", "e2el", e2e))
        for word, prefix, at in (("P50", "median", 50), ("P99", "p99", 99))
        if (value := getattr(result, f"{prefix}_{key}_ms")) is not None
    ]


FORMAT = Format("vllm", "vllm bench serve --save-result --save-detailed: its JSON", is_one, read)
