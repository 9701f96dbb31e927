"""What the live picture costs, in processor time of the thread that it runs in."""

from __future__ import annotations

import time
from types import TracebackType


class Cost:
    """Adds up the processor time of ``with`` blocks, none of which may contain another or let another greenlet run."""

    __slots__ = ("_began", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        """So far."""
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = time.thread_time()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds += time.thread_time() - self._began
