"""The worker's end of the line: follows the master's orders, one stage at a time, and reports."""

from __future__ import annotations

import logging
import os
import socket
import time
import traceback
from collections.abc import Callable

import gevent
import msgspec
from gevent.event import Event
from locust.runners import Runner, WorkerRunner

from llm_locust.dispatch.health import LoopMonitor, QuietCollector
from llm_locust.dispatch.link import Link
from llm_locust.dispatch.messages import (
    Ack,
    CancelInFlight,
    CloseRun,
    EndArrivals,
    Hello,
    Here,
    OpenRun,
    OpenWindow,
    Ping,
    Pong,
    Prepared,
    PrepareStage,
    Preparing,
    StageDone,
    StartStage,
)
from llm_locust.dispatch.recorder import Recorder
from llm_locust.dispatch.stage_run import StageRun
from llm_locust.dispatch.worker_run import CLOSED_STRIDE, Observe, RequestBuilder, WorkerRun
from llm_locust.records import Clock, RunFolder, UsageError
from llm_locust.records.run import RunSpec, WorkloadSpec
from llm_locust.streaming import StreamClient
from llm_locust.workload import Workload, workload_of

logger = logging.getLogger(__name__)

PROGRESS_S = 0.5
MASTER_SILENT_S = 15
"""Heartbeats come every second; after this long without one a worker sends nothing more, and finishes by itself."""
LOOKS = 4
"""So many reports in a row must find it silent: a process that was stopped itself, or whose wall clock was stepped, finds
an old heartbeat first, and a new one within a second."""
MASTER_GONE = "the master went away"
UPLOAD_S = 60
"""The longest wait for the master to acknowledge rows; they are in the worker's own file anyway."""


class WorkerAgent:
    """Everything of this project on one worker (or in the single process of a local run)."""

    def __init__(
        self,
        runner: Runner,
        builders: Callable[[], dict[str, RequestBuilder]],
        connect: Callable[[RunSpec, Clock], StreamClient],
        observe: Observe,
    ) -> None:
        """Listen for orders.

        Args:
            runner: Locust's worker or local runner.
            builders: makes one builder per user class, by name.
            connect: makes the stream client of a run.
            observe: told of every terminal record.
        """
        self._runner = runner
        self._link = Link(runner)
        self._builders = builders
        self._connect = connect
        self._observe = observe
        self._clock = Clock()
        self._run: WorkerRun | None = None
        self._run_error: str | None = None
        self._stage: StageRun | None = None
        self._stage_changed = Event()
        self._closed = Event()
        self._closed.set()
        link = self._link
        link.on(Hello, self._on_hello)
        link.on(Ping, self._on_ping)
        link.on(OpenRun, self._on_open_run)
        link.on(PrepareStage, self._on_prepare)
        link.on(StartStage, self._on_start)
        link.on(OpenWindow, self._on_open_window)
        link.on(EndArrivals, self._on_end_arrivals)
        link.on(CancelInFlight, self._on_cancel)
        link.on(Ack, self._on_ack)
        link.on(CloseRun, self._on_close_run)

    # --- what users and Locust need --------------------------------------------------------------------------------

    def turn(self, user: RequestBuilder) -> None:
        """One task execution of a Locust user: a closed-loop request, or a wait where there is nothing to do."""
        stage = self._stage
        if stage is not None and stage.accepting:
            stage.turn(user, type(user).__name__)
        else:
            self._stage_changed.wait(1.0)
            gevent.sleep(0)

    def finish_before_quitting(self) -> bool:
        """Called as this process quits: let the master end the stage in order, or end it alone if the master is gone.

        Returns:
            Whether the run was ended by the master: ``False`` when there was one, and nobody is left to judge it.
        """
        while not self._closed.wait(1.0):
            if self._master_silent_s() > MASTER_SILENT_S:
                logger.warning("the master is silent: finishing without it")
                self._finish_alone()
                return False
        return True

    @property
    def busy(self) -> bool:
        """Whether there is a run that the master still has the say in."""
        return not self._closed.is_set() and self._master_silent_s() <= MASTER_SILENT_S

    # --- orders ----------------------------------------------------------------------------------------------------

    def _on_hello(self, hello: Hello, _client_id: str) -> None:
        self._link.send(Here(roll_call=hello.roll_call, worker=self._index, host=socket.gethostname(), pid=os.getpid()))

    def _on_ping(self, ping: Ping, _client_id: str) -> None:
        self._link.send(Pong(serial=ping.serial, worker_ns=self._clock.now_ns()))

    def _on_open_run(self, order: OpenRun, _client_id: str) -> None:
        self._close_run()
        self._closed.clear()
        self._run_error = None
        try:
            folder = RunFolder(order.run.folder)
            workload = _load(order.run.workload)
            client = self._connect(order.run, self._clock)
            client.keep_text = client.keep_text or workload.converses
            self._run = WorkerRun(
                spec=order.run,
                worker=self._index,
                clock=self._clock,
                workload=workload,
                client=client,
                recorder=Recorder(folder, self._index, self._link),
                builders=self._builders(),
                observe=self._observe,
                stride=CLOSED_STRIDE if self._link.distributed else 1,
            )
        except (UsageError, OSError) as error:
            self._run_error = f"worker {self._index} on {socket.gethostname()}: {error}"

    def _on_prepare(self, order: PrepareStage, _client_id: str) -> None:
        digest: str | None = None
        addresses: tuple[str, ...] = ()
        error = self._run_error
        if error is None and self._run is None:
            error = f"worker {self._index} knows of no run: it joined too late"
        if self._run is not None and error is None:
            if self._stage is not None and not self._stage.over.is_set():  # given up as lost, and here again
                self._stage.end_arrivals("the next stage began")
            try:
                addresses = self._run.client.resolve()
                self._stage = StageRun(self._run, order)
                digest = self._stage.plan.sha256 if self._stage.plan is not None else None
            except UsageError as failure:
                error = f"worker {self._index}: {failure}"
            except Exception as failure:  # in the user's own request, most likely: the traceback says where
                logger.error("the stage cannot be prepared:\n%s", traceback.format_exc())
                error = f"worker {self._index}: {type(failure).__name__}: {failure}"
        prepared = Prepared(stage=order.spec.stage, plan_sha256=digest, addresses=list(addresses), error=error)
        if error is None and self._stage is not None:
            gevent.spawn(self._make_prompts, self._stage, prepared)
        else:
            self._link.send(prepared)

    def _make_prompts(self, stage: StageRun, prepared: Prepared) -> None:
        """Make the stage's prompts ahead, then say that it is prepared."""
        try:
            stage.prompts.make_ahead(
                lambda made, of: self._link.send(Preparing(stage=prepared.stage, made=made, of=of))
            )
        except Exception as failure:  # a file that has gone, or changed
            if not isinstance(failure, UsageError):
                logger.error("the prompts cannot be made:\n%s", traceback.format_exc())
            prepared = msgspec.structs.replace(prepared, error=f"worker {self._index}: {failure}")
        self._link.send(prepared)

    def _on_start(self, order: StartStage, _client_id: str) -> None:
        stage = self._stage
        if stage is not None and stage.spec.stage == order.stage:
            stage.start(order.start_ns)
            self._wake_users()
            gevent.spawn(self._report, stage)

    def _on_open_window(self, order: OpenWindow, _client_id: str) -> None:
        if self._stage is not None and self._stage.spec.stage == order.stage:
            self._stage.open_window(order.start_ns)

    def _on_end_arrivals(self, order: EndArrivals, _client_id: str) -> None:
        if self._stage is not None and self._stage.spec.stage == order.stage:
            self._stage.end_arrivals(order.reason)

    def _on_cancel(self, order: CancelInFlight, _client_id: str) -> None:
        if self._stage is not None and self._stage.spec.stage == order.stage:
            self._stage.cancel()

    def _on_ack(self, ack: Ack, _client_id: str) -> None:
        if self._run is not None:
            self._run.recorder.on_ack(ack)

    def _on_close_run(self, _order: CloseRun, _client_id: str) -> None:
        self._close_run()
        self._closed.set()

    # --- the stage, from start to its last acknowledged row --------------------------------------------------------

    def _report(self, stage: StageRun) -> None:
        run = self._run
        if run is None:
            return
        monitor, collector = LoopMonitor(), QuietCollector()
        silent = 0
        try:
            while not stage.over.wait(PROGRESS_S):
                self._link.send(stage.progress(*monitor.take()))
                silent = silent + 1 if self._master_silent_s() > MASTER_SILENT_S else 0
                if silent == LOOKS:  # it has given this worker up by now, or is no more
                    stage.end_arrivals(MASTER_GONE)
            run.recorder.wait_shipped(UPLOAD_S)
            self._link.send(stage.progress(*monitor.take()))
            self._link.send(
                StageDone(
                    stage=stage.spec.stage,
                    taken=stage.taken,
                    follow_ups=stage.follow_ups.issued if stage.follow_ups is not None else 0,
                    wall_step_ns=self._clock.wall_step_ns(),
                    clock_steps=stage.clock_steps,
                    error=stage.error,
                )
            )
        finally:
            monitor.close()
            collector.close()

    def _wake_users(self) -> None:
        self._stage_changed.set()
        self._stage_changed.clear()

    def _close_run(self) -> None:
        if self._stage is not None and not self._stage.over.is_set():  # as above: nobody waits for it any more
            self._stage.cancel()
        if self._run is not None:
            self._run.recorder.close()
            self._run.client.close()
        self._run = None
        self._stage = None

    def _finish_alone(self) -> None:
        stage, run = self._stage, self._run
        if stage is not None and run is not None:
            stage.end_arrivals(MASTER_GONE)
            if not stage.over.wait(run.spec.deadline_s):
                stage.cancel()
                stage.over.wait(5)
        self._close_run()
        self._closed.set()

    def _master_silent_s(self) -> float:
        if isinstance(self._runner, WorkerRunner) and self._runner.last_heartbeat_timestamp is not None:
            return time.time() - self._runner.last_heartbeat_timestamp
        return 0.0

    @property
    def _index(self) -> int:
        return max(int(getattr(self._runner, "worker_index", 0)), 0)


def _load(spec: WorkloadSpec) -> Workload:
    """The run's workload; read in a thread where it may take long, since heartbeats must go on."""
    if spec.trace_file is None:
        return workload_of(spec)
    workload: Workload = gevent.get_hub().threadpool.apply(workload_of, (spec,))
    return workload
