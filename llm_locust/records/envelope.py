"""The envelope of a release: what may be published of a service, for what it holds, what it rests on, what it leaves out.

One JSON object, ``envelope.json``, written only where every requirement of a release is met. ``null`` means not measured or
not applicable, never 0; units are in the names, shares run from 0 to 1. :mod:`llm_locust.records.envelope_schema` makes the
JSON Schema out of the types and descriptions here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from llm_locust.records.errors import UsageError
from llm_locust.records.evidence import Amount, Count, Grade, Latency, Number, Rate, Share, Text, Texts, says
from llm_locust.records.facts import FactValue
from llm_locust.records.stage import ArrivalMode
from llm_locust.records.summary import FailingDimension, Result, WhenSet
from llm_locust.records.whole_file import write_whole_json

ENVELOPE_VERSION = "1.0"

ENVELOPE_JSON = "envelope.json"
"""Its name in the folder of the first run that it is of; the page for people stands beside it as ``envelope.md``."""

SERVICE_FIELDS: tuple[str, ...] = (
    "model_id", "model_revision", "weights_sha256", "quantization_dtype", "tokenizer_revision", "chat_template_sha256",
    "engine", "engine_version", "image_digest", "parallelism", "replicas", "context_limit_tokens", "max_active_sequences",
    "server_admission_cap", "batching_limits", "prefix_caching", "kv_cache_dtype", "kv_cache_size_tokens", "offload",
    "accelerator", "accelerator_count", "available_memory_gb", "gpu_residency", "interconnect", "power_limit_w",
    "driver_runtime_host", "cuda", "cpu", "ram_gb", "numa", "environment",
)  # fmt: skip
"""Fields of the evidence record that say which service it is: model, engine, hardware."""

WORKLOAD_FIELDS: tuple[str, ...] = (
    "workload_name", "workload_kind", "dataset_source", "workload_sha256", "slices", "streaming", "sampling",
    "shared_prefix_share", "cache_state", "quality_precondition", "success_criterion",
    *(f"{which}_tokens_{at}" for which in ("input", "output") for at in ("p50", "p95", "p99", "max")),
)  # fmt: skip
"""Fields of the evidence record that say what was sent."""

Name = Annotated[str, Meta(min_length=1)]
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Positive = Annotated[float, Meta(gt=0)]


class ReleaseRequirement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that a release requires."""

    name: Annotated[Name, says("a word for it: rounds, memory, ...")]
    required: Annotated[Name, says("what is required, in words")]
    found: Annotated[Name, says("what was found, in words")]
    met: Annotated[bool | None, says("null: it cannot be told; an envelope has none that is not true")]


class BoundedPercentile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A percentile of one round with what is known of the true one."""

    value_ms: Annotated[Latency, says("as it was measured")]
    at_most_ms: Annotated[
        Latency, says("the true percentile is at most this with 95 % confidence; null: too few requests")
    ]
    requests: Annotated[int, Meta(ge=0), says("that it is made of")]


class EnvelopeRound(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One round of a point that the envelope rests on."""

    test_id: Annotated[Name, says("of its evidence record")]
    tested_at: Annotated[Name, says("start of the stage, ISO 8601")]
    measured_requests: Annotated[int, Meta(ge=0), says("that the figures are made of")]
    seconds: Annotated[Amount, says("length of the window")]
    attainment: Annotated[Share, says("good / measured requests")]
    goodput_rps: Annotated[Rate, says("good requests per second")]
    error_rate: Annotated[Share, says("failed / measured requests")]
    in_flight_peak: Annotated[Count, says("most requests in flight inside the window")]
    peak_memory_gb: Annotated[Amount, says("peak memory while the stage ran, in GB")]
    memory: Annotated[Text, says("which memory, whose, and what measured it")]
    good_output_tokens_per_s: Annotated[Rate, says("output tokens of good requests inside the window / its length")]
    cost_per_million_good_tokens: Annotated[Amount, says("in the currency of the price; null: no price")]
    percentiles: Annotated[dict[str, BoundedPercentile], says("by name: ttft_p95, ttft_p99, ...; over ok requests")]


class EnvelopePoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rate or concurrency that passed in every round, every gate signed."""

    name: Annotated[Name, says("as its stages are labelled")]
    mode: Annotated[ArrivalMode, says("open: arrivals do not wait for the server; closed: a fixed number in flight")]
    rate_rps: Annotated[Amount, says("arrivals per second; null for a closed loop")]
    concurrency: Annotated[Count, says("of a closed loop; null for open arrivals")]
    rounds: Annotated[list[EnvelopeRound], says("each repetition"), Meta(min_length=1)]


class EnvelopeLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every round was held to."""

    slo: Annotated[dict[str, Positive], says("limits per request in milliseconds, and quality as 1")]
    gates: Annotated[list[Name], says("what a stage must hold, as it was chosen"), Meta(min_length=1)]
    gates_set: Annotated[Literal["before"], says("limits and gates were fixed before load")] = "before"
    deadline_s: Annotated[Amount, says("wall-clock limit of a whole request, stream included")]
    max_in_flight: Annotated[Number, says("client-side cap on requests in flight; null: no cap")]


class EnvelopeBurst(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another arrival process of the released mean rate: a burst, or a trace played again."""

    name: Annotated[Name, says("as its stages are labelled")]
    result: Annotated[Result, says("of all its rounds together")]


class EnvelopeRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the runs."""

    run_id: Annotated[Name, says("name of the run")]
    started_at: Annotated[Name, says("ISO 8601, UTC")]
    ended_at: Annotated[Text, says("ISO 8601, UTC; null: its master was killed")]
    llm_locust: Annotated[Text, says("version that made the load")]


class EnvelopeEvidence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One evidence record of the runs."""

    test_id: Annotated[Name, says("of the record: run, stage and round")]
    file: Annotated[Name, says("below the folder that holds the run folders")]
    sha256: Annotated[Digest, says("of the file's bytes")]
    label: Annotated[Name, says("the stage")]
    result: Annotated[Result, says("of the stage")]
    evidence_grade: Annotated[Grade, says("as filed; rounds that were run apart count together in a release")]
    counted: Annotated[bool, says("false: invalid, so it says nothing in either direction")]


class Envelope(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What may be published of one service."""

    schema_version: Annotated[Literal["1.0"], says("version of this form")] = "1.0"
    released_at: Annotated[Name, says("when the requirements were found to be met, ISO 8601")]
    released_by: Annotated[Name, says("what found it")]

    # What it can do.
    max_rate_rps: Annotated[Positive, says("highest arrival rate that passed in every round, every gate signed")]
    arrivals: Annotated[Name, says("its arrival process")]
    conversations: Annotated[bool, says("the rate is that of conversations, whose next turns come beside it")]
    max_concurrency: Annotated[
        int,
        Meta(ge=1),
        says(
            "requests in flight: the most seen at a point that passed so, or kept in flight by a closed loop that did"
        ),
    ]
    max_concurrency_at: Annotated[Name, says("where that was")]
    closed_loop_passed: Annotated[Number, says("requests kept in flight by the largest closed loop that passed so")]
    closed_loop_first_failing: Annotated[Number, says("... by the smallest that failed; null: none was seen to fail")]
    cost_per_million_good_tokens: Annotated[
        Positive,
        says(
            "at max_rate_rps, in the currency of the price, of the dearest round: price_per_hour / (output tokens of good "
            "requests that came out inside the window, per hour) x 1,000,000"
        ),
    ]
    price_per_hour: Annotated[Positive, says("of the machines under test")]
    price_set: Annotated[WhenSet, says("after: given with the release")]
    first_failing_rate_rps: Annotated[Amount, says("lowest rate that failed; null: none was seen to fail")]
    failing_dimensions: Annotated[list[FailingDimension], says("what it failed on")]
    burst: Annotated[EnvelopeBurst | None, says("null: not run")]
    points: Annotated[list[EnvelopePoint], says("the points that the above is read from, round by round")]

    # For what it holds.
    service_of: Annotated[Name, says("test_id of the record that service and workload are copied from")]
    service: Annotated[dict[str, FactValue | None], says("model, engine and hardware, as in the evidence record")]
    workload: Annotated[dict[str, FactValue | None], says("what was sent, as in the evidence record")]
    limits: Annotated[EnvelopeLimits, says("what every round was held to")]
    owner: Annotated[Text, says("who answers for it")]
    retest_when: Annotated[Texts, says("changes after which it no longer holds")]

    # What it rests on, and what it does not say.
    runs: Annotated[list[EnvelopeRun], says("the runs that were released together"), Meta(min_length=1)]
    evidence: Annotated[list[EnvelopeEvidence], says("every evidence record of the runs"), Meta(min_length=1)]
    requirements: Annotated[list[ReleaseRequirement], says("of a release, all of them met"), Meta(min_length=1)]
    not_covered: Annotated[Texts, says("what was not tested")]
    limitations: Annotated[Texts, says("what it does not say")]

    def save(self, path: Path) -> None:
        """Write atomically: a reader sees the old envelope or the new one, never half of one."""
        write_whole_json(path, self)

    @staticmethod
    def load(path: Path) -> Envelope:
        """Read an envelope.

        Raises:
            UsageError: there is none, or it is not an envelope of this version.
        """
        try:
            return msgspec.json.decode(path.read_bytes(), type=Envelope)
        except FileNotFoundError:
            raise UsageError(f"{path}: there is no such file") from None
        except msgspec.MsgspecError as error:
            raise UsageError(f"{path}: not an envelope of version {ENVELOPE_VERSION}: {error}") from None
