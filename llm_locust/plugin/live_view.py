"""Feeds the live picture of this process's runs: what workers ship, what pages say, where the stages are.

Rows are counted in a greenlet of its own, a few at a time and after they were acknowledged: neither heartbeats nor arrivals
wait for a picture. Where requests are sent by this very process, what it costs a request is one append to a queue.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from time import monotonic

import gevent

from llm_locust.dispatch import Progress, Rows, StageControl
from llm_locust.live.run import SLICE, LiveRun
from llm_locust.records import Clock, Manifest, RequestRecord, RunFolder, StageManifest, UsageError
from llm_locust.records.summary import RunSummary
from llm_locust.streaming.turns import give_way
from llm_locust.telemetry.page_reading import Rows as PageRows

logger = logging.getLogger(__name__)

COUNT_EVERY_S = 0.2
MOST_WAITING_BYTES = 64_000_000
"""Rows that wait to be counted; what comes beyond them is on disk, and missing in the picture, which says so."""
RECORD_BYTES = 1_000
"""What a record is taken for, with the gaps of its reply."""
LAST_ROWS_S = 10.0
"""How long a judged run is not shown as such because its rows are still being counted."""


class LiveView:
    """The live picture and what feeds it: a progress sink beside the terminal's.

    Args:
        clock: The master's clock.
    """

    def __init__(self, clock: Clock) -> None:
        self.run = LiveRun(clock.now_ns)
        self._waiting: deque[str | RequestRecord] = deque()
        self._bytes = 0
        self._counting: gevent.Greenlet[[], None] | None = None
        self._told = False

    # --- a run, from its begin to its judgement --------------------------------------------------------------------

    def begin(self, manifest: Manifest, folder: RunFolder, stage_count: int | None) -> None:
        """A run is about to begin; the one before is forgotten."""
        if self._counting is not None:
            self._counting.kill()
        self._waiting.clear()
        self._bytes = 0
        self._told = False
        self.run.begin(manifest, str(folder.path), stage_count)
        self._counting = gevent.spawn(self._count_on)

    def over(self, reason: str | None) -> None:
        """The raw files are complete."""
        self.run.over(reason)

    def judged(self, exit_code: int, folder: RunFolder) -> None:
        """The merge has ended; returns when every row of the run is in the picture."""
        end = monotonic() + LAST_ROWS_S
        while self._waiting and monotonic() < end:
            gevent.sleep(COUNT_EVERY_S / 4)
        if self._counting is not None:
            self._counting.kill()
            self._counting = None
        try:
            summary = RunSummary.load(folder.summary)
        except (UsageError, OSError) as error:
            self.run.failed(f"the run was not judged: {error}")
            return
        self.run.judged(
            exit_code,
            summary.verdict,
            report=folder.report_html.is_file(),
            results={stage.stage: stage.verdict.result for stage in summary.stages},
        )

    def failed(self, reason: str) -> None:
        """The run came to no judgement."""
        if self._counting is not None:
            self._counting.kill()
            self._counting = None
        self.run.failed(reason)

    # --- what comes in ---------------------------------------------------------------------------------------------

    def on_rows(self, rows: Rows) -> None:
        """A worker's rows, which are on disk and acknowledged."""
        if rows.issued:
            return
        if self._bytes > MOST_WAITING_BYTES:
            self.run.missed(rows.lines.count("\n"))
        else:
            self._waiting.append(rows.lines)
            self._bytes += len(rows.lines)

    def on_record(self, record: RequestRecord) -> None:
        """A request that ended in this process."""
        if self._bytes > MOST_WAITING_BYTES:
            self.run.missed(1)
        else:
            self._waiting.append(record)
            self._bytes += RECORD_BYTES

    def on_report(self, worker: int, told: Progress) -> None:
        """A worker's report."""
        self._safely(lambda: self.run.on_report(worker, told))

    def on_page(self, rows: PageRows) -> None:
        """What a page of the server or its machine said."""
        self._safely(lambda: self.run.on_server(rows.server))
        self._safely(lambda: self.run.on_devices(rows.devices))

    # --- a progress sink -------------------------------------------------------------------------------------------

    def stage_starts(self, control: StageControl, number: int, of: int | None) -> None:
        """A stage is about to start."""
        self.run.stage_starts(control.record)

    def waits(self, what: str) -> None:
        """Nothing happens, on purpose."""

    def update(self, control: StageControl) -> None:
        """A stage's record is looked at whenever somebody looks."""

    def stage_ends(self, stage: StageManifest) -> None:
        """A stage is over."""
        self.run.stage_ends(stage)

    def close(self) -> None:
        """The run is over; what waits is counted all the same."""

    # --- inside ----------------------------------------------------------------------------------------------------

    def _count_on(self) -> None:
        while True:
            gevent.sleep(COUNT_EVERY_S)
            while self._waiting:
                self._safely(self._count_some)
                give_way()

    def _count_some(self) -> None:
        """Count what came first; it is out of the queue only when it is counted."""
        for _ in range(min(SLICE, len(self._waiting))):
            first = self._waiting[0]
            try:
                if isinstance(first, RequestRecord):
                    self.run.on_record(first)
                else:
                    for _pause in self.run.on_rows(first):
                        give_way()
            finally:
                self._waiting.popleft()
                self._bytes -= RECORD_BYTES if isinstance(first, RequestRecord) else len(first)

    def _safely(self, call: Callable[[], object]) -> None:
        """A picture that cannot be drawn is no reason for a run to end."""
        try:
            call()
        except Exception:
            if not self._told:
                logger.exception("the live picture is not complete, for a fault of ours; the files of the run are")
            self._told = True
