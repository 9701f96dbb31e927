"""The evidence record, schema 1.1: one test point, what it was run on, what it showed and how far it can be trusted.

One JSON object per stage and round, in ``records/`` of the run folder. ``null`` means not measured, not known or not
applicable, never 0; a field that names its own reason for null says so in its description. Units are in the names. Every
field stands in the file, so that what is not known can be seen. :mod:`llm_locust.records.evidence_schema` makes the JSON
Schema out of the types and descriptions here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from llm_locust.records.errors import UsageError
from llm_locust.records.manifest import SCHEMA_VERSION
from llm_locust.records.stage import ArrivalMode
from llm_locust.records.summary import FailingDimension, Figure, Strength, WhenSet
from llm_locust.records.whole_file import write_whole_json

Grade = Literal["performance", "partial", "protocol-only", "transcribed"]

FIXED_LIMITATIONS: tuple[str, ...] = (
    "Goodput is not answer quality, not maximum sustainable capacity and not a number of users.",
    "The result holds for this hardware, model, software, context, traffic mix, cache state and SLO only.",
    "A synthetic workload supports no capacity conclusion.",
)
"""What no record says; they stand in every one."""

SUCCESS_THRESHOLD = 0.99
"""The share of measured requests that must have succeeded for the grade ``performance``."""

Text: TypeAlias = Annotated[str, Meta(min_length=1)] | None
Texts: TypeAlias = list[Annotated[str, Meta(min_length=1)]]
Sha256: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | None
Count: TypeAlias = Annotated[int, Meta(ge=0)] | None
Counts: TypeAlias = dict[str, Annotated[int, Meta(ge=0)]] | None
Number: TypeAlias = Annotated[int, Meta(gt=0)] | None
"""Of things of which there cannot be none."""
Amount: TypeAlias = Annotated[float, Meta(gt=0)] | None
"""Of what cannot be none: memory, power, time."""
Rate: TypeAlias = Annotated[float, Meta(ge=0)] | None
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)] | None
Latency: TypeAlias = Annotated[float, Meta(gt=0)] | Literal["inf"] | None
"""A percentile of times that take time: 0 is not one of them."""
Wait: TypeAlias = Annotated[float, Meta(ge=0)] | Literal["inf"] | None
"""A percentile of waits: there may have been none."""
Trend: TypeAlias = Literal["flat", "rising", "falling", "undetermined"] | None


def says(text: str) -> Meta:
    """What a field means; it becomes its description in the JSON Schema and its comment in the facts template."""
    return Meta(description=text)


class RecordGate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One condition of a pass that took part in the verdict."""

    name: Annotated[str, says("the figure, with its slice when it is one of a slice: ttft_p95, faq:attainment")]
    relation: Annotated[Literal[">=", "<=", "="], says("how the value must stand to the limit")]
    limit: Annotated[float | str, says("in the unit of the figure; flat for a trend")]
    value: Annotated[Figure | str, says("null: not measured; the gate can then neither pass nor fail")]
    passed: Annotated[bool | None, says("null: the value was not measured, or says nothing")] = msgspec.field(
        name="pass"
    )
    signed: Annotated[bool, says("the confidence interval of the value lies on the same side of the limit")]
    default: Annotated[bool, says("a default of llm_locust, chosen by nobody for this run")]


class RecordGenerator(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Did the load generator do what was planned? If not, the record says nothing about the server."""

    valid: Annotated[bool, says("it did what was planned")]
    reasons: Annotated[Texts, says("why it is not valid, as sentences")]


class EvidenceRecord(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One test point as evidence. In Python every field but the identity may be left out; in a file all of them stand."""

    # Identity: which test this is, and on what it was run.
    schema_version: Annotated[Literal["1.1"], says("version of this form")] = "1.1"
    test_id: Annotated[str, Meta(min_length=1), says("unique among records: run, stage and round")]
    run_id: Annotated[Text, says("the run it was measured in; null: transcribed from elsewhere")] = None
    stage: Annotated[Count, says("number of the stage in its run")] = None
    round: Annotated[Count, says("repetition of the stage with a fresh seed; the first is 0")] = None
    tested_at: Annotated[
        str,
        Meta(pattern=r"^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2}))?$"),
        says("start of the stage, ISO 8601 with time zone; a date alone when no more is known"),
    ]
    evidence_stage: Annotated[Text, says("the stage of the run that this is evidence of")] = None
    environment: Annotated[Text, says("where it ran: host or cluster, network path, other tenants")] = None
    synthetic_engine: Annotated[bool, says("the server was the simulator: nothing here is performance")] = False
    engine: Annotated[Text, says("serving engine by its own name")] = None
    engine_version: Annotated[Text, says("exact version as the engine writes it, not a moving tag")] = None
    image_digest: Annotated[
        Annotated[str, Meta(pattern="^([^@ ]+@)?sha256:[0-9a-f]{64}$")] | None,
        says("container image by digest: sha256:..., its name may precede with @; null: no container, or not known"),
    ] = None
    model_id: Annotated[Text, says("model name as requests ask for it")] = None
    model_revision: Annotated[Text, says("revision of the weights: commit hash or release")] = None
    weights_sha256: Annotated[Sha256, says("SHA-256 of the weights file, 64 hexadecimal digits")] = None
    quantization_dtype: Annotated[Text, says("data type or quantisation of the weights")] = None
    kv_cache_dtype: Annotated[Text, says("data type of the KV cache")] = None
    tokenizer_revision: Annotated[Text, says("revision of the tokenizer")] = None
    chat_template_sha256: Annotated[Sha256, says("SHA-256 of the chat template, 64 hexadecimal digits")] = None
    accelerator: Annotated[Text, says("accelerator as its tool names it; null: it runs on CPU, or not known")] = None
    accelerator_count: Annotated[Count, says("accelerators that serve the model; 0: none, it runs on CPU")] = None
    interconnect: Annotated[Text, says("link between accelerators")] = None
    parallelism: Annotated[Text, says("tensor, pipeline, data and expert parallelism")] = None
    available_memory_gb: Annotated[Amount, says("memory the engine can have, all accelerators together, in GB")] = None
    gpu_residency: Annotated[Text, says("how much of the model lies in accelerator memory")] = None
    driver_runtime_host: Annotated[Text, says("accelerator driver, runtime and operating system of the host")] = None
    cuda: Annotated[Text, says("CUDA (or ROCm) version; null: none, or not known")] = None
    cpu: Annotated[Text, says("CPU model of the server")] = None
    ram_gb: Annotated[Amount, says("main memory of the server in GB")] = None
    numa: Annotated[Text, says("NUMA layout and pinning")] = None
    power_limit_w: Annotated[Amount, says("power limit per accelerator in watts")] = None
    replicas: Annotated[Number, says("independent copies of the server behind the address")] = None
    server_admission_cap: Annotated[
        Number, says("requests the server takes before it rejects; null: no cap, or not known")
    ] = None
    prefix_caching: Annotated[bool | None, says("prefix caching was on")] = None
    batching_limits: Annotated[Text, says("limits of the engine's batches: sequences, tokens, chunked prefill")] = None

    # Workload: what was sent, and what counted.
    workload_name: Annotated[Text, says("name of the workload")] = None
    workload_kind: Annotated[
        Literal["synthetic", "representative"] | None, says("made up, or taken from real traffic")
    ] = None
    dataset_source: Annotated[Text, says("where the prompts come from")] = None
    workload_sha256: Annotated[Sha256, says("SHA-256 of the prompts and their limits")] = None
    slices: Annotated[Texts | None, says("named parts of the workload; empty: it has none")] = None
    arrival_mode: Annotated[
        ArrivalMode | None, says("open: arrivals do not wait for the server; closed: a fixed number in flight")
    ] = None
    arrival_process: Annotated[Text, says("arrival process of open arrivals; null for a closed loop")] = None
    streaming: Annotated[bool | None, says("replies were streamed")] = None
    request_rate_rps: Annotated[Amount, says("target arrival rate per second; null for a closed loop")] = None
    achieved_rate_rps: Annotated[Rate, says("measured requests sent / seconds")] = None
    concurrency: Annotated[Count, says("in flight: a closed loop's own number, of open arrivals the peak")] = None
    max_in_flight: Annotated[Number, says("client-side cap on requests in flight; null: no cap")] = None
    max_active_sequences: Annotated[Number, says("sequences that the engine decodes at once, at most")] = None
    context_limit_tokens: Annotated[Number, says("context limit of the served model in tokens")] = None
    input_tokens_p50: Annotated[Count, says("tokens, over ok requests")] = None
    input_tokens_p95: Annotated[Count, says("tokens, over ok requests")] = None
    input_tokens_p99: Annotated[Count, says("tokens, over ok requests")] = None
    input_tokens_max: Annotated[Count, says("tokens, over ok requests")] = None
    output_tokens_p50: Annotated[Count, says("tokens, over ok requests")] = None
    output_tokens_p95: Annotated[Count, says("tokens, over ok requests")] = None
    output_tokens_p99: Annotated[Count, says("tokens, over ok requests")] = None
    output_tokens_max: Annotated[Count, says("tokens, over ok requests")] = None
    output_tokens_sources: Annotated[
        Counts, says("ok requests by where their output token count comes from: usage, events, tokenizer, missing")
    ] = None
    shared_prefix_share: Annotated[Share, says("share of input tokens in prefixes that requests share, 0 to 1")] = None
    cold_share: Annotated[
        Share,
        says(
            "share of measured requests that waited for the model to be loaded, of those where the server says, 0 to 1"
        ),
    ] = None
    cache_state: Annotated[Text, says("state of the prefix cache at the start: cold, warmed by what")] = None
    sampling: Annotated[Text, says("sampling parameters")] = None
    success_criterion: Annotated[Text, says("what made a request ok")] = None
    quality_precondition: Annotated[
        Text, says("how answer quality was checked, beforehand or in the run; null: it was not")
    ] = None
    warmup_requests: Annotated[Count, says("requests before the window, not measured")] = None
    measured_requests: Annotated[Count, says("requests that the figures are made of, failures included")] = None
    test_minutes: Annotated[Amount, says("from the start of the warm-up to the end of the drain")] = None
    seconds_method: Annotated[Text, says("what the divisor of the rates (seconds) is")] = None
    deadline_s: Annotated[Amount, says("wall-clock limit of a whole request, stream included")] = None
    drain_policy: Annotated[Text, says("what became of requests in flight at the end of arrivals")] = None
    percentile_method: Annotated[Text, says("how percentiles were taken")] = None

    # Results.
    planned: Annotated[Count, says("arrivals due in the whole stage = attempted + not_sent + lost")] = None
    attempted: Annotated[Count, says("of the whole stage: every outcome but not_sent and lost")] = None
    not_sent: Annotated[Count, says("of the whole stage: due, but never issued")] = None
    lost: Annotated[Count, says("of the whole stage: their worker died")] = None
    dispatched: Annotated[Count, says("measured requests that the generator took up")] = None
    sent: Annotated[Count, says("measured requests that were issued")] = None
    successful_requests: Annotated[Count, says("measured requests with outcome ok")] = None
    failed_requests: Annotated[Count, says("measured requests with any other outcome")] = None
    outcomes: Annotated[Counts, says("measured requests by outcome")] = None
    status_counts: Annotated[Counts, says("measured requests by HTTP status; without one: no reply head came")] = None
    quality_failures: Annotated[Count, says("measured requests that failed a quality check; null: no check ran")] = None
    request_throughput_rps: Annotated[Rate, says("successful_requests / seconds; a ratio of the batch")] = None
    output_throughput_tps: Annotated[Rate, says("output tokens of ok requests / seconds; null: one is missing")] = None
    total_throughput_tps: Annotated[Rate, says("input and output tokens of ok requests / seconds")] = None
    ttft_p50_ms: Annotated[Latency, says("first output - sent, over ok requests")] = None
    ttft_p95_ms: Annotated[Latency, says("first output - sent, over ok requests")] = None
    ttft_p99_ms: Annotated[Latency, says("first output - sent, over ok requests")] = None
    tpot_p50_ms: Annotated[Latency, says("(E2E - TTFT) / (output tokens - 1), over ok requests that have 2")] = None
    tpot_p95_ms: Annotated[Latency, says("(E2E - TTFT) / (output tokens - 1), over ok requests that have 2")] = None
    tpot_p99_ms: Annotated[Latency, says("(E2E - TTFT) / (output tokens - 1), over ok requests that have 2")] = None
    e2e_p50_ms: Annotated[Latency, says("complete - sent, over ok requests")] = None
    e2e_p95_ms: Annotated[Latency, says("complete - sent, over ok requests")] = None
    e2e_p99_ms: Annotated[Latency, says("complete - sent, over ok requests")] = None
    itl_p95_ms: Annotated[Wait, says("gaps between output events of ok requests; null: gaps were not kept")] = None
    max_gap_p95_ms: Annotated[Latency, says("longest gap between output events of a request, over ok requests")] = None
    arrival_ttft_p95_ms: Annotated[Latency, says("first output - planned, over ok requests; null: closed loop")] = None
    arrival_e2e_p95_ms: Annotated[Latency, says("complete - planned, over ok requests; null: closed loop")] = None
    dispatch_lag_p99_ms: Annotated[Wait, says("dispatched - planned: the generator was late; null: closed loop")] = None
    cap_wait_p95_ms: Annotated[Wait, says("sent - dispatched: held back by max_in_flight")] = None
    client_wait_p95_ms: Annotated[Wait, says("sent - planned; null: closed loop")] = None
    queue_time_p95_ms: Annotated[Wait, says("time in the server's queue, from its own histogram")] = None
    running_peak: Annotated[Count, says("requests that the server was running, at most")] = None
    running_trend: Annotated[Trend, says("of running requests over spans of the window")] = None
    waiting_peak: Annotated[Count, says("requests that waited in the server, at most")] = None
    waiting_trend: Annotated[Trend, says("of waiting requests over spans of the window")] = None
    kv_cache_peak_pct: Annotated[
        Annotated[float, Meta(ge=0, le=100)] | None, says("largest share of KV-cache blocks in use x 100")
    ] = None
    kv_cache_size_tokens: Annotated[Number, says("tokens that the KV cache holds, as the engine says at start")] = None
    kv_cache_max_concurrency: Annotated[
        Amount, says("sequences of full context that the KV cache holds, as the engine says at start")
    ] = None
    prefix_cache_hit_rate: Annotated[Share, says("share of queried tokens found in the prefix cache, 0 to 1")] = None
    startup_peak_memory_gb: Annotated[Amount, says("peak memory while the engine started, in GB")] = None
    peak_memory_gb: Annotated[Amount, says("peak memory while the stage ran, in GB; needs the next three")] = None
    memory_tool: Annotated[Text, says("what measured peak_memory_gb")] = None
    memory_scope: Annotated[Literal["process", "device"] | None, says("whose memory peak_memory_gb is")] = None
    memory_kind: Annotated[Literal["vram", "unified", "ram"] | None, says("which memory peak_memory_gb is")] = None
    preemptions: Annotated[Count, says("sequences that the engine preempted during the window")] = None
    evictions: Annotated[Count, says("cache blocks that the engine evicted during the window")] = None
    offload: Annotated[Text, says("what was offloaded from accelerator memory, and where to; none if nothing")] = None

    # Goodput.
    slo: Annotated[
        dict[str, Annotated[float, Meta(gt=0)]],
        says("chosen limits per request in milliseconds, and quality as 1; empty: none chosen"),
    ] = {}
    good_requests: Annotated[Count, says("ok requests that met every limit; null: no limits, or unavailable")] = None
    goodput_unavailable: Annotated[Text, says("why good_requests is null")] = None
    goodput_rps: Annotated[Rate, says("good_requests / seconds")] = None
    attainment: Annotated[Share, says("good_requests / measured_requests, 0 to 1")] = None
    error_rate: Annotated[Share, says("failed_requests / measured_requests, 0 to 1")] = None
    completed_in_window_rps: Annotated[Rate, says("ok requests complete inside the window / its length")] = None
    goodput_vllm_rps: Annotated[
        Rate, says("good requests of the whole stage / time to its last end, as vLLM's bench divides")
    ] = None
    seconds: Annotated[Amount, says("divisor of the rates; see seconds_method")] = None
    drain_seconds: Annotated[Rate, says("from the end of arrivals to the end of the last request")] = None
    in_flight_at_window_end: Annotated[Count, says("requests in flight when the window ended")] = None

    # Verdict.
    gates: Annotated[list[RecordGate], says("the conditions of a pass that applied")] = []
    gates_set: Annotated[WhenSet | None, says("after: some were set after the run, which earns no release")] = None
    result: Annotated[
        Literal["pass", "fail", "undetermined", "invalid"] | None, says("null: transcribed, and not judged here")
    ] = None
    result_strength: Annotated[
        Strength | None, says("signed: the confidence interval clears the limit; null: neither pass nor fail")
    ] = None
    verdict: Annotated[Text, says("the result in words")] = None
    failing_dimensions: Annotated[list[FailingDimension], says("what a fail is due to; empty unless it is one")] = []
    generator: Annotated[RecordGenerator | None, says("null: transcribed, so nothing is known of it")] = None
    server_changes: Annotated[
        Texts, says("what of the server was another thing at the end of the run; empty: nothing that was asked")
    ] = []
    rounds: Annotated[Count, says("rounds of this test point with a valid generator, this one included")] = None
    success_threshold: Annotated[float, Meta(gt=0, le=1), says("least share of ok for performance")] = SUCCESS_THRESHOLD
    evidence_grade: Annotated[Grade, says("how far the record can be trusted as performance")]
    evidence_grade_reasons: Annotated[Texts, says("what the record lacks for the grade performance")] = []
    evidence_location: Annotated[Text, says("where the raw files are")] = None
    limitations: Annotated[Texts, says("what the result does not say")] = []
    owner: Annotated[Text, says("who answers for the result")] = None
    retest_when: Annotated[Texts, says("changes after which the result no longer holds")] = []

    def save(self, path: Path) -> None:
        """Write atomically: a reader sees the old record or the new one, never half of one."""
        write_whole_json(path, self)

    @staticmethod
    def load(path: Path) -> EvidenceRecord:
        """Read a record by its types alone; ``llm-locust validate`` also holds it to the rules between fields.

        Raises:
            UsageError: there is none, or it is not a record of this version.
        """
        try:
            return msgspec.json.decode(path.read_bytes(), type=EvidenceRecord)
        except FileNotFoundError:
            raise UsageError(f"{path}: there is no such file") from None
        except msgspec.MsgspecError as error:
            raise UsageError(f"{path}: not an evidence record of schema {SCHEMA_VERSION}: {error}") from None


class StageTelemetry(msgspec.Struct, frozen=True, kw_only=True):
    """What the server's metrics and the device samples of one stage showed, as a record takes it; ``None``: not read."""

    queue_time_p95_ms: Wait = None
    running_peak: Count = None
    running_trend: Trend = None
    waiting_peak: Count = None
    waiting_trend: Trend = None
    kv_cache_peak_pct: Rate = None
    prefix_cache_hit_rate: Share = None
    startup_peak_memory_gb: Amount = None
    peak_memory_gb: Amount = None
    memory_tool: Text = None
    memory_scope: Literal["process", "device"] | None = None
    memory_kind: Literal["vram", "unified", "ram"] | None = None
    preemptions: Count = None
    evictions: Count = None


NOT_READ = StageTelemetry()


FIELD_TYPES: dict[str, Any] = {field.name: field.type for field in msgspec.structs.fields(EvidenceRecord)}
"""Every field of the record with its type, constraints and description included."""
