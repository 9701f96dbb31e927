"""The base of every shape of this project: says which stages to run, and leaves the rest to the run controller."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import ClassVar, Protocol

from locust import LoadTestShape

from llm_locust.plugin.options import RunOptions
from llm_locust.records import StageSpec
from llm_locust.records.summary import Result

SHAPE_OPTIONS = frozenset(
    {"rates", "concurrency", "repeats", "requests", "trace", "arrivals", "idle", "unload", "cold_share"}
)
"""Options that say which stages there are: given to a shape that does not read them, they would mean nothing."""
WITHOUT_A_SHAPE = SHAPE_OPTIONS - {"trace"} | {
    "stage_time", "cooldown", "rounds", "shuffle", "resolution", "max_stages", "burst", "time_scale", "rate_scale",
    "trace_from", "trace_to", "trace_jitter",
}  # fmt: skip
"""Options that nobody reads where there is no shape: Locust's users are one closed stage, as long as they run."""


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
    adaptive: ClassVar[bool] = False
    """Its stages depend on how those before were judged: :meth:`last_result`."""
    takes: ClassVar[frozenset[str] | None] = None
    """Names of options that only some shapes read, and this one does (:data:`SHAPE_OPTIONS`); ``None``: do not check."""
    judge: Callable[[], Result] | None = None
    """Judges the stage that was run last, from its records; ``None`` while nothing is run."""

    @abstractmethod
    def stages(self, options: RunOptions) -> Iterable[StageSpec]:
        """The stages of a run, in order. A generator may look at the run so far before it yields the next.

        Raises:
            UsageError: an option that this shape needs is missing.
        """

    @property
    def only_listed(self) -> bool:
        """The stages are asked for to be shown or checked before load; none of them is run."""
        return self.judge is None

    def last_result(self) -> Result:
        """How the stage that was yielded last was judged, by the very code that judges it afterwards.

        When stages are only listed, for a preview, every one of them passes.
        """
        return "pass" if self.judge is None else self.judge()

    def tick(self) -> tuple[int, float] | None:
        """Locust's question, answered by the run controller."""
        assert self.runner is not None
        ticker: Ticker = self.runner.environment.llm_locust  # type: ignore[attr-defined]
        return ticker.tick()
