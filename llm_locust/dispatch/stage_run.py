"""One stage on one worker: takes arrivals up when they are due, sends them, and ends each with exactly one record.

Arrivals are open: the dispatcher waits for planned times only, never for completions, and its group has no size limit.
A cap (``--max-in-flight``) queues arrivals after they were taken up, so the wait it causes is on record as cap wait.
"""

from __future__ import annotations

import logging
import traceback
from bisect import bisect_right
from collections import deque
from typing import NamedTuple

import gevent
from gevent.event import Event
from gevent.pool import Group

from llm_locust.arrivals import PHASES, StagePlan, plan_stage
from llm_locust.dispatch.messages import PrepareStage, Progress
from llm_locust.dispatch.pacer import Pacer
from llm_locust.dispatch.worker_run import RequestBuilder, WorkerRun, share
from llm_locust.records import NS_PER_S, Outcome, PlanRow, RequestRecord
from llm_locust.records.run import request_id
from llm_locust.streaming import Cancelled, Reply, StreamRequest
from llm_locust.streaming.redaction import safe_line
from llm_locust.streaming.turns import Turnstile, give_way
from llm_locust.workload import Prompt

logger = logging.getLogger(__name__)

_REPLY_FIELDS = tuple(name for name in Reply.__struct_fields__ if name in RequestRecord.__struct_fields__)


class _Ready(NamedTuple):
    """A request that is made and may be sent."""

    record: RequestRecord
    builder: RequestBuilder
    request: StreamRequest
    max_tokens: int


class StageRun:
    """One stage on one worker, open or closed."""

    def __init__(self, run: WorkerRun, prepare: PrepareStage) -> None:
        """Make the plan and try the first request, so that what can fail fails before load."""
        self._run = run
        self.spec = prepare.spec
        self._rank = prepare.rank
        self._of = prepare.of
        self.plan: StagePlan | None = None
        self._offsets: list[int] = []
        self._batch: range = range(0)
        if self.spec.mode == "open":
            self.plan = plan_stage(self.spec, run.spec.users)
            mine = slice(prepare.rank, None, prepare.of)
            self._offsets = self.plan.offset_ns[mine].tolist()
            phases = self.plan.phase[mine].tolist()
            self._batch = range(bisect_right(phases, 0), bisect_right(phases, 1))
            self._phases = phases
            self._users = [run.spec.users[user].name for user in self.plan.user[mine].tolist()]
        self._try_builders()
        self._cap = share(run.spec.max_in_flight, prepare.rank, prepare.of)
        self._max_requests = prepare.max_requests
        self._max_output_tokens = prepare.max_output_tokens
        self._deadline_ns = round(run.spec.deadline_s * NS_PER_S)
        self._group = Group()
        self._turns = Turnstile()
        self._streaming: set[gevent.Greenlet[..., None]] = set()
        self._making = 0
        """Arrivals whose request is being made."""
        self._held: deque[_Ready] = deque()
        self._cutoff_ns: int | None = None
        self._end_reason: str | None = None
        self._cutoff_moved = Event()
        self._cancelled = False
        self._dispatching = False
        self._window_start_ns: int | None = None
        self.accepting = False
        """Whether closed-loop turns may start."""
        self.start_ns = 0
        self.taken = 0
        self.sent = 0
        self.in_flight = 0
        self.ok = 0
        self.failed = 0
        self.batch_left = len(self._batch)
        self.over = Event()
        """Every arrival that was due has its record."""
        self.error: str | None = None
        self.stop: str | None = None
        """Why this worker wants the run to end."""
        self.output_tokens = 0
        """Generated, and for what is in flight reserved."""
        self.failures_in_a_row = 0
        self.last_failure: str | None = None

    # --- master's orders -------------------------------------------------------------------------------------------

    def start(self, start_ns: int) -> None:
        """Begin at this instant (this worker's clock)."""
        self.start_ns = start_ns
        if self.spec.mode == "open":
            self._dispatching = True
            gevent.spawn(self._dispatch).link_exception(self._on_crash)
        else:
            self.accepting = True

    def open_window(self, start_ns: int) -> None:
        """A closed stage's window begins: what is sent from here on belongs to the batch."""
        self._window_start_ns = start_ns

    def end_arrivals(self, reason: str | None) -> None:
        """No more arrivals; what is in flight goes on. A reason marks the rest of the plan as ``not_sent``."""
        if self._cutoff_ns is None:
            self._cutoff_ns = self._run.clock.now_ns()
            self._end_reason = reason
        elif reason is not None and self._end_reason is None:
            self._end_reason = reason
        while reason is not None and self._held:
            self._not_sent(self._held.popleft().record, f"{reason}, while held back by --max-in-flight")
        self.accepting = False
        self._cutoff_moved.set()
        self._check_over()

    def cancel(self) -> None:
        """Wait for nothing: in flight becomes ``cancelled``, held back becomes ``not_sent``."""
        self._cancelled = True
        self.end_arrivals("cancelled")
        for greenlet in list(self._streaming):
            greenlet.kill(Cancelled, block=False)
        self._check_over()

    # --- open arrivals ---------------------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        pacer = Pacer()
        try:
            self._take_up_when_due(pacer)
        finally:
            pacer.close()
        self._dispatching = False
        self._check_over()

    def _take_up_when_due(self, pacer: Pacer) -> None:
        run, start_ns = self._run, self.start_ns
        unyielded = 0
        for position, offset in enumerate(self._offsets):
            planned = start_ns + offset
            if self._cutoff_ns is None and planned > run.clock.now_ns():
                unyielded = 0
                pacer.wait_until(planned - run.clock.anchor_ns, self._cutoff_moved)
            if self._cutoff_ns is not None:
                self._withdraw_from(position)
                return
            record = self._record(position, planned)
            self.taken += 1
            self._making += 1
            self._group.spawn(self._take_up, record, run.builders[record.user])
            unyielded += 1
            if unyielded % 4 == 0:  # late already: let the requests out, catching up must not hold them back further
                give_way()

    def _withdraw_from(self, position: int) -> None:
        """Arrivals ended early: planned warm-up and window arrivals are accounted for, cool-down ones never were due."""
        if self._end_reason is None:
            return
        for later in range(position, len(self._offsets)):
            if PHASES[self._phases[later]] == "cooldown":
                break
            self.taken += 1
            self._not_sent(self._record(later, self.start_ns + self._offsets[later]), self._end_reason)

    def _record(self, position: int, planned_ns: int) -> RequestRecord:
        index = self.spec.first_index + self._rank + position * self._of
        return RequestRecord(
            run_id=self._run.spec.run_id,
            stage=self.spec.stage,
            round=self.spec.round,
            phase=PHASES[self._phases[position]],
            index=index,
            request_id=request_id(self._run.spec.run_id, index),
            worker=self._run.worker,
            user=self._users[position],
            planned_ns=planned_ns,
            outcome=Outcome.GENERATOR_ERROR,
        )

    def _take_up(self, record: RequestRecord, builder: RequestBuilder) -> None:
        """Make the request, then send it, or hold it back under a cap.

        An arrival is *dispatched* once its request is made: a user class that takes its time over it makes the generator
        late, and that has to show as dispatch lag.
        """
        ready = self._make(record, builder)
        self._making -= 1
        if ready is None:
            self._check_over()
        elif self._end_reason is not None:
            self._not_sent(record, self._end_reason)
            self._check_over()
        elif self._cap is not None and (self.in_flight >= self._cap or self._held):
            self._held.append(ready)
        else:
            self.in_flight += 1
            self._perform(ready)

    def _make(self, record: RequestRecord, builder: RequestBuilder, prompt: Prompt | None = None) -> _Ready | None:
        """The request of an arrival; ``None`` when it could not be made, and the record says so."""
        try:
            prompt = prompt or self._describe(record)
            request = builder.build_request(prompt, record.request_id)
        except Exception as error:
            self._our_fault(record, error)
            self._ended(record, None, builder)
            return None
        record.dispatched_ns = self._run.clock.now_ns()
        return _Ready(record, builder, request, prompt.max_tokens)

    # --- closed loop -----------------------------------------------------------------------------------------------

    def turn(self, builder: RequestBuilder, user_name: str) -> None:
        """One turn of a closed-loop user: returns when its request has ended.

        The request runs in a greenlet of its own, so that a user whom Locust removes leaves no request without record.
        """
        self._turns.wait()
        if not self.accepting:
            return
        run = self._run
        index = self.spec.first_index + run.worker + self.taken * run.stride
        self.taken += 1
        measured = self._window_start_ns is not None and run.clock.now_ns() >= self._window_start_ns
        record = RequestRecord(
            run_id=run.spec.run_id,
            stage=self.spec.stage,
            round=self.spec.round,
            phase="measure" if measured else "warmup",
            index=index,
            request_id=request_id(run.spec.run_id, index),
            worker=run.worker,
            user=user_name,
            outcome=Outcome.GENERATOR_ERROR,
        )
        prompt = self._describe(record)
        run.recorder.issue(
            PlanRow(
                run_id=record.run_id,
                stage=record.stage,
                round=record.round,
                phase=record.phase,
                index=index,
                request_id=record.request_id,
                worker=run.worker,
                user=user_name,
                slice=record.slice,
                prompt_index=record.prompt_index,
                max_tokens=prompt.max_tokens,
                prefix_group=record.prefix_group,
                session=record.session,
            )
        )
        if (ready := self._make(record, builder, prompt)) is not None:
            self._issue(ready).join()

    # --- one request -----------------------------------------------------------------------------------------------

    def _issue(self, ready: _Ready) -> gevent.Greenlet[..., None]:
        self.in_flight += 1
        greenlet: gevent.Greenlet[..., None] = self._group.spawn(self._perform, ready)
        return greenlet

    def _perform(self, ready: _Ready) -> None:
        record = ready.record
        reply: Reply | None = None
        reserved = 0
        try:
            if self._cancelled:
                record.outcome, record.error = Outcome.NOT_SENT, "cancelled before it was sent"
                return
            if (spent := self._spent_budget(ready.max_tokens)) is not None:
                record.outcome, record.error = Outcome.NOT_SENT, spent
                self.stop = self.stop or spent
                return
            self.sent += 1
            reserved = ready.max_tokens
            self.output_tokens += reserved
            me = gevent.getcurrent()
            assert isinstance(me, gevent.Greenlet)
            self._streaming.add(me)
            try:
                reply = self._run.client.stream(ready.request, deadline_s=self._run.spec.deadline_s)
            finally:
                self._streaming.discard(me)
            for name in _REPLY_FIELDS:
                setattr(record, name, getattr(reply, name))
        except Cancelled:  # thrown a moment before or after the stream was there to catch it
            record.outcome, record.error = Outcome.CANCELLED, "cancelled"
        except Exception as error:
            self._our_fault(record, error)
        finally:
            self.in_flight -= 1
            if record.output_tokens is not None:
                self.output_tokens += record.output_tokens - reserved
            self._ended(record, reply, ready.builder)
            self._release()

    def _our_fault(self, record: RequestRecord, error: Exception) -> None:
        """Ours or the user's own code, never the server's: it voids the stage, and keeps its traceback in the log."""
        record.outcome, record.error = Outcome.GENERATOR_ERROR, safe_line(f"{type(error).__name__}: {error}")
        if self.error is None:
            self.error = record.error
            logger.error("request %s could not be made:\n%s", record.request_id, traceback.format_exc())

    def _spent_budget(self, tokens: int) -> str | None:
        """Which budget one more request of this many output tokens would break, in words."""
        if self._max_requests is not None and self.sent >= self._max_requests:
            return "--max-requests is used up"
        if self._max_output_tokens is not None and self.output_tokens + tokens > self._max_output_tokens:
            return "--max-output-tokens is used up"
        return None

    def _describe(self, record: RequestRecord) -> Prompt:
        prompt = self._run.workload.prompt(record.index)
        record.prompt_index = prompt.index
        record.prompt_sha256 = prompt.sha256
        record.max_tokens = prompt.max_tokens
        record.slice = prompt.slice
        record.prefix_group = prompt.prefix_group
        record.session = prompt.session
        return prompt

    def _release(self) -> None:
        """A place under the cap is free: the longest held arrival takes it, unless it was held past the deadline."""
        now = self._run.clock.now_ns()
        while self._held and not self._cancelled:
            record = self._held[0].record
            if now - (record.dispatched_ns or now) > self._deadline_ns:
                self._held.popleft()
                self._not_sent(record, "held back by --max-in-flight for longer than the deadline")
            elif self._cap is None or self.in_flight < self._cap:
                self._issue(self._held.popleft())
            else:
                break
        self._check_over()

    def _not_sent(self, record: RequestRecord, why: str) -> None:
        record.outcome, record.error = Outcome.NOT_SENT, why
        self._describe(record)
        self._ended(record, None, self._run.builders[record.user])

    def _ended(self, record: RequestRecord, reply: Reply | None, builder: RequestBuilder) -> None:
        if record.end_ns is None:
            record.end_ns = self._run.clock.now_ns()
        if record.outcome is Outcome.OK:
            self.ok += 1
            self.failures_in_a_row = 0
        else:
            self.failed += 1
            if record.outcome is not Outcome.NOT_SENT:
                self.failures_in_a_row += 1
                self.last_failure = f"{record.outcome}: {record.error}"
        self._run.recorder.add(record)
        if self.spec.mode == "open" and record.phase == "measure":
            self.batch_left -= 1
        try:
            self._run.observe(record, reply, builder)
        except Exception:
            logger.error("a listener failed on %s:\n%s", record.request_id, traceback.format_exc())

    def _check_over(self) -> None:
        idle = self.in_flight + self._making == 0 and not self._held and not self._dispatching
        if idle and (self.spec.mode == "open" or self._cutoff_ns is not None):
            self.over.set()

    def _on_crash(self, greenlet: gevent.Greenlet[..., None]) -> None:
        self.error = f"the dispatcher failed: {greenlet.exception!r}"
        logger.error("%s\n%s", self.error, "".join(traceback.format_exception(greenlet.exception)))
        self._dispatching = False
        self._check_over()

    def _try_builders(self) -> None:
        """One request of each class, not sent: a user's mistake in the request shows before load."""
        prompt = self._run.workload.prompt(self.spec.first_index)
        for builder in self._run.builders.values():
            builder.build_request(prompt, request_id(self._run.spec.run_id, self.spec.first_index))

    # --- reports ---------------------------------------------------------------------------------------------------

    def progress(self, cpu_percent: float | None, loop_lag_ms: float | None) -> Progress:
        """How far this stage is."""
        now = self._run.clock.now_ns()
        due = bisect_right(self._offsets, now - self.start_ns) if self.spec.mode == "open" else self.taken
        if self._cutoff_ns is not None:
            due = min(due, self.taken)
        return Progress(
            stage=self.spec.stage,
            at_ns=now,
            due=due,
            sent=self.sent,
            in_flight=self.in_flight,
            waiting=len(self._held),
            ok=self.ok,
            failed=self.failed,
            batch_left=self.batch_left,
            output_tokens=self.output_tokens,
            failures_in_a_row=self.failures_in_a_row,
            last_failure=self.last_failure,
            stop=self.stop or self._run.recorder.trouble,
            cpu_percent=cpu_percent,
            loop_lag_ms=loop_lag_ms,
        )
