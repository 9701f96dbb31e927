"""One stage from the master: plan, start, watch, end arrivals, drain, account for every worker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from gevent.event import Event

from llm_locust.arrivals import StagePlan
from llm_locust.dispatch.bounds import Bounds, broken_circuit
from llm_locust.dispatch.link import Link
from llm_locust.dispatch.messages import (
    CancelInFlight,
    EndArrivals,
    OpenRun,
    OpenWindow,
    Prepared,
    PrepareStage,
    Preparing,
    Progress,
    StageDone,
    StartStage,
)
from llm_locust.dispatch.missing import Missing
from llm_locust.dispatch.planning import plan_here
from llm_locust.dispatch.roster import Roster, in_parallel
from llm_locust.dispatch.shares import Shares
from llm_locust.dispatch.worker_run import share
from llm_locust.records import (
    NS_PER_S,
    Clock,
    PlanRow,
    StageManifest,
    StageSpec,
    StageWorker,
    UsageError,
    encode_plan_rows,
)
from llm_locust.records.run import RunSpec

logger = logging.getLogger(__name__)

LEAD_S = 0.5
"""From the order to start until the start: every worker has it by then."""
PREPARE_S = 120
GRACE_S = 30
"""Beyond the last possible deadline, for uploads, before a silent worker is given up."""


class WorkerLost(Exception):
    """A worker went away before a stage could begin."""


class StageControl:
    """Runs one stage over the workers that answered the roll call."""

    def __init__(
        self,
        run: RunSpec,
        spec: StageSpec,
        link: Link,
        roster: Roster,
        clock: Clock,
        append_plan: Callable[[str], None],
        bounds: Bounds,
        told: set[str],
    ) -> None:
        """Prepare to run one stage.

        Args:
            run: what the workers are told of the run.
            spec: the stage.
            link: the line to the workers.
            roster: who is there.
            clock: the master's clock.
            append_plan: writes lines of ``plan.csv``.
            bounds: what is left of the run's budgets.
            told: the workers that know of the run; those that joined since are told, and added.
        """
        self._told = told
        self._run = run
        self._bounds = bounds
        self.spec = spec
        self._link = link
        self._roster = roster
        self._clock = clock
        self._append_plan = append_plan
        self._prepared: dict[str, Prepared] = {}
        self._done: dict[str, StageDone] = {}
        self._missing = Missing()
        self._news = Event()
        self._stop_reason: str | None = None
        self._cancel = False
        self._incomplete = False
        """Arrivals of the window may have gone unsent for a bound of ours."""
        self.broken: str | None = None
        """Why the circuit breaker ended the stage, if it did."""
        self.window_opened = Event()
        self.progress: dict[str, Progress] = {}
        """The last report of each worker, by client id."""
        self.preparing: dict[str, Preparing] = {}
        """How far each worker is with its prompts, of those that take long over them."""
        self.record = StageManifest(spec=spec, start_ns=0, window_start_ns=0, window_end_ns=None)
        self._workers: dict[str, StageWorker] = {}
        self._plan: StagePlan | None = None
        self._shares: Shares | None = None

    # --- told from outside -----------------------------------------------------------------------------------------

    def interrupt(self, reason: str) -> None:
        """End the stage early: no more arrivals, what is in flight goes on to its end or deadline."""
        if self._stop_reason is None:
            self._stop_reason = reason
            self._news.set()

    def cancel(self, reason: str) -> None:
        """End the stage now: what is in flight is cancelled."""
        self.interrupt(reason)
        self._cancel = True
        self._news.set()

    def open_window(self) -> None:
        """A closed stage's users are all there: its window begins."""
        self.window_opened.set()
        self._news.set()

    def on_preparing(self, told: Preparing, client_id: str) -> None:
        """A worker is making its prompts."""
        if told.stage == self.spec.stage:
            self.preparing[client_id] = told

    def on_prepared(self, prepared: Prepared, client_id: str) -> None:
        """A worker made its plan."""
        if prepared.stage == self.spec.stage:
            self._prepared[client_id] = prepared
            self._news.set()

    def on_progress(self, progress: Progress, client_id: str) -> None:
        """A worker reports."""
        if progress.stage == self.spec.stage and client_id in self._workers:
            self.progress[client_id] = progress
            self._news.set()

    def on_done(self, done: StageDone, client_id: str) -> None:
        """A worker has ended every request and uploaded every row."""
        if done.stage == self.spec.stage:
            self._done[client_id] = done
            self._news.set()

    # --- the stage -------------------------------------------------------------------------------------------------

    def execute(self) -> StageManifest:
        """Run the stage to its end.

        Raises:
            WorkerLost: a worker went away before the stage began.
            UsageError: no worker answers, or a worker cannot make the same plan (its reason is given).
        """
        self._gather()
        self._prepare()
        self._start()
        self._watch()
        self._account()
        return self.record

    def _gather(self) -> None:
        present = self._roster.call()
        if not present:
            raise UsageError("no worker answers: start workers first, then the run")
        if self._run.max_in_flight is not None and self._run.max_in_flight < len(present):
            raise UsageError(
                f"--max-in-flight {self._run.max_in_flight} is less than the {len(present)} workers: each needs a place "
                "of its own; use fewer workers or a higher cap"
            )
        for client in present:
            if client not in self._told:  # at the first stage everybody, later who joined in between
                self._link.send(OpenRun(run=self._run), client)
                self._told.add(client)
        samples = in_parallel({client: partial(self._roster.clock_sample, client) for client in present})
        for rank, (client, here) in enumerate(present.items()):
            self._workers[client] = StageWorker(
                worker=here.worker,
                client_id=client,
                rank=rank,
                host=here.host,
                pid=here.pid,
                clock_start=samples[client],
            )
        self.record.workers = list(self._workers.values())

    def _prepare(self) -> None:
        if self.spec.mode == "open":
            self._plan = plan_here(self.spec, self._run.users)
            self._shares = Shares(self._run, self.spec, self._plan, len(self._workers))
            self.record.plan_sha256 = self._plan.sha256
            if len(self._workers) > len(self._plan):
                logger.info("%d workers for %d arrivals: some will idle", len(self._workers), len(self._plan))
        count = len(self._workers)
        for client, worker in self._workers.items():
            order = PrepareStage(
                spec=self.spec,
                rank=worker.rank,
                of=count,
                max_requests=share(self._bounds.max_requests, worker.rank, count),
                max_output_tokens=share(self._bounds.max_output_tokens, worker.rank, count),
            )
            self._link.send(order, client)
        give_up_ns = self._clock.now_ns() + PREPARE_S * NS_PER_S
        while set(self._prepared) < set(self._workers) and (now := self._clock.now_ns()) < give_up_ns:
            self._look_for_lost(now, None)
            gone = next((worker for worker in self._workers.values() if worker.lost), None)
            if gone is not None:
                raise WorkerLost(f"worker {gone.worker} on {gone.host} was lost before the stage: {gone.lost_reason}")
            self._news.clear()
            self._news.wait(0.25)
        for client, worker in self._workers.items():
            prepared = self._prepared.get(client)
            if prepared is None:
                raise UsageError(
                    f"worker {worker.worker} on {worker.host} did not prepare the stage within {PREPARE_S} s; "
                    "look at its log, and start it again"
                )
            if prepared.error is not None:
                raise UsageError(prepared.error)
            worker.addresses = prepared.addresses
            if prepared.plan_sha256 != self.record.plan_sha256:
                raise UsageError(
                    f"worker {worker.worker} on {worker.host} makes another plan from the same specification: "
                    "install the same versions of llm-locust and numpy everywhere"
                )

    def _start(self) -> None:
        start_ns = self._clock.now_ns() + round(LEAD_S * NS_PER_S)
        warmup_ns = round(self.spec.warmup_s * NS_PER_S)
        self.record.start_ns = start_ns
        self.record.window_start_ns = start_ns + warmup_ns
        if self._plan is not None:
            self.record.window_end_ns = self.record.window_start_ns + self._plan.window_ns
        elif self.spec.window_s is not None:
            self.record.window_end_ns = self.record.window_start_ns + round(self.spec.window_s * NS_PER_S)
        if self._shares is not None:
            self._write_plan(self._shares.rows(self._shares.before_cooldown, self.record))
        for client, worker in self._workers.items():
            self._link.send(StartStage(stage=self.spec.stage, start_ns=start_ns + _offset(worker)), client)

    def _watch(self) -> None:
        cancelled = window_told = reason_told = False
        give_up_ns: int | None = None
        while self._unfinished() or self._window_goes_on():
            now = self._clock.now_ns()
            self._look_for_a_reason_to_stop()
            if self._stop_reason is not None and not reason_told:
                self._cut_short(now, self._stop_reason)
                reason_told = True
            elif self.record.arrivals_end_ns is None and self._arrivals_are_over(now):
                self.record.arrivals_end_ns = now
                self._send_all(EndArrivals(stage=self.spec.stage, reason=None))
            if self._cancel and not cancelled:
                self.record.interrupted = self._stop_reason
                self._send_all(CancelInFlight(stage=self.spec.stage))
                cancelled = True
            if self.window_opened.is_set() and not window_told:
                self._tell_window(now)
                window_told = True
            if self.record.arrivals_end_ns is not None and give_up_ns is None:
                longest_s = 2 * self._run.deadline_s if self._run.max_in_flight is not None else self._run.deadline_s
                give_up_ns = now + round((longest_s + GRACE_S) * NS_PER_S)
            self._look_for_lost(now, give_up_ns)
            self._news.clear()
            self._news.wait(0.1)
        if self.record.arrivals_end_ns is None:
            self.record.arrivals_end_ns = self._clock.now_ns()
        self.record.end_ns = self._clock.now_ns()

    def _unfinished(self) -> bool:
        """Whether a worker that is not lost has not said that it is done."""
        return set(self._done) < {client for client, worker in self._workers.items() if not worker.lost}

    def _window_goes_on(self) -> bool:
        """Every request may have ended before the window does: what the server shows until then belongs to it."""
        end = self.record.window_end_ns
        return end is not None and self._stop_reason is None and self._clock.now_ns() < end and bool(self._done)

    def _look_for_a_reason_to_stop(self) -> None:
        if self._stop_reason is not None:
            return
        wanted = next((report.stop for report in self.progress.values() if report.stop is not None), None)
        if self.record.arrivals_end_ns is None:
            self.broken = broken_circuit(self.progress.values(), self._bounds.failures_in_a_row)
        if self.broken is not None or wanted is not None:
            self._incomplete = True
            self.interrupt(self.broken or wanted or "")

    def _arrivals_are_over(self, now: int) -> bool:
        """The window's batch has ended, or the cool-down has. A closed loop has none, or ends by itself."""
        if self.record.window_end_ns is None or now < self.record.window_end_ns:
            return False
        if now >= self.record.window_end_ns + round(self.spec.cooldown_s * NS_PER_S):
            return True
        living = [client for client, worker in self._workers.items() if not worker.lost]
        return all(client in self.progress and self.progress[client].batch_left == 0 for client in living)

    def _cut_short(self, now: int, reason: str) -> None:
        """Somebody stops the stage. Before the window's end that is an interruption; in the drain only if arrivals are held.

        A closed loop of Locust's users ends this way by design.
        """
        held = any(report.waiting for report in self.progress.values())
        if self.record.arrivals_end_ns is None:
            self.record.arrivals_end_ns = now
        window_end = self.record.window_end_ns
        if window_end is None or now < window_end:
            self.record.window_end_ns = max(now, self.record.window_start_ns)
            if not self.spec.by_users:
                self.record.interrupted = reason
        if held or self._incomplete:
            self.record.interrupted = reason
        self._send_all(EndArrivals(stage=self.spec.stage, reason=reason))

    def _tell_window(self, now: int) -> None:
        begin = max(now, self.record.start_ns)  # users may be there before the stage starts
        at = begin + round(self.spec.warmup_s * NS_PER_S)
        self.record.window_start_ns = at
        for client, worker in self._workers.items():
            self._link.send(OpenWindow(stage=self.spec.stage, start_ns=at + _offset(worker)), client)

    def _look_for_lost(self, now: int, give_up_ns: int | None) -> None:
        at_work = {client: worker for client, worker in self._workers.items() if client not in self._done}
        self._missing.look(at_work, set(self._link.clients()), now, cancelled=self._cancel, give_up_ns=give_up_ns)

    def _account(self) -> None:
        samples = in_parallel(
            {client: partial(self._roster.clock_sample, client) for client in self._workers if client in self._done}
        )
        for client, worker in self._workers.items():
            if (done := self._done.get(client)) is not None:
                worker.taken = done.taken
                worker.wall_step_ns = done.wall_step_ns
                worker.clock_steps = done.clock_steps
                worker.clock_end = samples.get(client)
        if self._shares is not None:
            due = self._shares.due_in_cooldown(self.record)
            self._write_plan(self._shares.rows(due, self.record))
            self.record.planned = len(self._shares.before_cooldown) + len(due)
        else:
            self.record.planned = sum(worker.taken or 0 for worker in self._workers.values())

    def _write_plan(self, rows: Sequence[PlanRow]) -> None:
        if rows:
            self._append_plan(encode_plan_rows(rows))

    def _send_all(self, order: EndArrivals | CancelInFlight) -> None:
        for client, worker in self._workers.items():
            if not worker.lost:
                self._link.send(order, client)

    def worker_index(self, client_id: str) -> int | None:
        """The ``k`` of a worker of this stage; ``None`` for a client that takes no part."""
        worker = self._workers.get(client_id)
        return worker.worker if worker is not None else None

    @property
    def stop_reason(self) -> str | None:
        """Why the stage was ended from outside or by a bound; ``None`` when it ran its time."""
        return self._stop_reason

    @property
    def sent(self) -> int:
        """Requests sent so far."""
        return sum(report.sent for report in self.progress.values())

    @property
    def output_tokens(self) -> int:
        """Tokens generated so far; what is still in flight counts with its limit."""
        return sum(report.output_tokens for report in self.progress.values())

    @property
    def next_index(self) -> int:
        """The first index that the next stage may use."""
        if self._plan is not None:
            further = max((done.follow_ups for done in self._done.values()), default=0)
            return self.spec.first_index + len(self._plan) + further * len(self._workers)
        # Closed loops number by worker and stride: leave room for the longest.
        return self.spec.first_index + (max((w.taken or 0 for w in self.record.workers), default=0) + 1) * 1000


def _offset(worker: StageWorker) -> int:
    return worker.clock_start.offset_ns if worker.clock_start is not None else 0
