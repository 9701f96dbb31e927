"""A run from the master: stage after stage, the run folder, and the way out."""

from __future__ import annotations

import csv
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import IO, Literal, Protocol

import gevent
import msgspec
from gevent.event import Event

from llm_locust.dispatch.collector import Collector
from llm_locust.dispatch.link import Link
from llm_locust.dispatch.messages import CloseRun, OpenRun, Prepared, Progress, Rows, StageDone
from llm_locust.dispatch.roster import Roster
from llm_locust.dispatch.stage_control import StageControl
from llm_locust.records import Clock, Manifest, RunFolder, StageManifest, StageSpec, UsageError, plan_header_line
from llm_locust.records.run import RunSpec

logger = logging.getLogger(__name__)

GENERATOR_COLUMNS = ("worker", *Progress.__struct_fields__)

FromWorker = Rows | Prepared | Progress | StageDone
"""What workers tell a run (the roll call and clock pings are the roster's)."""

Ending = Literal["complete", "interrupted", "failed"]


class ProgressSink(Protocol):
    """Whoever shows a person how far the run is."""

    def stage_starts(self, control: StageControl, number: int, of: int | None) -> None:
        """A stage is about to start."""
        ...

    def update(self, control: StageControl) -> None:
        """Called a few times a second during a stage."""
        ...

    def stage_ends(self, stage: StageManifest) -> None:
        """A stage is over."""
        ...

    def close(self) -> None:
        """The run is over."""
        ...


class RunController:
    """Runs the stages one after another in a greenlet of its own; Locust only waits for it."""

    def __init__(
        self,
        link: Link,
        clock: Clock,
        roster: Roster,
        run: RunSpec,
        manifest: Manifest,
        stages: Iterator[StageSpec],
        *,
        stage_count: int | None,
        progress: ProgressSink,
        on_over: Callable[[RunController], None],
    ) -> None:
        """Make the run folder and its first files.

        Raises:
            UsageError: the run folder cannot be written.
        """
        self._link = link
        self._clock = clock
        self._roster = roster
        self.run = run
        self.manifest = manifest
        self._stages = stages
        self._stage_count = stage_count
        self._progress = progress
        self._on_over = on_over
        self.folder = RunFolder(run.folder)
        try:
            self.folder.requests_dir.mkdir(parents=True, exist_ok=False)
            self.folder.plan.write_text(plan_header_line(), encoding="utf-8")
            self.manifest.save(self.folder.manifest)
            self._generator: IO[str] = open(self.folder.generator, "w", encoding="utf-8", newline="")  # noqa: SIM115
        except OSError as error:
            raise UsageError(
                f"--run-dir: the run folder {self.folder.path} cannot be written: {error.strerror}"
            ) from None
        self._generator_rows = csv.writer(self._generator, lineterminator="\n")
        self._generator_rows.writerow(GENERATOR_COLUMNS)
        self._collector = Collector(self.folder, link)
        self._control: StageControl | None = None
        self._stop_reason: str | None = None
        self.ending: Ending | None = None
        self.error: str | None = None
        """What a person did wrong, when the run could not go on for that."""
        self.over = Event()
        """The raw files are complete and closed."""

    def start(self) -> None:
        """Run in the background; :attr:`over` tells when it is done."""
        gevent.spawn(self._run_all)

    def interrupt(self, reason: str) -> None:
        """End the run in order: stop sending, let what is in flight finish or meet its deadline."""
        self._stop_reason = self._stop_reason or reason
        if self._control is not None:
            self._control.interrupt(reason)

    def cancel(self, reason: str) -> None:
        """End the run now: cancel what is in flight, but keep every record."""
        self._stop_reason = self._stop_reason or reason
        if self._control is not None:
            self._control.cancel(reason)

    def open_window(self) -> None:
        """The users of a closed loop are all spawned."""
        if self._control is not None:
            self._control.open_window()

    # --- messages --------------------------------------------------------------------------------------------------

    def receive(self, told: FromWorker, client_id: str) -> None:
        """A worker's message."""
        if isinstance(told, Rows):
            self._collector.on_rows(told, client_id)
            return
        control = self._control
        if control is None or self.over.is_set():
            return
        if isinstance(told, Prepared):
            control.on_prepared(told, client_id)
        elif isinstance(told, StageDone):
            control.on_done(told, client_id)
        elif (worker := control.worker_index(client_id)) is not None:
            control.on_progress(told, client_id)
            self._generator_rows.writerow([worker, *msgspec.structs.astuple(told)])

    # --- the run ---------------------------------------------------------------------------------------------------

    def _run_all(self) -> None:
        try:
            self._link.send(OpenRun(run=self.run))
            next_index = 0
            for number, template in enumerate(self._stages):
                if self._stop_reason is not None:
                    break
                spec = msgspec.structs.replace(template, stage=number, first_index=next_index)
                next_index = self._run_stage(spec)
            self.ending = "complete" if self._stop_reason is None or self._nothing_cut_short() else "interrupted"
        except UsageError as error:
            self.ending, self.error = "failed", str(error)
        except Exception as error:
            logger.exception("the run failed")
            self.ending, self.error = "failed", f"{type(error).__name__}: {error}"
        finally:
            self._close()

    def _nothing_cut_short(self) -> bool:
        """A closed loop without a set time is stopped by hand, and that is all of it."""
        stages = self.manifest.stages
        return len(stages) == 1 and stages[0].spec.window_s is None and stages[0].interrupted is None

    def _run_stage(self, spec: StageSpec) -> int:
        control = self._control = StageControl(self.run, spec, self._link, self._roster, self._clock, self._append_plan)
        self._progress.stage_starts(control, spec.stage + 1, self._stage_count)
        updater = gevent.spawn(self._show, control)
        try:
            if self._stop_reason is not None:
                control.interrupt(self._stop_reason)
            self.manifest.stages.append(control.record)
            control.execute()
        except UsageError:
            self.manifest.stages.remove(control.record)
            raise
        finally:
            updater.kill()
            self._progress.stage_ends(control.record)
            self._generator.flush()
            self._save_manifest()
        return control.next_index

    def _show(self, control: StageControl) -> None:
        saved = False
        while True:
            self._progress.update(control)
            if control.record.start_ns and not saved:  # a crash from here on still leaves a stage to merge
                self._save_manifest()
                saved = True
            gevent.sleep(0.2)

    def _append_plan(self, lines: str) -> None:
        with open(self.folder.plan, "a", encoding="utf-8", newline="") as plan:
            plan.write(lines)

    def _save_manifest(self) -> None:
        self.manifest.save(self.folder.manifest)

    def _close(self) -> None:
        try:
            self._link.send(CloseRun(run_id=self.run.run_id))
            self._collector.close()
            self._generator.close()
            self.manifest.state = self.ending or "failed"
            self.manifest.state_reason = self.error or self._stop_reason
            self.manifest.ended_at = datetime.now(UTC).isoformat(timespec="seconds")
            self._save_manifest()
        except OSError as error:
            self.ending, self.error = "failed", f"the run folder {self.folder.path}: {error.strerror}"
        finally:
            self._progress.close()
            self.over.set()
            self._on_over(self)
