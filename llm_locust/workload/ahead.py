"""Prompts made before they are due, so that making them never holds up sending.

An open stage knows which prompts it will take and in what order. They are made a slice of time at a time: as many as fit
into the memory allowed before the stage starts, and the rest while it runs, as far ahead as that memory reaches. Nothing
here waits or yields: whoever drives it decides when there is time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from llm_locust.workload.prompt import Prompt, Workload

MOST_BYTES = 256 * 1024 * 1024
"""Of prompts that are made and not yet taken, on one worker."""
MOST_PROMPTS = 20_000
"""... and how many: a garbage collector that looks at every one of them holds up sending, too."""
SLICE_S = 0.002
"""How long one slice may take: less than the 5 ms by which an arrival may be late."""
REPORT_S = 0.25
_PROMPT_BYTES = 600
"""What a prompt takes beside its text."""


class PromptsAhead:
    """Gives the prompts of one stage in the order in which they come due; any other prompt is made when it is asked for."""

    def __init__(
        self,
        workload: Workload,
        numbers: Sequence[int],
        *,
        most_bytes: int = MOST_BYTES,
        most_prompts: int = MOST_PROMPTS,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Make none yet.

        Args:
            workload: makes them.
            numbers: the prompts' indices, in the order of their arrivals; each once.
            most_bytes: how much of them may be kept ready,
            most_prompts: ... and how many.
            now: seconds, for the length of a slice.
        """
        self._workload = workload
        self._numbers = numbers
        self._most_bytes = most_bytes
        self._most_prompts = most_prompts
        self._now = now
        self._ready: dict[int, tuple[Prompt, int]] = {}
        self._missed: set[int] = set()
        self._next = 0
        self.bytes = 0
        """Of the prompts that are ready."""

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def made(self) -> int:
        """How many of the stage's prompts were made so far, or came due before they were."""
        return self._next

    @property
    def idle(self) -> bool:
        """There is nothing to make now: all are made, or what may be kept ready is."""
        if self._next >= len(self._numbers):
            return True
        return self.bytes >= self._most_bytes or len(self._ready) >= self._most_prompts

    def make(self, slice_s: float = SLICE_S) -> bool:
        """Make prompts for at most about so many seconds, one at least; ``False`` when there is nothing to make now."""
        end = self._now() + slice_s
        while not self.idle:
            number = self._numbers[self._next]
            self._next += 1
            if number in self._missed:
                self._missed.remove(number)
                continue
            if number in self._ready:
                continue
            prompt = self._workload.prompt(number)
            size = _PROMPT_BYTES + sum(map(len, _texts(prompt)))
            prompt.sha256  # noqa: B018 - kept in the prompt: a long one's digest takes as long as the prompt
            self._ready[number] = (prompt, size)
            self.bytes += size
            if self._now() >= end:
                break
        return not self.idle

    def take(self, number: int) -> Prompt:
        """The prompt with this index; made now when it was not ready."""
        ready = self._ready.pop(number, None)
        if ready is not None:
            prompt, size = ready
            self.bytes -= size
            return prompt
        if self._next < len(self._numbers):
            self._missed.add(number)  # it came due before it was made, and must not be made for nothing
        return self._workload.prompt(number)


def prepare(
    ahead: PromptsAhead,
    give_way: Callable[[], object],
    report: Callable[[int, int], object] = lambda _made, _all: None,
    *,
    now: Callable[[], float] = time.perf_counter,
) -> None:
    """Make what may be kept ready, before a stage starts.

    Args:
        ahead: the stage's prompts.
        give_way: lets others have their turn between two slices.
        report: told how many of how many are made, about four times a second, once it takes longer than that.
        now: seconds.
    """
    told = now()
    while ahead.make():
        give_way()
        if now() - told >= REPORT_S:
            told = now()
            report(ahead.made, len(ahead))


def _texts(prompt: Prompt) -> Iterable[str]:
    if prompt.prompt is not None:
        return (prompt.prompt,)
    return (content for message in prompt.messages or () if isinstance(content := message.get("content"), str))
