"""Several progress sinks as one: the terminal and the live picture are told of the same stages."""

from __future__ import annotations

from collections.abc import Sequence

from llm_locust.dispatch import StageControl
from llm_locust.dispatch.controller import ProgressSink
from llm_locust.records import StageManifest


class Sinks:
    """Several progress sinks as one, told in their order."""

    def __init__(self, sinks: Sequence[ProgressSink]) -> None:
        self._sinks = sinks

    def stage_starts(self, control: StageControl, number: int, of: int | None) -> None:
        """A stage is about to start."""
        for sink in self._sinks:
            sink.stage_starts(control, number, of)

    def waits(self, what: str) -> None:
        """Nothing happens, on purpose."""
        for sink in self._sinks:
            sink.waits(what)

    def update(self, control: StageControl) -> None:
        """Called a few times a second during a stage."""
        for sink in self._sinks:
            sink.update(control)

    def stage_ends(self, stage: StageManifest) -> None:
        """A stage is over."""
        for sink in self._sinks:
            sink.stage_ends(stage)

    def close(self) -> None:
        """The run is over."""
        for sink in self._sinks:
            sink.close()
