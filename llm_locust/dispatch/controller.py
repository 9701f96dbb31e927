"""A run from the master: stage after stage, the run folder, and the way out."""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Literal, Protocol

import gevent
import msgspec
from gevent.event import Event

from llm_locust.dispatch.bounds import Bounds
from llm_locust.dispatch.collector import Collector
from llm_locust.dispatch.link import Link
from llm_locust.dispatch.messages import CloseRun, Prepared, Preparing, Progress, Rows, StageDone
from llm_locust.dispatch.planning import as_workers_read_it
from llm_locust.dispatch.roster import Roster
from llm_locust.dispatch.row_file import RowFile
from llm_locust.dispatch.stage_control import StageControl, WorkerLost
from llm_locust.records import Clock, Manifest, RunFolder, StageManifest, StageSpec, UsageError, plan_header_line
from llm_locust.records.run import RunSpec

logger = logging.getLogger(__name__)

GENERATOR_COLUMNS = ("worker", *Progress.__struct_fields__)

FromWorker = Rows | Preparing | Prepared | Progress | StageDone
"""What workers tell a run (the roll call and clock pings are the roster's)."""

Ending = Literal["complete", "interrupted", "failed"]


class ProgressSink(Protocol):
    """Whoever shows a person how far the run is."""

    def stage_starts(self, control: StageControl, number: int, of: int | None) -> None:
        """A stage is about to start."""
        ...

    def waits(self, what: str) -> None:
        """Nothing happens, on purpose."""
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
        conversations: bool = False,
        bounds: Bounds,
        progress: ProgressSink,
        before_stage: Callable[[StageSpec], None],
        before_retry: Callable[[], None],
        after_stage: Callable[[RunController], str | None],
        on_over: Callable[[RunController], None],
        on_rows: Callable[[Rows], None] = lambda _: None,
        on_report: Callable[[int, Progress], None] = lambda *_: None,
    ) -> None:
        """Make the run folder and its first files.

        Args:
            link: the line to the workers.
            clock: the master's clock.
            roster: who takes part.
            run: what the workers are told.
            manifest: what is written down; this controller fills in the stages.
            stages: the stages; their place in the run and their first index are set here.
            conversations: whether every arrival begins a conversation.
            stage_count: how many stages there will be, if that is known.
            bounds: budgets of the whole run.
            progress: shows a person how far the run is.
            before_stage: called before each stage, to bring the server into the state that the stage asks for.
            before_retry: called before the next stage when nothing worked in the last; raises UsageError to give up.
            after_stage: called after each stage; returns why the run should end there, or ``None``.
            on_over: called when the raw files are complete.
            on_rows: told of rows that workers shipped, when they are on disk and acknowledged; must return at once.
            on_report: told of each worker's reports, by the worker's index; must return at once.

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
        self._conversations = conversations
        self._bounds = bounds
        self._before_stage = before_stage
        self._before_retry = before_retry
        self._after_stage = after_stage
        self._progress = progress
        self._on_over = on_over
        self._on_rows = on_rows
        self._on_report = on_report
        self.folder = RunFolder(run.folder)
        try:
            self.folder.requests_dir.mkdir(parents=True, exist_ok=False)
            self._plan = RowFile(self.folder.plan, plan_header_line())
            self._generator = RowFile(self.folder.generator, ",".join(GENERATOR_COLUMNS) + "\n")
            self.manifest.save(self.folder.manifest)
        except OSError as error:
            raise UsageError(
                f"--run-dir: the run folder {self.folder.path} cannot be written: {error.strerror}"
            ) from None
        self._collector = Collector(self.folder, link)
        self._control: StageControl | None = None
        self._users_spawned = False
        self._stop_reason: str | None = None
        self._stopped = Event()
        self._ended_by_judgement = False
        self._told: set[str] = set()
        self.ending: Ending | None = None
        self.error: str | None = None
        """Why the run could not go on, when it could not."""
        self.work_lost = False
        """Whether that was a worker that went away."""
        self.crashed = False
        """Whether that was a fault of ours."""
        self.over = Event()
        """The raw files are complete and closed."""

    def start(self) -> None:
        """Run in the background; :attr:`over` tells when it is done."""
        gevent.spawn(self._run_all)

    def interrupt(self, reason: str) -> None:
        """End the run in order: stop sending, let what is in flight finish or meet its deadline."""
        self._stop(reason)
        if self._control is not None:
            self._control.interrupt(reason)

    def cancel(self, reason: str) -> None:
        """End the run now: cancel what is in flight, but keep every record."""
        self._stop(reason)
        if self._control is not None:
            self._control.cancel(reason)

    def _stop(self, reason: str) -> None:
        self._stop_reason = self._stop_reason or reason
        self._stopped.set()

    def open_window(self) -> None:
        """The users of a closed loop are all spawned; Locust may say so before the stage that waits for it is there."""
        self._users_spawned = True
        if self._control is not None:
            self._control.open_window()

    # --- messages --------------------------------------------------------------------------------------------------

    def receive(self, told: FromWorker, client_id: str) -> None:
        """A worker's message."""
        if isinstance(told, Rows):
            if self._collector.on_rows(told, client_id):
                self._on_rows(told)
            return
        control = self._control
        if control is None or self.over.is_set():
            return
        if isinstance(told, Preparing):
            control.on_preparing(told, client_id)
        elif isinstance(told, Prepared):
            control.on_prepared(told, client_id)
        elif isinstance(told, StageDone):
            control.on_done(told, client_id)
        elif (worker := control.worker_index(client_id)) is not None:
            control.on_progress(told, client_id)
            self._note_health(worker, told)
            self._on_report(worker, told)

    # --- the run ---------------------------------------------------------------------------------------------------

    def _run_all(self) -> None:
        timer = None
        if self._bounds.max_minutes is not None:
            why = f"--max-minutes {self._bounds.max_minutes:g} is over"
            timer = gevent.spawn_later(self._bounds.max_minutes * 60, self.interrupt, why)
        try:
            next_index = sent = output_tokens = 0
            for number, template in enumerate(self._stages):
                if self._stop_reason is not None:
                    break
                spec = msgspec.structs.replace(
                    template, stage=number, first_index=next_index, conversations=self._conversations
                )
                spec = as_workers_read_it(spec)
                if self._control is not None and self._control.broken is not None:
                    self._before_retry()
                self._before_stage(spec)
                if spec.idle_before_s > 0:
                    self._progress.waits(f"nothing is sent for {spec.idle_before_s:g} s, then comes {spec.label}")
                    if self._stopped.wait(spec.idle_before_s):
                        break
                control = self._run_stage(spec, self._bounds.left(sent, output_tokens))
                next_index = control.next_index
                sent += control.sent
                output_tokens += control.output_tokens
                if self._stop_reason is None:
                    spent = control.stop_reason if control.broken is None else None
                    self._stop_reason = spent or self._collector.trouble
                if self._stop_reason is None and (verdict := self._after_stage(self)) is not None:
                    self._stop_reason, self._ended_by_judgement = verdict, True
            self.ending = "complete" if self._stop_reason is None or self._nothing_cut_short() else "interrupted"
        except UsageError as error:
            self.ending, self.error = "failed", str(error)
        except WorkerLost as error:
            self.ending, self.error, self.work_lost = "failed", str(error), True
        except OSError as error:
            self.ending, self.error = "failed", f"{error.filename or self.folder.path}: {error.strerror}"
        except Exception as error:
            logger.exception("the run failed")
            self.ending, self.error, self.crashed = "failed", f"{type(error).__name__}: {error}", True
        finally:
            if timer is not None:
                timer.kill()
            self._close()

    def _nothing_cut_short(self) -> bool:
        """A closed loop without a set time is stopped by hand, and a ladder may end at its first failing stage."""
        return (
            bool(self.manifest.stages)
            and all(stage.interrupted is None for stage in self.manifest.stages)
            and (self._ended_by_judgement or self.manifest.stages[-1].spec.by_users)
        )

    def _run_stage(self, spec: StageSpec, bounds: Bounds) -> StageControl:
        control = self._control = StageControl(
            self.run, spec, self._link, self._roster, self._clock, self._append_plan, bounds, self._told
        )
        self._progress.stage_starts(control, spec.stage + 1, self._stage_count)
        updater = gevent.spawn(self._show, control)
        try:
            if self._stop_reason is not None:
                control.interrupt(self._stop_reason)
            if self._users_spawned:
                control.open_window()
            self.manifest.stages.append(control.record)
            control.execute()
        except (UsageError, WorkerLost):
            self.manifest.stages.remove(control.record)
            raise
        finally:
            updater.kill()
            self._progress.stage_ends(control.record)
            self._save_manifest()
        return control

    def _show(self, control: StageControl) -> None:
        saved = False
        while True:
            self._progress.update(control)
            if control.record.start_ns and not saved:  # a crash from here on still leaves a stage to merge
                self._save_manifest()
                saved = True
            gevent.sleep(0.2)

    def _append_plan(self, lines: str) -> None:
        self._save_manifest()  # first: rows of a stage that the manifest does not know are no use after a crash
        try:
            self._plan.append(lines)
        except OSError as error:  # the lines are kept, or on disk thanks to the reserve; the run must end
            self.interrupt(f"{self._plan.path} cannot be written: {error.strerror}")

    def _note_health(self, worker: int, told: Progress) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow([worker, *msgspec.structs.astuple(told)])
        try:
            self._generator.append(text.getvalue())
        except OSError as error:
            self.interrupt(f"{self._generator.path} cannot be written: {error.strerror}")

    def _save_manifest(self) -> None:
        self.manifest.save(self.folder.manifest)

    def _close(self) -> None:
        try:
            self._link.send(CloseRun(run_id=self.run.run_id))
            self._collector.close()
            self._plan.close()
            self._generator.close()
            self.manifest.state = self.ending or "failed"
            told = self._ended_by_judgement or self.ending != "complete"
            self.manifest.state_reason = self.error or (self._stop_reason if told else None)
            self.manifest.ended_at = datetime.now(UTC).isoformat(timespec="seconds")
            self._save_manifest()
        except OSError as error:
            self.ending, self.error = "failed", f"the run folder {self.folder.path}: {error.strerror}"
        finally:
            self._progress.close()
            self.over.set()
            self._on_over(self)
