"""The next turns of conversations in an open stage: each comes when its user has read the reply and thought.

They have no planned time, so nothing of them is dispatch lag; what is sent inside the window belongs to its batch. When
arrivals end, the turns that are still to come are withdrawn, as cool-down arrivals are.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import gevent

from llm_locust.dispatch.unplanned import write_down
from llm_locust.dispatch.worker_run import RequestBuilder
from llm_locust.records import NS_PER_S
from llm_locust.workload import Prompt

if TYPE_CHECKING:
    from llm_locust.dispatch.stage_run import StageRun

logger = logging.getLogger(__name__)


class FollowUps:
    """The turns that follow this worker's replies."""

    def __init__(self, stage: StageRun, *, first_index: int, stride: int, window_ns: tuple[int, int]) -> None:
        """None yet.

        Args:
            stage: the stage.
            first_index: of this worker's first follow-up.
            stride: from one of its follow-ups to the next, in indices.
            window_ns: start and end of the window, from the stage's start.
        """
        self._stage = stage
        self._next_index = first_index
        self._stride = stride
        self._window_ns = window_ns
        self._thinking: set[gevent.Greenlet[..., None]] = set()
        self.issued = 0
        """How many were sent, or could not be made."""

    def __len__(self) -> int:
        """How many users are thinking."""
        return len(self._thinking)

    def after(self, prompt: Prompt, reply_text: str, builder: RequestBuilder, user: str) -> None:
        """A reply has come: its conversation goes on after the think time, if it does."""
        stage = self._stage
        try:
            following = stage.run.workload.next_turn(prompt, reply_text)
        except Exception as error:  # of the workload's making: the reply that came before is not to blame
            logger.exception("the turn after %s could not be made", prompt.session)
            stage.error = stage.error or f"a conversation could not go on: {type(error).__name__}: {error}"
            return
        if following is None or stage.cutoff_ns is not None:
            return
        think_s, turn = following
        greenlet: gevent.Greenlet[..., None] = gevent.Greenlet(self._send, turn, builder, user)
        self._thinking.add(greenlet)
        greenlet.start_later(think_s)

    def withdraw(self) -> None:
        """Arrivals have ended: nobody goes on."""
        for greenlet in self._thinking:
            greenlet.kill(block=False)
        self._thinking.clear()

    def _send(self, turn: Prompt, builder: RequestBuilder, user: str) -> None:
        stage = self._stage
        me = gevent.getcurrent()
        assert isinstance(me, gevent.Greenlet)
        self._thinking.discard(me)
        index = self._next_index
        self._next_index += self._stride
        self.issued += 1
        ready = write_down(stage, builder, index=index, user=user, phase=self._phase(), prompt=turn)
        if ready is not None:
            stage.send_or_hold(ready)

    def _phase(self) -> str:
        since_ns = self._stage.run.clock.now_ns() - self._stage.start_ns
        start_ns, end_ns = self._window_ns
        return "warmup" if since_ns < start_ns else "measure" if since_ns < end_ns else "cooldown"


def window_of(warmup_s: float, window_ns: int) -> tuple[int, int]:
    """Start and end of a stage's window in ns from its start."""
    start_ns = round(warmup_s * NS_PER_S)
    return start_ns, start_ns + window_ns
