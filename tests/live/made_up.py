"""A snapshot made up by hand, for what shows one."""

from __future__ import annotations

import math
from typing import Any

from llm_locust.live.snapshot import (
    SERIES_COLUMNS,
    DeviceView,
    GeneratorView,
    GroupView,
    Judged,
    Series,
    ServerView,
    Snapshot,
    Spread,
    StageView,
    WorkerView,
)

T0 = 1_700_000_000.0


def spread(p50: float, count: int = 100) -> Spread:
    return Spread(count=count, p50=p50, p95=2 * p50, p99=3 * p50, mean=1.1 * p50, max=4 * p50)


def group(slice_: str | None = None, user: str | None = None, *, measured: int = 100, **changes: Any) -> GroupView:
    values: dict[str, Any] = {
        "slice": slice_, "user": user, "measured": measured, "ok": measured - 4, "failed": 4,
        "outcomes": {"ok": measured - 4, "timeout": 3, "rejected": 1}, "status_counts": {"200": measured - 1, "429": 1},
        "good": measured - 10, "attainment": (measured - 10) / measured, "error_rate": 4 / measured, "seconds": 50.0,
        "throughput_rps": (measured - 4) / 50, "goodput_rps": (measured - 10) / 50, "output_tokens": 12_000,
        "latencies": {"ttft": spread(120.0), "tpot": spread(21.0), "itl": spread(20.0, 9_000), "e2e": spread(2_400.0),
                      "max_gap": spread(60.0), "client_wait": spread(0.4), "dispatch_lag": spread(0.4)},
    }  # fmt: skip
    return GroupView(**{**values, **changes})


def stage(number: int = 0, rate: float = 2.0, **changes: Any) -> StageView:
    start = T0 + 90 * number
    values: dict[str, Any] = {
        "stage": number, "round": 0, "label": f"{rate:g} req/s", "mode": "open", "rate_rps": rate, "concurrency": None,
        "phase": "window", "left_s": 10.0, "share": 0.83, "start_s": start, "window_start_s": start + 20,
        "window_end_s": start + 80, "end_s": None, "interrupted": None, "planned": 140, "sent": 139, "completed": 130,
        "in_flight": 9, "waiting": 0,
        "generator": GeneratorView(keeps_up=True, warnings=[], dispatch_lag_p99_ms=1.2, lag_bound_ms=5.0,
                                   first_coalesced_share=0.001, lost_workers=[], cpu_percent_max=41.0, loop_lag_ms_max=2.1),
        "groups": [group(), group("faq", measured=60), group("long", measured=40), group(None, "OpenAIChatUser")],
        "result": None,
    }  # fmt: skip
    return StageView(**{**values, **changes})


def series(points: int = 120, step_s: float = 1.0) -> Series:
    columns: dict[str, list[float | None]] = {
        name: [round(10 + place + 5 * math.sin(k / 9 + place), 3) for k in range(points)]
        for place, name in enumerate(SERIES_COLUMNS)
    }
    columns["gpu_utilisation_pct"] = [None] * points
    columns["gpu_memory_gb"] = [None] * points
    return Series(step_s=step_s, whole=True, t=[T0 + k * step_s for k in range(points)], columns=columns)


def snapshot(**changes: Any) -> Snapshot:
    values: dict[str, Any] = {
        "now_s": T0 + 160.0, "generation": 1, "state": "running", "reason": None, "stopping": None,
        "run_id": "20261130-040000-ab12", "folder": "/tmp/runs/20261130-040000-ab12", "started_s": T0 - 3,
        "host": "http://127.0.0.1:8000", "model": "demo", "synthetic": True, "slo": {"ttft": 200.0, "tpot": 50.0},
        "gates": ["attainment>=0.95"], "stage_count": 3,
        "stages": [stage(0, 1.0, phase="done", left_s=None, share=1.0, end_s=T0 + 85), stage(1, 2.0)],
        "workers": [WorkerView(worker=k, host="load-1", lost=None, age_s=0.3, cpu_percent=30.0 + k, loop_lag_ms=1.0,
                               clock_uncertainty_ms=0.05, sent=70, in_flight=4, waiting=0, failures_in_a_row=0,
                               last_failure=None) for k in range(2)],
        "servers": [ServerView(target="http://127.0.0.1:8000/metrics", engine="vllm", error=None, age_s=0.6, running=8.0,
                               waiting=2.0, kv_usage_max=0.41, queue_p95_ms=30.0, residency=None)],
        "devices": [DeviceView(device="GPU-0", kind="gpu", utilisation_pct=88.0, memory_used_bytes=2.1e10,
                               memory_total_bytes=2.4e10, power_w=310.0)],
        "series": series(), "judged": None, "sketch_error": 0.005,
    }  # fmt: skip
    return Snapshot(**{**values, **changes})


def judged(code: int = 0, sentence: str = "2 req/s was sustained; 4 req/s failed on ttft.") -> Judged:
    return Judged(exit_code=code, sentence=sentence, report=True)
