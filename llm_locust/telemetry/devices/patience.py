"""Asks a question that may never be answered: a driver that has lost its GPU can hold whoever calls it for good."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

_Answer = TypeVar("_Answer")


class Patient(Generic[_Answer]):
    """Calls a function on a thread of its own and waits only so long.

    While one call hangs no other is made: :meth:`ask` then returns at once, until the call has come back. An answer that
    comes too late is dropped.

    Args:
        question: what to call.
        patience_s: how long to wait for it.
    """

    def __init__(self, question: Callable[..., _Answer], patience_s: float) -> None:
        self.patience_s = patience_s
        self._question = question
        self._asked: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[_Answer | Exception] = queue.SimpleQueue()
        self.hanging = False
        """The last call has not come back."""
        threading.Thread(target=self._work, daemon=True).start()

    def ask(self, *arguments: Any) -> _Answer | None:
        """The answer; ``None`` when it does not come in time. What the function raises is raised here."""
        if self.hanging:
            if self._answers.empty():
                return None
            self._answers.get()
        self._asked.put(arguments)
        try:
            answer = self._answers.get(timeout=self.patience_s)
        except queue.Empty:
            self.hanging = True
            return None
        self.hanging = False
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _work(self) -> None:
        while True:
            arguments = self._asked.get()
            try:
                self._answers.put(self._question(*arguments))
            except Exception as error:
                self._answers.put(error)
