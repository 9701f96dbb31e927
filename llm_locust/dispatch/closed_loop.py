"""A closed loop on one worker: so many requests in flight, each followed by the next.

The loop is the stage's own, for as long or as many requests as it says; or Locust's users make it, one turn after another,
until they are stopped. There is no plan: what is about to be sent is written down first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_locust.dispatch.unplanned import write_down
from llm_locust.dispatch.worker_run import RequestBuilder, share
from llm_locust.records import NS_PER_S, Outcome
from llm_locust.streaming.turns import Turnstile
from llm_locust.workload import Prompt

if TYPE_CHECKING:
    from llm_locust.dispatch.stage_run import StageRun


class ClosedLoop:
    """This worker's share of a closed loop."""

    def __init__(self, stage: StageRun, rank: int, of: int) -> None:
        self._stage = stage
        self._rank, self._of = rank, of
        self._turns = Turnstile()
        spec = stage.spec
        concurrency = spec.concurrency or 0
        self._loops = [] if spec.by_users else list(range(rank, concurrency, of))
        """Which of all loops are this worker's."""
        self._going_on: dict[object, tuple[float, Prompt]] = {}
        """Think time and next turn of the conversations that loops, or users, are in."""
        self._measured = 0
        """Prompts taken from those that other stages measure with too."""
        self._running = 0
        self._started = False
        self._left: int | None = None
        """Measured requests still to make, by whichever loop is free; ``None`` for loops that end by time."""
        if spec.requests is not None and not spec.by_users:
            self._left = sum(share(spec.requests, loop, concurrency) or 0 for loop in self._loops)
        self.batch = self._left or 0
        """How many requests are measured, where that is set."""
        self.window_start_ns: int | None = None
        self._window_end_ns: int | None = None

    def start(self) -> None:
        """Let the turns begin; a stage's own loops at the stage's start."""
        stage = self._stage
        self._started = True
        if stage.spec.by_users:
            return
        self.window_start_ns = stage.start_ns + round(stage.spec.warmup_s * NS_PER_S)
        if stage.spec.window_s is not None:
            self._window_end_ns = self.window_start_ns + round(stage.spec.window_s * NS_PER_S)
        self._running = len(self._loops)
        for loop in self._loops:
            stage.group.spawn(self._go_round, loop)
        if not self._loops:
            stage.end_arrivals(None)

    @property
    def takes_turns(self) -> bool:
        """Whether turns of Locust's users may start."""
        stage = self._stage
        return self._started and stage.spec.by_users and stage.cutoff_ns is None and stage.stop is None

    def turn(self, builder: RequestBuilder, user_name: str) -> None:
        """One turn of a user of Locust's: returns when its request has ended.

        The request runs in a greenlet of its own, so that a user whom Locust removes leaves no request without record.
        """
        self._turns.wait()
        if self.takes_turns and self._has_thought(who := id(builder)):
            self._request(who, builder, user_name, "measure" if self._in_window() else "warmup")

    def _go_round(self, loop: int) -> None:
        stage = self._stage
        user_name = self._user_of(loop)
        builder = stage.run.builders[user_name]
        try:
            ahead_ns = stage.start_ns - stage.run.clock.now_ns()
            if ahead_ns > 0:
                stage.cutoff_moved.wait(ahead_ns / NS_PER_S)
            while stage.cutoff_ns is None and not self._done():
                self._has_thought(loop)
                self._turns.wait()
                if stage.stop is not None:  # a spent budget: the master has been told, and ends the run
                    stage.cutoff_moved.wait()
                if stage.cutoff_ns is not None or self._done():
                    break
                measured = self._in_window()
                if measured and self._left is not None:
                    self._left -= 1
                self._request(loop, builder, user_name, "measure" if measured else "warmup")
        finally:
            self._running -= 1
            if self._running == 0 and stage.cutoff_ns is None:
                stage.end_arrivals(None)

    def _has_thought(self, who: object) -> bool:
        """Wait while whoever it is thinks about the last reply; ``False`` when arrivals end meanwhile."""
        following = self._going_on.get(who)
        return following is None or not self._stage.cutoff_moved.wait(following[0])

    def _done(self) -> bool:
        if self._left is not None:
            return self._left <= 0
        return self._window_end_ns is not None and self._stage.run.clock.now_ns() >= self._window_end_ns

    def _in_window(self) -> bool:
        return self.window_start_ns is not None and self._stage.run.clock.now_ns() >= self.window_start_ns

    def _user_of(self, loop: int) -> str:
        """The user class of a loop: the classes have their weights' share of all loops."""
        users = self._stage.run.spec.users
        total = sum(user.weight for user in users)
        at = (loop + 0.5) / (self._stage.spec.concurrency or 1) * total
        for user in users:
            at -= user.weight
            if at < 0:
                return user.name
        return users[-1].name

    def _request(self, who: object, builder: RequestBuilder, user_name: str, phase: str) -> None:
        """One request of whoever it is: the next turn of the conversation that they are in, else the next prompt."""
        stage = self._stage
        run = stage.run
        following = self._going_on.pop(who, None)
        index = stage.spec.first_index + run.worker + stage.taken * run.stride
        number = self._prompt_number(measured=phase == "measure")
        stage.taken += 1
        ready = write_down(
            stage,
            builder,
            index=index,
            user=user_name,
            phase=phase,
            prompt_index=number,
            prompt=None if following is None else following[1],
        )
        if ready is None:
            return
        greenlet = stage.issue(ready)
        greenlet.join()
        reply = greenlet.value
        if run.workload.converses and reply is not None and reply.outcome is Outcome.OK:
            onward = run.workload.next_turn(ready.prompt, reply.text or "")
            if onward is not None:
                self._going_on[who] = onward

    def _prompt_number(self, *, measured: bool) -> int:
        """Which prompt of the workload comes next: all workers go through them together.

        It is not the index: one worker's are a thousand apart, and a file of a hundred prompts would lend it only one.
        """
        spec = self._stage.spec
        if measured and spec.prompts_from is not None:
            self._measured += 1
            return spec.prompts_from + self._rank + (self._measured - 1) * self._of
        return spec.first_index + self._rank + self._stage.taken * self._of
