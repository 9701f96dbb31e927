"""The prompts of one stage on one worker: made ahead where the plan knows them, and written into the records."""

from __future__ import annotations

from collections.abc import Callable

import gevent
from gevent.event import Event

from llm_locust.records import RequestRecord
from llm_locust.streaming.turns import give_way
from llm_locust.workload import Prompt, Workload
from llm_locust.workload.ahead import PromptsAhead, prepare

SLICE_IN_STAGE_S = 0.0005
"""How long making prompts may take at a time while the stage runs: a tenth of what an arrival may be late."""
STAY_AHEAD_S = 0.05
"""How often it is looked whether there is room for more."""


class StagePrompts:
    """Gives the prompts of a stage."""

    def __init__(self, workload: Workload, numbers: list[int] | None) -> None:
        """Make none yet.

        Args:
            workload: makes them.
            numbers: those of open arrivals in the order of their planned times; ``None`` for a closed loop.
        """
        self._workload = workload
        self._ahead = None if numbers is None else PromptsAhead(workload, numbers)

    def make_ahead(self, report: Callable[[int, int], object] = lambda _made, _all: None) -> None:
        """Make as many as may be kept ready; others have their turn in between.

        When that takes long, ``report`` is told now and then how many of how many are made.
        """
        if self._ahead is not None:
            prepare(self._ahead, give_way, report)

    def stay_ahead(self, over: Event) -> None:
        """Make the rest in the background, as room for it comes, until the stage is over."""
        if self._ahead is not None and self._ahead.made < len(self._ahead):
            gevent.spawn(self._stay_ahead, self._ahead, over)

    @staticmethod
    def _stay_ahead(ahead: PromptsAhead, over: Event) -> None:
        while ahead.made < len(ahead) and not over.is_set():
            if ahead.make(SLICE_IN_STAGE_S):
                give_way()
            else:
                over.wait(STAY_AHEAD_S)

    def describe(self, record: RequestRecord, prompt: Prompt | None = None) -> Prompt:
        """The prompt of an arrival (the workload's, unless it follows a reply), and what the record says of it."""
        if prompt is None:
            number = record.prompt_index if record.prompt_index is not None else record.index
            prompt = self._ahead.take(number) if self._ahead is not None else self._workload.prompt(number)
        record.prompt_index = prompt.index
        record.prompt_sha256 = prompt.sha256
        record.max_tokens = prompt.max_tokens
        record.slice = prompt.slice
        record.prefix_group = prompt.prefix_group
        record.session = prompt.session
        record.turn = prompt.turn
        record.input_tokens_asked = prompt.input_tokens
        return prompt
