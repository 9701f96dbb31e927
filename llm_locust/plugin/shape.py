"""The base of every shape of this project: says which stages to run, and leaves the rest to the run controller."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Protocol

from locust import LoadTestShape

from llm_locust.plugin.options import RunOptions
from llm_locust.records import StageSpec


class Ticker(Protocol):
    """Whoever knows how many placeholder users there should be."""

    def tick(self) -> tuple[int, float] | None:
        """Users and spawn rate; ``None`` when the run is over."""
        ...


class StageShape(LoadTestShape):
    """A load shape made of stages. Subclass it and yield the stages; one concrete shape a file.

    Locust asks a shape about once a second how many users there should be. Here users are placeholders, one per worker:
    the answer stays the same while stages are planned, run, drained and uploaded, and is ``None`` when all is done.
    """

    abstract = True

    @abstractmethod
    def stages(self, options: RunOptions) -> Iterable[StageSpec]:
        """The stages of a run, in order. A generator may look at the run so far before it yields the next.

        Raises:
            UsageError: an option that this shape needs is missing.
        """

    def tick(self) -> tuple[int, float] | None:
        """Locust's question, answered by the run controller."""
        assert self.runner is not None
        ticker: Ticker = self.runner.environment.llm_locust  # type: ignore[attr-defined]
        return ticker.tick()
