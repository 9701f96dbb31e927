"""Run folders out of compact descriptions, for tests: what happened in seconds and milliseconds, the files as they would be.

    run = RunBuilder(tmp_path, slo={"ttft": 500})
    stage = run.stage(rate=2, window=60)
    stage.request(1.0, ttft=120, e2e=900, tokens=17)        # planned 1 s after the window's start
    stage.request(1.5, outcome="rejected", status=429)
    folder = run.write()

Times are on the master's clock; each worker's file is written on its own clock, ``offset_ns`` ahead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llm_locust.records import (
    NS_PER_S,
    ClockSample,
    Manifest,
    Outcome,
    PlanRow,
    RequestRecord,
    RunFolder,
    StageManifest,
    StageSpec,
    StageWorker,
    WorkloadFacts,
    encode_plan_rows,
    encode_rows,
    header_line,
    plan_header_line,
)
from llm_locust.records.device_sample import DeviceSample, device_header_line, encode_device_rows
from llm_locust.records.server_sample import ServerSample, encode_server_rows, server_header_line

T0 = 1_790_000_000 * NS_PER_S + 123_456_789
"""The start of the first window: not a round number, so that a lost digit shows."""

NS_PER_MS = 1_000_000

METRICS = "http://127.0.0.1:8000/metrics"

TIMES = (
    "planned_ns", "dispatched_ns", "sent_ns", "written_ns", "headers_ns", "first_output_ns", "first_answer_ns",
    "last_output_ns", "complete_ns", "end_ns",
)  # fmt: skip


@dataclass
class StageBuilder:
    """One stage and its requests."""

    run: RunBuilder
    manifest: StageManifest
    records: list[RequestRecord] = field(default_factory=list)
    """Terminal rows, on the master's clock until written."""
    due: list[PlanRow] = field(default_factory=list)

    @property
    def window_start_ns(self) -> int:
        return self.manifest.window_start_ns

    def request(
        self,
        at: float,
        *,
        ttft: float = 100,
        e2e: float = 1000,
        tokens: int | None = 11,
        lag: float = 0,
        cap_wait: float = 0,
        outcome: str = "ok",
        worker: int = 0,
        phase: str | None = None,
        recorded: bool = True,
        **fields: Any,
    ) -> RequestRecord:
        """An arrival due ``at`` seconds after the window's start; latencies and waits in milliseconds.

        ``recorded=False``: it was due, but its terminal row is not there (the worker died). ``fields`` overrule any column.
        A request that is not ok ends ``e2e`` after it was sent, without output.
        """
        spec = self.manifest.spec
        index = self.run.next_index()
        if phase is None:
            inside = 0 <= at < (spec.window_s if spec.window_s is not None else float("inf"))
            phase = "measure" if inside else "warmup" if at < 0 else "cooldown"
        planned = self.window_start_ns + round(at * NS_PER_S)
        dispatched = planned + round(lag * NS_PER_MS)
        sent = dispatched + round(cap_wait * NS_PER_MS)
        first, end = sent + round(ttft * NS_PER_MS), sent + round(e2e * NS_PER_MS)
        closed = spec.mode == "closed"
        shared: dict[str, Any] = {
            "run_id": self.run.run_id,
            "stage": spec.stage,
            "round": spec.round,
            "phase": phase,
            "index": index,
            "request_id": f"{self.run.run_id}-{index}",
            "worker": worker,
            "user": "Chat",
        }
        record = RequestRecord(
            **shared,
            planned_ns=None if closed else planned,
            dispatched_ns=dispatched,
            sent_ns=sent,
            end_ns=end,
            outcome=Outcome(outcome),
            clock="kernel",
        )
        if outcome == "ok":
            record.status = 200
            record.first_output_ns, record.last_output_ns, record.complete_ns = first, end, end
            record.finish_reason = "stop"
            record.prompt_tokens, record.output_tokens, record.output_events = 20, tokens, tokens
            record.output_tokens_source = None if tokens is None else "usage"
            record.first_coalesced, record.coalesced = False, 0
            if tokens == 1:
                record.last_output_ns = record.complete_ns = first
        if outcome == "not_sent":
            record.sent_ns = None
        for name, value in fields.items():
            setattr(record, name, value)
        self.due.append(PlanRow(**shared, planned_ns=record.planned_ns))
        if recorded:
            self.records.append(record)
        return record

    def scraped(
        self,
        tell: Callable[[float], dict[str, Any]],
        *,
        every: float = 1.0,
        until: float | None = None,
        target: str = METRICS,
    ) -> None:
        """Pages of the server, read from 5.5 s before the stage to 4.5 s after it (or ``until``), ``every`` so many seconds.

        ``tell`` is given the seconds after the window's start and says what the page said.
        """
        spec, end_ns = self.manifest.spec, self.manifest.end_ns
        last = until if until is not None else ((end_ns or 0) - self.window_start_ns) / NS_PER_S + 4.5
        at = -spec.warmup_s - 5.5
        while at <= last:
            told = {"engine": "vllm", "verified": True, **tell(at)}
            self.run.samples.append(ServerSample(at_ns=self.window_start_ns + round_ns(at), target=target, **told))
            at += every

    def requests(self, count: int, *, over: float | None = None, first: float = 0.0, **fields: Any) -> None:
        """``count`` like requests, evenly over ``over`` seconds (default: the window) from ``first`` on."""
        length = over if over is not None else self.manifest.spec.window_s
        assert length is not None
        for k in range(count):
            self.request(first + k * length / count, **fields)


class RunBuilder:
    """A run folder in the making."""

    def __init__(
        self,
        parent: Path,
        run_id: str = "run-1",
        *,
        slo: dict[str, float] | None = None,
        workers: int = 1,
        offsets_ns: dict[int, tuple[int, int]] | None = None,
        **manifest: Any,
    ) -> None:
        """``offsets_ns``: how far each worker's clock is ahead at the start and at the end of every stage."""
        self.folder = RunFolder(parent / run_id)
        self.run_id = run_id
        self.workers = workers
        self.offsets_ns = offsets_ns or {}
        self.stages: list[StageBuilder] = []
        self.samples: list[ServerSample] = []
        """What the server's pages said, on the master's clock."""
        self.devices: list[DeviceSample] = []
        self._next = 0
        facts: dict[str, Any] = {
            "state": "complete",
            "started_at": "2026-09-21T14:13:20Z",
            "host": "http://127.0.0.1:8000",
            "seed": 1,
            "deadline_s": 30.0,
            "command": ["locust", "-f", "chat.py,rate_ladder.py", "--slo", "ttft=500"],
            "workload": WorkloadFacts(name="chat", kind="representative", source="a file", sha256="ab" * 32),
        }
        self.manifest = Manifest(run_id=run_id, slo=slo or {}, **(facts | manifest))

    def next_index(self) -> int:
        self._next += 1
        return self._next - 1

    def stage(
        self,
        *,
        rate: float | None = None,
        concurrency: int | None = None,
        window: float | None = 60,
        warmup: float = 0,
        cooldown: float = 0,
        round: int = 0,
        stage: int | None = None,
        **fields: Any,
    ) -> StageBuilder:
        """A stage that ran to its end, an hour after the last. ``fields`` overrule its specification's and manifest's."""
        manifest = {name: value for name, value in fields.items() if name in StageManifest.__struct_fields__}
        number = len(self.stages) if stage is None else stage
        start = T0 + len(self.stages) * 3600 * NS_PER_S
        spec = StageSpec(
            stage=number,
            round=round,
            mode="open" if concurrency is None else "closed",
            rate_rps=rate,
            concurrency=concurrency,
            warmup_s=warmup,
            window_s=window,
            cooldown_s=cooldown,
            seed=1,
            first_index=self._next,
            **{name: value for name, value in fields.items() if name not in manifest},
        )
        end = None if window is None else start + round_ns(window)
        times: dict[str, Any] = {
            "start_ns": start - round_ns(warmup),
            "window_start_ns": start,
            "window_end_ns": end,
            "arrivals_end_ns": None if end is None else end + round_ns(cooldown),
            "end_ns": None if end is None else end + round_ns(cooldown + 30),
            "workers": [self._worker(k, start, end or start + 60 * NS_PER_S) for k in range(self.workers)],
        }
        found = StageBuilder(self, StageManifest(spec=spec, **(times | manifest)))
        self.stages.append(found)
        return found

    def _worker(self, worker: int, start: int, end: int) -> StageWorker:
        first, last = self.offsets_ns.get(worker, (0, 0))
        return StageWorker(
            worker=worker,
            client_id=f"client-{worker}",
            rank=worker,
            clock_start=ClockSample(at_ns=start, offset_ns=first, uncertainty_ns=100_000),
            clock_end=ClockSample(at_ns=end, offset_ns=last, uncertainty_ns=100_000),
        )

    def write(self, *, shipped: bool = False) -> Path:
        """Write manifest, plan, issued and request rows; ``shipped`` also writes the master's copies of the latter."""
        self.folder.requests_dir.mkdir(parents=True, exist_ok=True)
        plan: list[PlanRow] = []
        issued: dict[int, list[PlanRow]] = {}
        rows: dict[int, list[RequestRecord]] = {k: [] for k in range(self.workers)}
        for stage in self.stages:
            closed = stage.manifest.spec.mode == "closed"
            for line in stage.due:
                (issued.setdefault(line.worker, []) if closed else plan).append(line)
            if not closed:
                stage.manifest.planned = len(stage.due)
            for record in stage.records:
                rows.setdefault(record.worker, []).append(self._on_worker_clock(record))
        self.manifest.stages = [stage.manifest for stage in self.stages]
        self.manifest.save(self.folder.manifest)
        self.folder.plan.write_text(plan_header_line() + encode_plan_rows(plan))
        if self.samples:
            self.folder.server_csv.write_text(server_header_line() + encode_server_rows(self.samples))
        if self.devices:
            self.folder.devices_csv.write_text(device_header_line() + encode_device_rows(self.devices))
        for worker, lines in issued.items():
            self.folder.worker_csv(worker, issued=True).write_text(plan_header_line() + encode_plan_rows(lines))
        for worker, records in rows.items():
            text = header_line() + encode_rows(records)
            self.folder.worker_csv(worker).write_text(text)
            if shipped:
                self.folder.worker_csv(worker, shipped=True).write_text(text)
        return self.folder.path

    def _on_worker_clock(self, record: RequestRecord) -> RequestRecord:
        # The offset of the start sample for every row: tests of drift write their own times.
        offset = self.offsets_ns.get(record.worker, (0, 0))[0]
        moved = {name: getattr(record, name) for name in record.__struct_fields__}
        for name in TIMES:
            if moved[name] is not None:
                moved[name] += offset
        return RequestRecord(**moved)


def round_ns(seconds: float) -> int:
    """Seconds to integer nanoseconds."""
    return round(seconds * NS_PER_S)
