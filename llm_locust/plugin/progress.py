"""The run on the terminal while it goes on: a display that is drawn over itself, else a plain line now and then."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from llm_locust.dispatch import StageControl
from llm_locust.live.snapshot import Snapshot, left_words
from llm_locust.live.stage import where
from llm_locust.plugin.interrupts import say
from llm_locust.plugin.terminal_figures import (
    figure_items,
    generator_line,
    newest_stage,
    progress_items,
    server_items,
)
from llm_locust.records import Clock, StageManifest

if TYPE_CHECKING:
    from llm_locust.plugin.terminal_display import TerminalDisplay

PLAIN_EVERY_S = 5.0
FIGURES_EVERY_S = 1.0
"""Percentiles are put together for each look; more often than this nobody reads them."""

NO_SERIES = float("inf")
"""``since`` of a snapshot whose series is not needed: no point of it is later."""


class RunProgress:
    """Shows the run on standard error.

    Args:
        clock: The master's clock.
        picture: The run's figures so far; ``None`` shows how far the run is, and no more.
        on_wait: Told too when the run waits on purpose.
        plain: Only lines, though there is a terminal: something else writes to it.
    """

    def __init__(
        self,
        clock: Clock,
        picture: Callable[[float | None], Snapshot] | None = None,
        *,
        on_wait: Callable[[str], None] | None = None,
        plain: bool = False,
    ) -> None:
        self._clock = clock
        self._picture = picture
        self._on_wait = on_wait
        self._display: TerminalDisplay | None = None
        self._plain = plain or not can_be_drawn_on(sys.stderr)
        self._log_streams: list[logging.StreamHandler[TextIO]] = []
        self._title = ""
        self._last_plain = 0.0
        self._newest: Snapshot | None = None
        self._looked = 0.0

    def stage_starts(self, control: StageControl, number: int, of: int | None) -> None:
        """A stage is about to start."""
        self._title = f"stage {number}{f'/{of}' if of else ''} {control.spec.label}"
        self._last_plain = self._looked = 0.0
        if self._plain:
            return
        if self._display is None:
            from llm_locust.plugin.terminal_display import TerminalDisplay  # rich takes long to import

            self._display = TerminalDisplay()
            self._display.start()
            self._let_log_lines_pass()
        self._display.show(self._title, "preparing", 0.0, self._look(), control.spec.stage)

    def waits(self, what: str) -> None:
        """Nothing happens, on purpose."""
        say(what)
        if self._on_wait is not None:
            self._on_wait(what)

    def update(self, control: StageControl) -> None:
        """Show where the stage is now."""
        phase, left_s, share = self._where(control)
        words = left_words(phase, left_s)
        if self._display is not None:
            self._display.show(self._title, words, share, self._look(), control.spec.stage)
        elif time.monotonic() - self._last_plain >= PLAIN_EVERY_S:
            self._last_plain = time.monotonic()
            say(f"{self._title}: {words}; {self._plain_figures(control)}")

    def stage_ends(self, stage: StageManifest) -> None:
        """A stage is over."""
        if self._display is None:
            say(f"{self._title}: done, {stage.planned} arrivals")

    def close(self) -> None:
        """Give the terminal back."""
        if self._display is not None:
            self._display.stop()
            for handler in self._log_streams:
                handler.setStream(sys.stderr)
            self._display = None

    def _look(self) -> Snapshot | None:
        if self._picture is not None and time.monotonic() - self._looked >= FIGURES_EVERY_S:
            self._looked = time.monotonic()
            self._newest = self._picture(NO_SERIES)
        return self._newest

    def _plain_figures(self, control: StageControl) -> str:
        now = self._look()
        view = newest_stage(now, control.spec.stage) if now is not None else None
        if now is None or view is None:
            reports = control.progress.values()
            due, sent = sum(r.due for r in reports), sum(r.sent for r in reports)
            return f"planned {due}, sent {sent}, in flight {sum(r.in_flight + r.waiting for r in reports)}"
        parts = [progress_items(view), figure_items(view), server_items(now), [generator_line(view).text]]
        return "; ".join(", ".join(part) for part in parts if part)

    def _where(self, control: StageControl) -> tuple[str, float | None, float]:
        """Phase, seconds until it ends where that is known, and the share of the stage that is behind."""
        record = control.record
        if not record.start_ns:
            return self._preparing(control)
        if record.arrivals_end_ns is None and record.window_end_ns is None:
            return "closed loop", None, 0.0
        return where(record, self._clock.now_ns(), over=False)

    @staticmethod
    def _preparing(control: StageControl) -> tuple[str, float | None, float]:
        """Prompts made ahead, once a worker says that it takes its time over them."""
        made = sum(told.made for told in control.preparing.values())
        of = sum(told.of for told in control.preparing.values())
        return (f"making prompts ({made:,} of {of:,})", None, made / of) if of else ("preparing", None, 0.0)

    def _let_log_lines_pass(self) -> None:
        """Log handlers hold the stream as it was; without this their lines would be written into the display."""
        for handler in logging.getLogger().handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream is sys.__stderr__:
                handler.setStream(sys.stderr)
                self._log_streams.append(handler)


def can_be_drawn_on(stream: TextIO) -> bool:
    """Whether lines already written can be written over."""
    return stream.isatty() and os.environ.get("TERM", "").lower() not in ("", "dumb", "unknown")
