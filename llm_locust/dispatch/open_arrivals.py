"""Open arrivals on one worker: each is taken up when it is due, whatever became of those before.

The dispatcher waits for planned times only, never for completions, and its group has no size limit.
"""

from __future__ import annotations

import logging
import traceback
from bisect import bisect_right
from typing import TYPE_CHECKING

import gevent

from llm_locust.arrivals import PHASES, StagePlan
from llm_locust.dispatch.pacer import Pacer
from llm_locust.records import Outcome, RequestRecord
from llm_locust.records.run import request_id
from llm_locust.streaming.turns import give_way

if TYPE_CHECKING:
    from llm_locust.dispatch.stage_run import StageRun

logger = logging.getLogger(__name__)

_CATCH_UP = 4
"""Late arrivals taken up in one turn of the loop: catching up must not hold them back further."""


class OpenArrivals:
    """This worker's share of a stage's plan."""

    def __init__(self, stage: StageRun, plan: StagePlan, rank: int, of: int) -> None:
        self._stage = stage
        mine = plan.share(rank, of)
        self._places: list[int] = mine.tolist()
        self._offsets: list[int] = plan.offset_ns[mine].tolist()
        self._phases: list[int] = plan.phase[mine].tolist()
        self.prompts: list[int] = plan.prompt[mine].tolist()
        """Which prompts its arrivals take, in their order."""
        self._users = [stage.run.spec.users[user].name for user in plan.user[mine].tolist()]
        self._evict: list[bool] | None = None
        if plan.cold is not None:  # the one before a cold arrival has the model unloaded when it ends
            after = [*plan.cold[1:].tolist(), False]
            self._evict = [after[place] for place in self._places]
        self.batch = bisect_right(self._phases, 1) - bisect_right(self._phases, 0)
        """How many of them are measured."""
        self.dispatching = False

    def start(self) -> None:
        """Take up from now on, in a greenlet of its own."""
        self.dispatching = True
        gevent.spawn(self._dispatch).link_exception(self._on_crash)

    def due(self, now_ns: int) -> int:
        """How many planned times have passed."""
        return bisect_right(self._offsets, now_ns - self._stage.start_ns)

    def _dispatch(self) -> None:
        pacer = Pacer()
        try:
            self._take_up_when_due(pacer)
        finally:
            pacer.close()
        self.dispatching = False
        self._stage.check_over()

    def _take_up_when_due(self, pacer: Pacer) -> None:
        stage = self._stage
        run, start_ns = stage.run, stage.start_ns
        unyielded = 0
        for position, offset in enumerate(self._offsets):
            planned = start_ns + offset
            if stage.cutoff_ns is None and planned > run.clock.now_ns():
                unyielded = 0
                pacer.wait_until(planned - run.clock.anchor_ns, stage.cutoff_moved)
            if self._is_withdrawn(planned):
                self._withdraw_from(position)
                return
            record = self._record(position, planned)
            evict = self._evict is not None and self._evict[position]
            stage.take_up(record, run.builders[record.user], evict_after=evict)
            unyielded += 1
            if unyielded % _CATCH_UP == 0:
                give_way()

    def _is_withdrawn(self, planned_ns: int) -> bool:
        """Whether an arrival is not taken up any more.

        At the regular end of a stage, one that came due before it still is, however late: this process may have been
        stopped meanwhile, or be too slow for the rate. Its lateness has to show, and its row must not be missing.
        """
        cutoff_ns = self._stage.cutoff_ns
        return cutoff_ns is not None and (self._stage.end_reason is not None or planned_ns > cutoff_ns)

    def _withdraw_from(self, position: int) -> None:
        """Arrivals have ended: planned warm-up and window arrivals are accounted for, cool-down ones never were due."""
        stage = self._stage
        for later in range(position, len(self._offsets)):
            if PHASES[self._phases[later]] == "cooldown":
                break
            stage.taken += 1
            record = self._record(later, stage.start_ns + self._offsets[later])
            stage.not_sent(record, stage.end_reason or "arrivals had ended before it was due")

    def _record(self, position: int, planned_ns: int) -> RequestRecord:
        stage = self._stage
        run = stage.run
        index = stage.spec.first_index + self._places[position]
        return RequestRecord(
            run_id=run.spec.run_id,
            stage=stage.spec.stage,
            round=stage.spec.round,
            phase=PHASES[self._phases[position]],
            index=index,
            request_id=request_id(run.spec.run_id, index),
            worker=run.worker,
            user=self._users[position],
            planned_ns=planned_ns,
            prompt_index=self.prompts[position],
            outcome=Outcome.GENERATOR_ERROR,
        )

    def _on_crash(self, greenlet: gevent.Greenlet[..., None]) -> None:
        stage = self._stage
        stage.error = f"the dispatcher failed: {greenlet.exception!r}"
        logger.error("%s\n%s", stage.error, "".join(traceback.format_exception(greenlet.exception)))
        self.dispatching = False
        stage.check_over()
