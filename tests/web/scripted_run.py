"""A live page over a made-up run that moves only when it is told to: ``python tests/web/scripted_run.py [base path]``.

Prints its address. ``POST /script/<name>`` tells it: ``advance`` (``?seconds=``), ``another`` (the next run begins),
``judged``. A run is a ladder of 1, 2, 4 req/s in stages of 90 s; the last one is too much for the server.
"""

from __future__ import annotations

import logging
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

from flask import Flask, Response, request
from werkzeug.serving import make_server

from llm_locust.live.snapshot import SERIES_COLUMNS, Series, Snapshot, StageView
from llm_locust.records import RunFolder
from llm_locust.web.live_page import How, View, live_blueprint
from tests.live.made_up import T0, group, judged, snapshot, spread, stage

RATES = (1.0, 2.0, 4.0)
STAGE_S, WARM_UP_S, WINDOW_S = 90, 20, 60
REPORT = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>Report</title><style>h1 { color: rgb(1, 2, 3) }</style>"
    '<h1>Report of the scripted run</h1><p><a href="charts/ttft.csv">Data of this chart (CSV)</a></p></html>'
)


class ScriptedRun:
    """The picture, and what a person asked of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.generation = 1
        self.elapsed = 0
        self.state = "idle"
        self.stopping: How | None = None

    def snapshot(self, since: float | None = None) -> Snapshot:
        if self.state == "idle":
            empty = Series(step_s=1.0, whole=True, t=[], columns={name: [] for name in SERIES_COLUMNS})
            nothing: dict[str, Any] = dict.fromkeys(("run_id", "folder", "started_s", "host", "model", "stage_count"))
            return snapshot(
                generation=0, state="idle", synthetic=False, slo={}, gates=[], stages=[], workers=[], servers=[],
                devices=[], series=empty, **nothing,
            )  # fmt: skip
        stages = [stage_at(k, self.elapsed, self.state) for k in range(len(RATES)) if self.elapsed >= STAGE_S * k]
        return snapshot(
            now_s=T0 + self.elapsed, generation=self.generation, state=self.state, stopping=self.stopping,
            run_id=self.run_id, started_s=T0, stages=stages, series=series_at(self.elapsed, since), devices=[],
            slo={"ttft": 400.0, "tpot": 50.0}, judged=judged() if self.state == "judged" else None,
        )  # fmt: skip

    @property
    def run_id(self) -> str:
        return f"20231114-221320-run{self.generation}"

    def stop(self, how: How) -> bool:
        self.stopping = how
        return True

    def report_folder(self) -> RunFolder | None:
        return RunFolder(self.folder / self.run_id) if self.state == "judged" else None

    def told(self, name: str, seconds: int) -> None:
        if name == "another":
            self.generation, self.elapsed, self.state, self.stopping = self.generation + 1, 1, "running", None
        elif name == "judged":
            self.state, self.stopping = "judged", None
            report = RunFolder(self.folder / self.run_id)
            report.charts_dir.mkdir(parents=True, exist_ok=True)
            report.report_html.write_text(REPORT, encoding="utf-8")
            (report.charts_dir / "ttft.csv").write_text("t_s,p95_ms\n0,240\n", encoding="utf-8")
        else:
            self.elapsed, self.state = self.elapsed + seconds, "running"


def load(t: float) -> float:
    """How full the server is at that second of the run; above 1 it falls behind."""
    return RATES[min(int(t // STAGE_S), len(RATES) - 1)] / 3


def series_at(elapsed: int, since: float | None) -> Series:
    first = 0 if since is None else max(0, math.ceil(since - T0))
    seconds = range(first, elapsed)
    rows = [values_at(t) for t in seconds]
    return Series(
        step_s=1.0,
        whole=since is None,
        t=[T0 + t for t in seconds],
        columns={name: [row.get(name) for row in rows] for name in SERIES_COLUMNS},
    )


def values_at(t: int) -> dict[str, float | None]:
    rate = RATES[min(t // STAGE_S, len(RATES) - 1)]
    into = t % STAGE_S
    full = load(t)
    behind = max(0.0, full - 1) * into
    wave = 0.3 * rate * math.sin(t / 2.7) + 0.25 * rate * math.sin(t / 0.9)
    planned = max(0.0, rate + wave) if into < WARM_UP_S + WINDOW_S else 0.0
    done = min(3.1, max(0.0, rate + 0.8 * 0.3 * rate * math.sin((t - 2) / 2.7))) if into > 2 else 0.0
    ttft = 90 + 220 * full**3 + 14 * behind + 18 * math.sin(t / 3.3)
    tpot = 14 + 16 * full + 9 * math.sin(t / 5)
    e2e = ttft + 96 * tpot
    late = min(done, 0.06 * behind)
    return {
        "planned_rps": planned, "sent_rps": planned, "completed_rps": done, "ok_rps": done - late,
        "good_rps": max(0.0, done - late) * (1 if ttft < 400 else 0.3), "failed_rps": late,
        "rejected_rps": late / 3, "timeout_rps": 2 * late / 3,
        "in_flight": round(rate * e2e / 1000 + behind * 2), "waiting": 0.0, "output_tokens_tps": done * 97,
        "ttft_p50_ms": ttft, "ttft_p95_ms": 1.5 * ttft, "ttft_p99_ms": 1.9 * ttft,
        "tpot_p50_ms": tpot, "tpot_p95_ms": 1.3 * tpot, "tpot_p99_ms": 1.5 * tpot, "itl_p95_ms": 1.4 * tpot,
        "e2e_p50_ms": e2e, "e2e_p95_ms": 1.35 * e2e, "client_wait_p95_ms": 0.4 + 0.1 * math.sin(t),
        "dispatch_lag_p99_ms": 0.7 + 0.3 * math.sin(t / 2), "server_running": min(8.0, round(rate * e2e / 1000)),
        "server_waiting": round(behind * 2), "server_kv_usage_pct": min(97.0, 12 + 40 * full + behind),
        "server_queue_p95_ms": 4 + 12 * behind, "worker_cpu_pct_max": 9 + 6 * rate + 3 * math.sin(t / 4),
        "worker_loop_lag_ms_max": 0.6 + 0.4 * math.sin(t / 7) ** 2,
    }  # fmt: skip


def stage_at(k: int, elapsed: int, state: str) -> StageView:
    into = elapsed - STAGE_S * k
    rate = RATES[k]
    start = T0 + STAGE_S * k
    done = into >= STAGE_S or state != "running"
    ends = {WARM_UP_S: "warm-up", WARM_UP_S + WINDOW_S: "window", STAGE_S: "draining"}
    end, phase = next(((end, name) for end, name in ends.items() if into < end), (STAGE_S, "done"))
    seconds = max(0, min(into - WARM_UP_S, WINDOW_S))
    measured = round(rate * seconds)
    share = (0.98, 0.97, 0.31)[k]
    ttft, tpot, e2e = (108.0, 216.0, 480.0)[k], (20.0, 25.0, 35.0)[k], (2_010.0, 2_600.0, 5_900.0)[k]
    latencies = {
        "ttft": spread(ttft, measured), "tpot": spread(tpot, measured), "itl": spread(tpot, 90 * measured),
        "e2e": spread(e2e, measured), "max_gap": spread(3 * tpot, measured), "client_wait": spread(0.3, measured),
    }  # fmt: skip

    def of(part: float, slice_: str | None = None) -> Any:
        many = round(part * measured)
        failed = round((0, 0, 0.12)[k] * many)
        good = round(share * many)
        outcomes = {"ok": many - failed, "timeout": failed - failed // 3, "rejected": failed // 3}
        return group(
            slice_, measured=many, ok=many - failed, failed=failed, good=good, attainment=good / many if many else None,
            error_rate=failed / many if many else None, seconds=float(seconds), outcomes=outcomes,
            status_counts={"200": many - failed // 3, "429": failed // 3},
            throughput_rps=(many - failed) / seconds if seconds else None,
            goodput_rps=good / seconds if seconds else None, latencies=latencies if many else {},
        )  # fmt: skip

    return stage(
        k, rate, label=f"{rate:g} req/s", phase="done" if done else phase, left_s=None if done else float(end - into),
        share=1.0 if done else into / STAGE_S, start_s=start, window_start_s=start + WARM_UP_S,
        window_end_s=start + WARM_UP_S + WINDOW_S, end_s=min(start + STAGE_S, T0 + elapsed) if done else None,
        planned=round(rate * min(into, WARM_UP_S + WINDOW_S)), sent=round(rate * min(into, WARM_UP_S + WINDOW_S)),
        completed=round(rate * min(max(into - 3, 0), WARM_UP_S + WINDOW_S)), in_flight=0 if done else round(3 * rate),
        groups=[of(1.0), of(0.6, "faq"), of(0.4, "long document")] if measured else [],
        result=("pass", "pass", "fail")[k] if state == "judged" else None,
    )  # fmt: skip


def main(base_path: str) -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = Flask(__name__)
    run = ScriptedRun(Path(tempfile.mkdtemp(prefix="scripted-run-")))

    def guard(view: View) -> View:
        return view

    app.register_blueprint(
        live_blueprint(guard, run.snapshot, run.stop, run.report_folder), url_prefix=base_path or None
    )

    @app.post("/script/<name>")
    def tell(name: str) -> Response:
        run.told(name, request.args.get("seconds", 1, type=int))
        return Response(status=204)

    server = make_server("127.0.0.1", 0, app, threaded=True)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
