"""What everything that shows a running run reads: web pages, Locust's tab, the exporter, the terminal.

All of it is *so far*: counts of what ended until now, percentiles of a sketch. A run is judged from its files, by the merge.
``None`` means not measured, never 0. Times are Unix seconds of the master's clock; units are in the names.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Phase = Literal["preparing", "warm-up", "window", "cool-down", "draining", "done"]
"""Where a stage is. A closed loop of Locust's users is in its window until it is stopped."""


def left_words(phase: str, left_s: float | None) -> str:
    """The phase and what is left of it: ``window, 10 s left``; a cool-down ends early when all measured replies are in."""
    left = 0 if left_s is None else round(left_s)
    if not left or phase == "preparing":
        return phase
    return f"{phase}, {'at most ' if phase == 'cool-down' else ''}{left} s left"


RunState = Literal["idle", "running", "judging", "judged", "failed"]
"""``idle``: no run yet. ``judging``: the merge runs. ``judged``: it has. ``failed``: it did not come to that."""

LATENCIES: tuple[str, ...] = ("ttft", "tpot", "itl", "e2e", "max_gap", "client_wait", "dispatch_lag", "cap_wait")
"""The times that are kept as sketches, all in milliseconds, by the definitions of the merge: the first five of ok requests
(``itl`` one value per gap, when gaps are kept), the waits of every request that has them
(one given up while it was held back has none)."""


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """One latency of one group, in milliseconds."""

    count: int
    p50: float | None
    p95: float | None
    p99: float | None
    mean: float | None
    max: float | None


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    """The measured requests (phase ``measure``) of one stage, slice and user class, so far."""

    slice: str | None
    """``None``: all slices together."""
    user: str | None
    """``None``: all user classes together."""
    measured: int
    """Those with an outcome."""
    ok: int
    failed: int
    outcomes: dict[str, int]
    status_counts: dict[str, int]
    good: int | None
    """``None`` without limits, or when a limit's value is missing for an ok request."""
    attainment: float | None
    """good / measured, 0 to 1."""
    error_rate: float | None
    seconds: float | None
    """Of the window that have passed."""
    throughput_rps: float | None
    """ok / seconds."""
    goodput_rps: float | None
    """good / seconds."""
    output_tokens: int | None
    latencies: dict[str, Spread]
    """By the names of :data:`LATENCIES`; one without a value yet is left out."""


class GeneratorView(msgspec.Struct, frozen=True, kw_only=True):
    """Is the load generator keeping up in this stage? The judgement is the merge's; this warns early."""

    keeps_up: bool | None
    """``None``: too early to say, or nothing to say it by."""
    warnings: list[str]
    """What would void the stage if it stayed so, as sentences."""
    dispatch_lag_p99_ms: float | None
    lag_bound_ms: float | None
    first_coalesced_share: float | None
    lost_workers: list[int]
    cpu_percent_max: float | None
    """Of the busiest worker, in its newest report."""
    loop_lag_ms_max: float | None
    dispatched: int | None = None
    """Measured arrivals with a dispatch lag, so far; ``None`` for a closed loop."""
    late: int | None = None
    """... of which later than ``lag_bound_ms``: more than 1 % of them, and more than one, void the stage."""


class StageView(msgspec.Struct, frozen=True, kw_only=True):
    """One stage."""

    stage: int
    round: int
    label: str
    mode: str
    """``open`` or ``closed``."""
    rate_rps: float | None
    concurrency: int | None
    phase: Phase
    left_s: float | None
    """Until the next phase, where that is known."""
    share: float
    """Of the stage that is behind, 0 to 1."""
    start_s: float | None
    window_start_s: float | None
    window_end_s: float | None
    end_s: float | None
    interrupted: str | None
    planned: int
    """Arrivals whose planned time has passed (closed loop: taken up), all phases."""
    sent: int
    completed: int
    """Sent, and with an outcome, all phases."""
    in_flight: int
    waiting: int
    """Held back by the cap."""
    generator: GeneratorView
    groups: list[GroupView]
    """First all together, then each slice, each user class, and each pair where there is more than one of both."""
    result: str | None
    """``pass``, ``fail``, ... once the merge has judged it."""


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """One worker, by its newest report."""

    worker: int
    host: str
    lost: str | None
    """Why it is lost; ``None`` while it is not."""
    age_s: float | None
    """Since its newest report."""
    cpu_percent: float | None
    loop_lag_ms: float | None
    clock_uncertainty_ms: float | None
    sent: int
    in_flight: int
    waiting: int
    failures_in_a_row: int
    last_failure: str | None


class ServerView(msgspec.Struct, frozen=True, kw_only=True):
    """One metrics page, by its newest row."""

    target: str
    engine: str | None
    error: str | None
    age_s: float
    running: float | None
    waiting: float | None
    kv_usage_max: float | None
    """Share of cache blocks, 0 to 1."""
    queue_p95_ms: float | None
    """Of the requests between the last two looks that differ, as an upper bucket bound."""
    residency: float | None


class DeviceView(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU or process of the server's machine, by its newest row."""

    device: str
    kind: str
    """``gpu`` or ``process``."""
    utilisation_pct: float | None
    """Of a process its processor time, 100 for one core."""
    memory_used_bytes: float | None
    memory_total_bytes: float | None
    power_w: float | None


SERIES_COLUMNS: tuple[str, ...] = (
    "planned_rps", "sent_rps", "completed_rps", "ok_rps", "good_rps", "failed_rps", "rejected_rps", "timeout_rps",
    "in_flight", "waiting", "output_tokens_tps",
    "ttft_p50_ms", "ttft_p95_ms", "ttft_p99_ms", "tpot_p50_ms", "tpot_p95_ms", "tpot_p99_ms",
    "itl_p95_ms", "e2e_p50_ms", "e2e_p95_ms", "client_wait_p95_ms", "dispatch_lag_p99_ms",
    "server_running", "server_waiting", "server_kv_usage_pct", "server_queue_p95_ms",
    "gpu_utilisation_pct", "gpu_memory_gb", "worker_cpu_pct_max", "worker_loop_lag_ms_max",
)  # fmt: skip
"""Rates are per second of the step, of all phases (a chart shows the warm-up too); percentiles are of the requests whose end
was seen in that step."""


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """The run over time, on one axis. A step without a value of a column has ``None`` there."""

    step_s: float
    """Grows (doubles) with the run, so that memory and messages are bounded."""
    whole: bool
    """``False``: only the points that start at the time that was asked for, or later. The newest may be of a step that goes
    on; ask from the last but one that is known on."""
    t: list[float]
    """The start of each step."""
    columns: dict[str, list[float | None]]


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What the merge said."""

    exit_code: int
    sentence: str
    report: bool
    """Whether there is a ``report.html``."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A run, at one moment."""

    now_s: float
    generation: int
    """Counts the runs of this process; a page that sees another one begins anew."""
    state: RunState
    reason: str | None
    """Why it was stopped or failed."""
    stopping: Literal["drain", "now"] | None
    """What a person has asked for."""
    run_id: str | None
    folder: str | None
    started_s: float | None
    host: str | None
    model: str | None
    synthetic: bool
    """The server is the synthetic engine: none of these figures is performance."""
    slo: dict[str, float]
    gates: list[str]
    stage_count: int | None
    stages: list[StageView]
    workers: list[WorkerView]
    servers: list[ServerView]
    devices: list[DeviceView]
    series: Series
    judged: Judged | None
    sketch_error: float
    """Largest relative error of a percentile against the nearest-rank one of the same values. In the series that is so while
    its step is a second; percentiles of steps put together are within four times as much."""
    notes: list[str] = []
    """What of the run is not in this picture, as sentences; the files have it."""
