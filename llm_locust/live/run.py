"""The live picture of one run after another: what comes in is added up here, and read as a snapshot.

There is no clock, no socket and no greenlet in here: whoever feeds it says when. A new run begins a new generation, and
everything of the one before is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Literal

import numpy as np

from llm_locust.live.buckets import GroupBuckets
from llm_locust.live.cost import Cost
from llm_locust.live.request import times
from llm_locust.live.rows import Row, gaps_ms, read_rows
from llm_locust.live.series import SeriesRecorder
from llm_locust.live.server import ServerWatch
from llm_locust.live.sketch import ERROR, Floats
from llm_locust.live.snapshot import SERIES_COLUMNS, Judged, RunState, Series, Snapshot, WorkerView
from llm_locust.live.stage import LiveStage, Report, Request
from llm_locust.live.worker import LiveWorker
from llm_locust.records.device_sample import DeviceSample
from llm_locust.records.manifest import Manifest, StageManifest
from llm_locust.records.request import RequestRecord
from llm_locust.records.server_sample import ServerSample
from llm_locust.records.stage import NS_PER_S

SLICE = 8
"""Rows that are counted at a time: some 400 microseconds with a hundred gaps each."""
MOST_OPEN_STAGES = 64
MOST_OPEN_CELLS = 1_000
"""Of all stages together: about 20 MB. The newest stages keep their sketches, older ones only what is shown."""
REPORT_S = 0.5
"""How often workers report."""

NO_SERIES = Series(step_s=1.0, whole=True, t=[], columns={name: [] for name in SERIES_COLUMNS})


class LiveRun:
    """A run while it goes on, and after its end until the next one.

    Args:
        now_ns: The master's clock, Unix nanoseconds.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._generation = 0
        self._cost = Cost()
        self.newest_judged: str | None = None
        """The folder of the newest run that was judged, while another one goes on too."""
        self._forget()

    def _forget(self) -> None:
        self._state: RunState = "idle"
        self._reason: str | None = None
        self._stopping: Literal["drain", "now"] | None = None
        self._of: Manifest | None = None
        self._folder: str | None = None
        self._stage_count: int | None = None
        self._started_s: float | None = None
        self._judged: Judged | None = None
        self._stages: dict[int, LiveStage] = {}
        self._series: SeriesRecorder | None = None
        self._server: ServerWatch | None = None
        self._workers: dict[int, LiveWorker] = {}
        self._missed = self._unread = self._late = 0
        self._cost.seconds = 0.0

    # --- a run, from its begin to its judgement --------------------------------------------------------------------

    def begin(self, run: Manifest, folder: str, stage_count: int | None) -> None:
        """A new run; everything of the one before is forgotten.

        Args:
            run: What is known of it before load.
            folder: Where its files are.
            stage_count: How many stages there will be, if that is known.
        """
        self._generation += 1
        self._forget()
        self._state, self._of, self._stage_count = "running", run, stage_count
        self._folder = folder
        self._started_s = self._now_ns() / NS_PER_S
        self._series = SeriesRecorder(self._started_s, has_limits=bool(run.slo))
        self._server = ServerWatch(self._series)

    def stage_starts(self, record: StageManifest) -> None:
        """A stage is about to start; its record is read whenever somebody looks."""
        if self._of is not None:
            self._stages[record.spec.stage] = LiveStage(record, self._of.slo)
            self._freeze()

    def stage_ends(self, record: StageManifest) -> None:
        """A stage is over, whatever has become of it; one that never began is not shown."""
        stage, series = self._stages.get(record.spec.stage), self._series
        if stage is None or series is None:
            return
        if not record.start_ns:
            del self._stages[record.spec.stage]
            return
        stage.ended = True
        now_s = self._now_ns() / NS_PER_S
        for number in self._workers:
            series.level("in_flight", number, now_s, 0)
            series.level("waiting", number, now_s, 0)

    def stopping(self, how: Literal["drain", "now"]) -> None:
        """A person has asked for the end."""
        if self._state == "running" and self._stopping != "now":
            self._stopping = how

    def over(self, reason: str | None) -> None:
        """Nothing more is sent, and every request has ended: now the merge runs.

        Args:
            reason: Why that is before its time, if it is.
        """
        if self._state == "running":
            self._state, self._reason = "judging", reason
            if self._series is not None:
                self._series.over(self._now_ns() / NS_PER_S)

    def judged(self, exit_code: int, sentence: str, *, report: bool, results: Mapping[int, str]) -> None:
        """The merge has judged the run.

        Args:
            exit_code: The run's.
            sentence: The verdict.
            report: Whether there is a ``report.html``.
            results: Of each stage, by its number.
        """
        self._state = "judged"
        self.newest_judged = self._folder
        self._judged = Judged(exit_code=exit_code, sentence=sentence, report=report)
        for number, result in results.items():
            if number in self._stages:
                self._stages[number].judged(result)
        self._close_series()

    def failed(self, reason: str) -> None:
        """The run came to no judgement, or did not even begin."""
        if self._state not in ("running", "judging"):
            self._generation += 1
            self._forget()
        self._state, self._reason = "failed", reason
        self._close_series()

    # --- what comes in ---------------------------------------------------------------------------------------------

    def on_rows(self, lines: str) -> Iterator[None]:
        """Count the requests of CSV lines as workers write them; pauses after every few, for others to have their turn."""
        rows = read_rows(lines)
        while self._count_some(rows):
            yield

    def on_record(self, record: RequestRecord) -> None:
        """Count a request that ended in this very process."""
        with self._cost:
            self._count(record, np.array(record.gaps_us, np.float64) / 1000 if record.gaps_us else None)

    def missed(self, rows: int) -> None:
        """So many rows came faster than they could be counted, and are not in the picture."""
        self._missed += rows

    def on_report(self, worker: int, report: Report) -> None:
        """A worker's report has come."""
        stage, series = self._stages.get(report.stage), self._series
        if stage is None or series is None:
            return
        with self._cost:
            now_s = self._now_ns() / NS_PER_S
            known = self._worker(worker)
            before = known.report if known.report is not None and known.report.stage == report.stage else None
            due, sent = (before.due, before.sent) if before is not None else (0, 0)
            from_s = known.at_s if before is not None else now_s - REPORT_S
            series.counted("planned", report.due - due, from_s, now_s)
            series.counted("sent", report.sent - sent, from_s, now_s)
            for name, value in (
                ("in_flight", report.in_flight),
                ("waiting", report.waiting),
                ("worker_cpu_pct_max", report.cpu_percent),
                ("worker_loop_lag_ms_max", report.loop_lag_ms),
            ):
                series.level(name, worker, now_s, value)
            series.go_on(now_s)  # also where nobody ever looks
            known.report, known.at_s = report, now_s
            stage.reports[worker] = report

    def on_server(self, samples: Iterable[ServerSample]) -> None:
        """Rows of the server's metrics pages."""
        if self._server is not None:
            with self._cost:
                for sample in samples:
                    self._server.on_server(sample)

    def on_devices(self, samples: Iterable[DeviceSample]) -> None:
        """Samples of the server's machine."""
        if self._server is not None:
            with self._cost:
                for sample in samples:
                    self._server.on_device(sample)

    # --- what is shown ---------------------------------------------------------------------------------------------

    def snapshot(self, since: float | None = None) -> Snapshot:
        """The run at this moment.

        Args:
            since: Of the series only the points that start then or later; ``None``: all.
        """
        with self._cost:
            return self._snapshot(since)

    def buckets(self) -> list[GroupBuckets]:
        """The histograms of all groups of all stages."""
        with self._cost:
            return [found for stage in self._stages.values() for found in stage.buckets()]

    @property
    def state(self) -> RunState:
        """Where the run is."""
        return self._state

    @property
    def cost_s(self) -> float:
        """Processor time in seconds that this picture has cost since the run began: counting and looking."""
        return self._cost.seconds

    # --- inside ----------------------------------------------------------------------------------------------------

    def _count_some(self, rows: Iterator[Row | None]) -> int:
        """Count the next few rows; how many there were."""
        with self._cost:
            some = list(islice(rows, SLICE))
            for row in some:
                try:
                    if row is None:
                        raise ValueError("not a row")
                    self._count(row, gaps_ms(row.gaps) if row.gaps else None)
                except ValueError:
                    self._unread += 1
        return len(some)

    def _count(self, of: Request, gaps: Floats | None) -> None:
        stage = self._stages.get(of.stage)
        if stage is None or self._series is None:
            self._unread += 1
            return
        self._late += stage.frozen
        found = times(of)
        verdict = stage.add(of, found, gaps)
        now_ns = self._now_ns()
        end_ns = now_ns if of.end_ns is None else min(of.end_ns - stage.offset_ns(of.worker), now_ns)
        self._series.ended(end_ns / NS_PER_S, of.outcome, verdict, found, gaps, of.output_tokens)

    def _freeze(self) -> None:
        """Keep sketches of the newest stages only."""
        cells = 0
        now_ns = self._now_ns()
        for age, stage in enumerate(reversed(self._stages.values())):
            cells += stage.cells
            if stage.ended:
                stage.settle()
            if stage.ended and (age >= MOST_OPEN_STAGES or cells > MOST_OPEN_CELLS):
                stage.freeze(now_ns)

    def _close_series(self) -> None:
        if self._series is not None:
            self._series.close(self._now_ns() / NS_PER_S)

    def _snapshot(self, since: float | None) -> Snapshot:
        now_ns = self._now_ns()
        now_s = now_ns / NS_PER_S
        of, series, server = self._of, self._series, self._server
        return Snapshot(
            now_s=now_s,
            generation=self._generation,
            state=self._state,
            reason=self._reason,
            stopping=self._stopping,
            run_id=of.run_id if of is not None else None,
            folder=self._folder,
            started_s=self._started_s,
            host=of.host if of is not None else None,
            model=of.model if of is not None else None,
            synthetic=of is not None and of.synthetic_engine,
            slo=dict(of.slo) if of is not None else {},
            gates=list(of.gates) if of is not None else [],
            stage_count=self._stage_count,
            stages=[stage.view(now_ns) for stage in self._stages.values()],
            workers=self._worker_views(now_s),
            servers=server.servers(now_ns) if server is not None else [],
            devices=server.devices(now_ns) if server is not None else [],
            series=series.view(now_s, since) if series is not None else NO_SERIES,
            judged=self._judged,
            sketch_error=ERROR,
            notes=self._notes(),
        )

    def _worker_views(self, now_s: float) -> list[WorkerView]:
        for stage in list(self._stages.values())[-1:]:
            for member in stage.record.workers:
                self._worker(member.worker).member = member
        return [worker.view(now_s) for _, worker in sorted(self._workers.items())]

    def _worker(self, number: int) -> LiveWorker:
        found = self._workers.get(number)
        if found is None:
            found = self._workers[number] = LiveWorker(number)
        return found

    def _notes(self) -> list[str]:
        found = []
        if self._missed:
            found.append(
                f"{self._missed} rows came faster than they could be counted: they are on disk, but not in here."
            )
        if self._unread:
            found.append(f"{self._unread} rows could not be read, or are of no known stage.")
        if self._late:
            found.append(f"{self._late} rows came when their stage was long over; its figures are without them.")
        if any(stage.overflown for stage in self._stages.values()):
            found.append("There are more slices and user classes than are told apart: the rest is counted together.")
        return found
