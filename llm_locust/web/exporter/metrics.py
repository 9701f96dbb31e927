"""Every metric of the exporter: its name, its kind, its labels and what it says. The only place that knows the names.

Names follow Prometheus' practice: base units (seconds, bytes, shares from 0 to 1 as ``_ratio``), counters end in ``_total``.
What was not measured has no sample; 0 is only ever a measured 0. Counters never fall while a run lasts, and begin anew with
the next run, as those of a process that was started again.

How many series there are: a stage has about 60 of its own; each of its slices and user classes together (a *cell*) has up to
200: eight histograms of 21 to 25 series, one per outcome seen (at most 16) and one per HTTP status seen. Cells are bounded,
:data:`MOST_CELLS`, newest stages first, so that the page stays below some 25,000 series; a ladder of six stages with one
slice and one user class has about 1,400.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from llm_locust.live.snapshot import LATENCIES

MOST_CELLS = 128
"""Of all exported stages together. The newest stage is always exported whole; older stages leave first."""

Kind = Literal["counter", "gauge", "histogram"]

STAGE = ("stage", "load")
"""``stage`` is the number as in requests.csv, from 0; ``load`` is what a table calls it, one to one with the number."""
CELL = (*STAGE, "slice", "user")
"""``slice`` is empty where the workload has none, and so is ``user`` where classes are not told apart."""
WORKER = ("worker", "host")
SERVER = ("target", "engine")
DEVICE = ("device", "kind")


class ExportedMetric(NamedTuple):
    """One metric."""

    name: str
    """Without the prefix ``llm_locust_``; a counter's with ``_total``."""
    kind: Kind
    labels: tuple[str, ...]
    help: str

    @property
    def full_name(self) -> str:
        """As it stands on the page."""
        return f"llm_locust_{self.name}"

    @property
    def unit(self) -> str:
        """The base unit that its name ends with; empty for a bare number."""
        last = self.name.removesuffix("_total").rpartition("_")[2]
        return last if last in ("seconds", "bytes", "ratio", "watts") else ""


LATENCY_MEANING = {
    "ttft": "Time to first token, from sending the request to its first output, of ok requests.",
    "tpot": "Time per output token after the first, one value per ok request of at least 2 tokens.",
    "itl": "Gaps between consecutive output events of ok requests, one value per gap; only where gaps are kept.",
    "e2e": "From sending the request to its finish, of ok requests.",
    "max_gap": "The longest gap between output events of each ok request.",
    "client_wait": "From the planned time to sending: dispatch lag and cap wait, of every request that was sent.",
    "dispatch_lag": "From the planned time to the load generator taking the request up, of every request that was sent.",
    "cap_wait": "How long --max-in-flight held the request back, of every request that was sent.",
}

_TABLE = (
    # The run.
    ExportedMetric(
        "run_info",
        "gauge",
        ("run_id", "target", "model", "synthetic"),
        "The run this is of; synthetic says that the server is the synthetic engine and no figure is performance.",
    ),
    ExportedMetric("run_state", "gauge", ("state",), "1 for the state that the run is in, 0 for the others."),
    ExportedMetric("runs_total", "counter", (), "Runs that this process has begun."),
    ExportedMetric("run_start_time_seconds", "gauge", (), "When the run began, Unix time."),
    ExportedMetric("run_stages_planned", "gauge", (), "Stages that the run will have, where that is known."),
    ExportedMetric("run_exit_code", "gauge", (), "Exit code of the judged run: 0 is a run with a verdict."),
    ExportedMetric("slo_limit_seconds", "gauge", ("limit",), "Latency limit of a good request, as chosen before load."),
    ExportedMetric(
        "live_view_cpu_seconds_total", "counter", (), "Processor time that this picture has cost the master."
    ),
    ExportedMetric(
        "stages_left_out", "gauge", (), "Older stages that are no longer exported, so that the page stays small."
    ),
    # A stage, all phases.
    ExportedMetric("stage_info", "gauge", (*STAGE, "mode", "round"), "The stage: open arrivals or a closed loop."),
    ExportedMetric(
        "stage_phase", "gauge", (*STAGE, "phase"), "1 for the phase that the stage is in, 0 for the others."
    ),
    ExportedMetric("stage_result", "gauge", (*STAGE, "result"), "1 for what the stage was judged to be, once it is."),
    ExportedMetric("stage_offered_requests_per_second", "gauge", STAGE, "Planned arrival rate of an open stage."),
    ExportedMetric("stage_offered_concurrency", "gauge", STAGE, "Requests that a closed loop keeps in flight."),
    ExportedMetric("stage_start_time_seconds", "gauge", STAGE, "When the stage began, Unix time."),
    ExportedMetric("stage_progress_ratio", "gauge", STAGE, "How much of the stage is behind."),
    ExportedMetric("arrivals_planned_total", "counter", STAGE, "Arrivals whose planned time has passed, all phases."),
    ExportedMetric("requests_sent_total", "counter", STAGE, "Requests sent, all phases."),
    ExportedMetric("requests_completed_total", "counter", STAGE, "Arrivals that have an outcome, all phases."),
    ExportedMetric("requests_in_flight", "gauge", STAGE, "Requests sent and not ended."),
    ExportedMetric("requests_waiting", "gauge", STAGE, "Requests held back by --max-in-flight."),
    # A stage, what it is judged by: the measurement window's requests.
    ExportedMetric("stage_window_seconds", "gauge", STAGE, "Seconds of the measurement window that have passed."),
    ExportedMetric("stage_throughput_requests_per_second", "gauge", STAGE, "ok / seconds of the window, so far."),
    ExportedMetric("stage_goodput_requests_per_second", "gauge", STAGE, "good / seconds of the window, so far."),
    ExportedMetric("stage_attainment_ratio", "gauge", STAGE, "good / measured, failures included, so far."),
    ExportedMetric("stage_error_ratio", "gauge", STAGE, "failed / measured, so far."),
    ExportedMetric(
        "stage_latency_seconds",
        "gauge",
        (*STAGE, "latency", "percentile"),
        "Percentiles of the window so far, nearest rank within 0.5 %: closer than what the histograms' buckets can tell.",
    ),
    # A cell: one slice of one user class.
    ExportedMetric(
        "measured_requests_total", "counter", (*CELL, "outcome"), "Requests of the window by what became of them."
    ),
    ExportedMetric("measured_responses_total", "counter", (*CELL, "status"), "Responses of the window by HTTP status."),
    ExportedMetric("good_requests_total", "counter", CELL, "Requests of the window that were ok and met every limit."),
    ExportedMetric("measured_output_tokens_total", "counter", CELL, "Output tokens of the window's ok requests."),
    *(ExportedMetric(f"{name}_seconds", "histogram", CELL, LATENCY_MEANING[name]) for name in LATENCIES),
    # The load generator.
    ExportedMetric(
        "generator_keeps_up", "gauge", STAGE, "0 when the stage would be void if it stayed so: see the terminal."
    ),
    ExportedMetric("generator_dispatch_lag_p99_seconds", "gauge", STAGE, "P99 of the dispatch lag, so far."),
    ExportedMetric(
        "generator_dispatch_lag_bound_seconds",
        "gauge",
        STAGE,
        "Later than this an arrival is late; over 1 % of them, and over one, void a stage.",
    ),
    ExportedMetric(
        "generator_first_coalesced_ratio",
        "gauge",
        STAGE,
        "Requests whose first output shared a read with more: their TTFT is an upper bound.",
    ),
    ExportedMetric("generator_lost_workers", "gauge", STAGE, "Workers lost in the stage; one voids it."),
    ExportedMetric("worker_up", "gauge", WORKER, "0 for a worker that is lost."),
    ExportedMetric("worker_report_age_seconds", "gauge", WORKER, "Since the worker's newest report."),
    ExportedMetric("worker_cpu_ratio", "gauge", WORKER, "Processor time of the worker; 1 is one core."),
    ExportedMetric(
        "worker_loop_lag_seconds", "gauge", WORKER, "Worst lateness of a timer in the worker's last report."
    ),
    ExportedMetric("worker_clock_uncertainty_seconds", "gauge", WORKER, "How far its clock may be off the master's."),
    ExportedMetric("worker_requests_in_flight", "gauge", WORKER, "Requests sent and not ended."),
    ExportedMetric("worker_requests_waiting", "gauge", WORKER, "Requests held back by --max-in-flight."),
    ExportedMetric("worker_failures_in_a_row", "gauge", WORKER, "Requests that failed one after another."),
    # What the master read of the server and its machine, under the same names whatever the engine.
    ExportedMetric("server_up", "gauge", SERVER, "1 while the server's metrics page can be read."),
    ExportedMetric("server_sample_age_seconds", "gauge", SERVER, "Since the page was read last."),
    ExportedMetric("server_running_requests", "gauge", SERVER, "Requests in the server's batch."),
    ExportedMetric("server_waiting_requests", "gauge", SERVER, "Requests in the server's queue."),
    ExportedMetric(
        "server_kv_cache_usage_ratio", "gauge", SERVER, "Share of KV-cache blocks in use, of the fullest engine."
    ),
    ExportedMetric(
        "server_queue_time_p95_seconds",
        "gauge",
        SERVER,
        "P95 of the queue time between the last readings, as an upper bound.",
    ),
    ExportedMetric(
        "server_model_residency_ratio", "gauge", SERVER, "Share of the model that is in accelerator memory."
    ),
    ExportedMetric("server_device_utilisation_ratio", "gauge", DEVICE, "Share of time in which the device worked."),
    ExportedMetric("server_device_memory_used_bytes", "gauge", DEVICE, "Memory in use."),
    ExportedMetric("server_device_memory_total_bytes", "gauge", DEVICE, "Memory of the device."),
    ExportedMetric("server_device_power_watts", "gauge", DEVICE, "Power draw."),
)

METRICS: dict[str, ExportedMetric] = {metric.name: metric for metric in _TABLE}
"""By name without the prefix, in the order of the page."""


def exported_series() -> frozenset[str]:
    """Names of all series that the page can hold, as a query writes them (a histogram's end in ``_bucket``, ...)."""
    found = set()
    for metric in _TABLE:
        ends = ("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",)
        found |= {metric.full_name + end for end in ends}
    return frozenset(found)
