"""One stage on one worker: every arrival that was due is taken up and ends with exactly one record.

How requests come about is told apart: open arrivals by their planned times (:mod:`~llm_locust.dispatch.open_arrivals`),
closed loops by the end of the request before (:mod:`~llm_locust.dispatch.closed_loop`). From there on all are alike. A cap
(``--max-in-flight``) queues requests after they were taken up, so the wait it causes is on record as cap wait.
"""

from __future__ import annotations

import logging
import traceback
from collections import deque
from typing import Any, NamedTuple

import gevent
from gevent.event import Event
from gevent.pool import Group

from llm_locust.arrivals import StagePlan, leaves
from llm_locust.dispatch.checking import Checking
from llm_locust.dispatch.closed_loop import ClosedLoop
from llm_locust.dispatch.follow_ups import FollowUps, window_of
from llm_locust.dispatch.messages import PrepareStage, Progress
from llm_locust.dispatch.open_arrivals import OpenArrivals
from llm_locust.dispatch.planning import plan_here
from llm_locust.dispatch.stage_prompts import StagePrompts
from llm_locust.dispatch.worker_run import RequestBuilder, WorkerRun, share
from llm_locust.records import NS_PER_S, Outcome, RequestRecord, UsageError, left_as_planned
from llm_locust.records.run import request_id
from llm_locust.streaming import Cancelled, Reply, StreamRequest
from llm_locust.streaming.redaction import safe_line
from llm_locust.workload import Prompt

logger = logging.getLogger(__name__)

_REPLY_FIELDS = tuple(name for name in Reply.__struct_fields__ if name in RequestRecord.__struct_fields__)


class Ready(NamedTuple):
    """A request that is made and may be sent."""

    record: RequestRecord
    builder: RequestBuilder
    request: StreamRequest
    prompt: Prompt


class StageRun:
    """One stage on one worker, open or closed."""

    def __init__(self, run: WorkerRun, prepare: PrepareStage) -> None:
        """Make the plan and try the first request, so that what can fail fails before load.

        Raises:
            UsageError: the trace cannot be replayed here, or a user class cannot do what the stage asks for.
        """
        self.run = run
        self.spec = prepare.spec
        self.group = Group()
        self.cutoff_ns: int | None = None
        """When arrivals ended."""
        self.cutoff_moved = Event()
        self.end_reason: str | None = None
        """Why arrivals ended before their time."""
        self.start_ns = 0
        self._clock_steps_before = run.client.clock_steps
        self.taken = 0
        """Arrivals that were due."""
        self.sent = 0
        self.in_flight = 0
        self.ok = 0
        self.failed = 0
        self.over = Event()
        """Every arrival that was due has its record."""
        self.error: str | None = None
        self.stop: str | None = None
        """Why this worker wants the run to end."""
        self.output_tokens = 0
        """Generated, and for what is in flight reserved."""
        self.failures_in_a_row = 0
        self.last_failure: str | None = None
        self.plan: StagePlan | None = None
        self._open: OpenArrivals | None = None
        self._closed: ClosedLoop | None = None
        self.follow_ups: FollowUps | None = None
        if self.spec.mode == "open":
            self.plan = plan_here(self.spec, run.spec.users)
            self._open = OpenArrivals(self, self.plan, prepare.rank, prepare.of)
            self.follow_ups = FollowUps(
                self,
                first_index=self.spec.first_index + len(self.plan) + prepare.rank,
                stride=prepare.of,
                window_ns=window_of(self.spec.warmup_s, self.plan.window_ns),
            )
        else:
            self._closed = ClosedLoop(self, prepare.rank, prepare.of)
        self.prompts = StagePrompts(run.workload, self._open.prompts if self._open is not None else None)
        self.batch_left = (self._open or self._closed).batch  # type: ignore[union-attr]
        """Measured requests, where their number is set, that have no outcome yet."""
        self._counts_batch = self.batch_left > 0
        self._try_builders()
        self._cap = share(run.spec.max_in_flight, prepare.rank, prepare.of)
        self._max_requests = prepare.max_requests
        self._max_output_tokens = prepare.max_output_tokens
        self._deadline_ns = round(run.spec.deadline_s * NS_PER_S)
        self._streaming: set[gevent.Greenlet[..., Any]] = set()
        self.making = 0
        """Requests that are being made."""
        self._held: deque[Ready] = deque()
        self._checking = Checking(run.spec.deadline_s)
        self._cancelled = False

    # --- master's orders -------------------------------------------------------------------------------------------

    def start(self, start_ns: int) -> None:
        """Begin at this instant (this worker's clock)."""
        self.start_ns = start_ns
        self.prompts.stay_ahead(self.over)
        (self._open or self._closed).start()  # type: ignore[union-attr]

    def open_window(self, start_ns: int) -> None:
        """The window of a closed loop of Locust's users begins: what is sent from here on belongs to the batch."""
        if self._closed is not None:
            self._closed.window_start_ns = start_ns

    def end_arrivals(self, reason: str | None) -> None:
        """No more arrivals; what is in flight goes on. A reason marks the rest of the plan as ``not_sent``."""
        if self.cutoff_ns is None:
            self.cutoff_ns = self.run.clock.now_ns()
            self.end_reason = reason
        elif reason is not None and self.end_reason is None:
            self.end_reason = reason
        while reason is not None and self._held:
            self.not_sent(self._held.popleft().record, f"{reason}, while held back by --max-in-flight")
        self.cutoff_moved.set()
        if self.follow_ups is not None:
            self.follow_ups.withdraw()
        self.check_over()

    def cancel(self) -> None:
        """Wait for nothing: in flight becomes ``cancelled``, held back becomes ``not_sent``."""
        self._cancelled = True
        self.end_arrivals("cancelled")
        for greenlet in list(self._streaming):
            greenlet.kill(Cancelled, block=False)
        self._checking.cancel()
        self.check_over()

    # --- Locust's users --------------------------------------------------------------------------------------------

    @property
    def accepting(self) -> bool:
        """Whether turns of Locust's users may start."""
        return self._closed is not None and self._closed.takes_turns

    def turn(self, builder: RequestBuilder, user_name: str) -> None:
        """One turn of a user of Locust's in a closed loop: returns when its request has ended."""
        if self._closed is not None:
            self._closed.turn(builder, user_name)

    # --- one request -----------------------------------------------------------------------------------------------

    def take_up(self, record: RequestRecord, builder: RequestBuilder, *, evict_after: bool) -> None:
        """Make the request of an open arrival, then send it, or hold it back under a cap; does not wait for any of it.

        An arrival is *dispatched* once its request is made: a user class that takes its time over it makes the generator
        late, and that has to show as dispatch lag.
        """
        self.taken += 1
        self.making += 1
        self.group.spawn(self._take_up, record, builder, evict_after)

    def _take_up(self, record: RequestRecord, builder: RequestBuilder, evict_after: bool) -> None:
        ready = self.make(record, builder, evict_after=evict_after)
        self.making -= 1
        if ready is None:
            self.check_over()
        else:
            self.send_or_hold(ready)

    def send_or_hold(self, ready: Ready) -> None:
        """Send a request of an open stage now, in the calling greenlet, or hold it back under a cap."""
        if self.end_reason is not None:
            self.not_sent(ready.record, self.end_reason)
            self.check_over()
        elif self._cap is not None and (self.in_flight >= self._cap or self._held):
            self._held.append(ready)
        else:
            self.in_flight += 1
            self._perform(ready)

    def make(
        self,
        record: RequestRecord,
        builder: RequestBuilder,
        prompt: Prompt | None = None,
        *,
        evict_after: bool = False,
    ) -> Ready | None:
        """The request of an arrival; ``None`` when it could not be made, and the record says so."""
        try:
            prompt = prompt or self.prompts.describe(record)
            if evict_after:
                request = builder.build_request(prompt, record.request_id, evict_after=True)
            else:  # people's own builders may know nothing of it
                request = builder.build_request(prompt, record.request_id)
        except Exception as error:
            self.our_fault(record, error)
            self.ended(record, None, builder)
            return None
        leaving = self.run.spec.cancel
        if leaving is not None and leaves(leaving, self.spec.seed, record.index):
            request.leave_after_s, request.leave_after_events = leaving.after_s, leaving.after_events
        record.dispatched_ns = self.run.clock.now_ns()
        return Ready(record, builder, request, prompt)

    def issue(self, ready: Ready) -> gevent.Greenlet[..., Reply | None]:
        """Send a request in a greenlet of its own; its value is the reply, where there was one."""
        self.in_flight += 1
        greenlet: gevent.Greenlet[..., Reply | None] = self.group.spawn(self._perform, ready)
        return greenlet

    def _perform(self, ready: Ready) -> Reply | None:
        record = ready.record
        reply: Reply | None = None
        reserved = 0
        try:
            if self._cancelled:
                record.outcome, record.error = Outcome.NOT_SENT, "cancelled before it was sent"
                return None
            if (spent := self._spent_budget(ready.prompt.max_tokens)) is not None:
                record.outcome, record.error = Outcome.NOT_SENT, spent
                self.stop = self.stop or spent
                return None
            self.sent += 1
            reserved = ready.prompt.max_tokens
            self.output_tokens += reserved
            me = gevent.getcurrent()
            assert isinstance(me, gevent.Greenlet)
            self._streaming.add(me)
            try:
                reply = self.run.client.stream(ready.request, deadline_s=self.run.spec.deadline_s)
            finally:
                self._streaming.discard(me)
            for name in _REPLY_FIELDS:
                setattr(record, name, getattr(reply, name))
        except Cancelled:  # thrown a moment before or after the stream was there to catch it
            record.outcome, record.error = Outcome.CANCELLED, "cancelled"
        except Exception as error:
            self.our_fault(record, error)
        finally:
            self.in_flight -= 1
            if record.output_tokens is not None:
                self.output_tokens += record.output_tokens - reserved
            if reply is not None and record.outcome is Outcome.OK and getattr(ready.builder, "checks", False):
                self._checking.start(ready.builder, ready.prompt, reply, record, lambda: self._checked(ready, reply))
            else:
                self.ended(record, reply, ready.builder)
            if self.follow_ups is not None and self.run.workload.converses and record.outcome is Outcome.OK:
                text = reply.text if reply is not None else None
                self.follow_ups.after(ready.prompt, text or "", ready.builder, record.user)
            self._release()
        return reply

    def _checked(self, ready: Ready, reply: Reply) -> None:
        self.ended(ready.record, reply, ready.builder)
        self.check_over()

    def our_fault(self, record: RequestRecord, error: Exception) -> None:
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

    def _release(self) -> None:
        """A place under the cap is free: the longest held arrival takes it, unless it was held past the deadline."""
        now = self.run.clock.now_ns()
        while self._held and not self._cancelled:
            record = self._held[0].record
            if now - (record.dispatched_ns or now) > self._deadline_ns:
                self._held.popleft()
                self.not_sent(record, "held back by --max-in-flight for longer than the deadline")
            elif self._cap is None or self.in_flight < self._cap:
                self.issue(self._held.popleft())
            else:
                break
        self.check_over()

    def not_sent(self, record: RequestRecord, why: str) -> None:
        """An arrival that was due ends without having been sent."""
        record.outcome, record.error = Outcome.NOT_SENT, why
        if (
            record.prompt_sha256 is None
        ):  # a request that was made is described, and may be a turn of which nobody else knows
            self.prompts.describe(record)
        self.ended(record, None, self.run.builders[record.user])

    def ended(self, record: RequestRecord, reply: Reply | None, builder: RequestBuilder) -> None:
        """The record is terminal: count it, keep it, and tell whoever listens."""
        if record.end_ns is None:
            record.end_ns = self.run.clock.now_ns()
        if record.outcome is Outcome.OK:
            self.ok += 1
            self.failures_in_a_row = 0
        else:
            self.failed += 1
            # Whether somebody leaves says nothing of the server.
            if record.outcome is not Outcome.NOT_SENT and not left_as_planned(record.outcome, record.error):
                self.failures_in_a_row += 1
                self.last_failure = f"{record.outcome}: {record.error}"
        self.run.recorder.add(record)
        if self._counts_batch and record.phase == "measure":
            self.batch_left -= 1
        try:
            self.run.observe(record, reply, builder)
        except Exception:
            logger.error("a listener failed on %s:\n%s", record.request_id, traceback.format_exc())

    def check_over(self) -> None:
        """Say that the stage is over, if it is."""
        coming = self.cutoff_ns is None if self._open is None else self._open.dispatching or bool(self.follow_ups)
        if self.in_flight + self.making + len(self._checking) == 0 and not self._held and not coming:
            self.over.set()

    def _try_builders(self) -> None:
        """One request of each class, not sent: a user's mistake in the request shows before load."""
        prompt = self.run.workload.prompt(self.spec.first_index)
        for builder in self.run.builders.values():
            if self.spec.cold_share and not getattr(builder, "can_evict", False):
                raise UsageError(
                    f"--cold-share: {type(builder).__name__} cannot have the model unloaded; only Ollama's users can: "
                    "use locustfiles/ollama_chat.py or ollama_generate.py, or leave the option out"
                )
            name = request_id(self.run.spec.run_id, self.spec.first_index)
            if self.spec.cold_share:
                builder.build_request(prompt, name, evict_after=True)
            builder.build_request(prompt, name)

    @property
    def clock_steps(self) -> int:
        """How often a step of the wall clock made reads of this stage take user time."""
        return self.run.client.clock_steps - self._clock_steps_before

    # --- reports ---------------------------------------------------------------------------------------------------

    def progress(self, cpu_percent: float | None, loop_lag_ms: float | None) -> Progress:
        """How far this stage is."""
        now = self.run.clock.now_ns()
        due = self._open.due(now) if self._open is not None else self.taken
        due += self.follow_ups.issued if self.follow_ups is not None else 0
        if self.cutoff_ns is not None:
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
            stop=self.stop or self.run.recorder.trouble,
            cpu_percent=cpu_percent,
            loop_lag_ms=loop_lag_ms,
            clock_steps=self.clock_steps,
        )
