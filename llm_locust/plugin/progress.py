"""The progress bar of a run: stage, time left, planned, sent, in flight; plain lines where there is no terminal."""

from __future__ import annotations

import logging
import sys
import time
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from llm_locust.dispatch import StageControl
from llm_locust.plugin.interrupts import say
from llm_locust.records import NS_PER_S, Clock, StageManifest

PLAIN_EVERY_S = 5.0


class RunProgress:
    """Shows the run on standard error."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._console = Console(stderr=True)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._log_streams: list[logging.StreamHandler[TextIO]] = []
        self._title = ""
        self._last_plain = 0.0

    def stage_starts(self, control: StageControl, number: int, of: int | None) -> None:
        """A stage is about to start."""
        self._title = f"stage {number}{f'/{of}' if of else ''} {control.spec.label}"
        self._last_plain = 0.0
        if not self._console.is_terminal:
            return
        if self._bar is None:
            self._bar = Progress(
                TextColumn("[bold]{task.fields[title]}"),
                BarColumn(bar_width=18),
                TextColumn("{task.fields[phase]} {task.fields[left]}"),
                TextColumn("planned {task.fields[due]} sent {task.fields[sent]} in flight {task.fields[flight]}"),
                console=self._console,
                auto_refresh=False,
                transient=True,
            )
            self._bar.start()
            self._let_log_lines_pass()
            self._task = self._bar.add_task(
                "", total=1.0, title=self._title, phase="preparing", left="", due=0, sent=0, flight=0
            )
        assert self._task is not None
        self._bar.update(self._task, completed=0.0, title=self._title, phase="preparing", left="")

    def waits(self, what: str) -> None:
        """Nothing happens, on purpose."""
        say(what)

    def update(self, control: StageControl) -> None:
        """Show where the stage is now."""
        phase, left_s, share = self._where(control)
        reports = control.progress.values()
        due, sent = sum(r.due for r in reports), sum(r.sent for r in reports)
        flight = sum(r.in_flight + r.waiting for r in reports)
        left = f"{left_s:.0f} s left" if left_s is not None else ""
        if self._bar is not None and self._task is not None:
            self._bar.update(
                self._task, completed=share, phase=phase, left=left, due=due, sent=sent, flight=flight, refresh=True
            )
        elif time.monotonic() - self._last_plain >= PLAIN_EVERY_S:
            self._last_plain = time.monotonic()
            say(f"{self._title}: {phase}{', ' + left if left else ''}, planned {due}, sent {sent}, in flight {flight}")

    def stage_ends(self, stage: StageManifest) -> None:
        """A stage is over."""
        if self._bar is None:
            say(f"{self._title}: done, {stage.planned} arrivals")

    def close(self) -> None:
        """Give the terminal back."""
        if self._bar is not None:
            self._bar.stop()
            for handler in self._log_streams:
                handler.setStream(sys.stderr)
            self._bar = None

    def _where(self, control: StageControl) -> tuple[str, float | None, float]:
        """Phase, seconds until arrivals end, and the share of the stage that is behind."""
        record, now = control.record, self._clock.now_ns()
        if not record.start_ns:
            return self._preparing(control)
        if record.arrivals_end_ns is not None:
            return "draining", None, 1.0
        if record.window_end_ns is None:
            return "closed loop", None, 0.0
        name = "warm-up" if now < record.window_start_ns else "window"
        end_ns = record.window_end_ns
        if now >= end_ns:
            name = "cool-down"
            end_ns += round(record.spec.cooldown_s * NS_PER_S)
        share = (now - record.start_ns) / max(record.window_end_ns - record.start_ns, 1)
        return name, max(end_ns - now, 0) / NS_PER_S, min(max(share, 0.0), 1.0)

    @staticmethod
    def _preparing(control: StageControl) -> tuple[str, float | None, float]:
        """Prompts made ahead, once a worker says that it takes its time over them."""
        made = sum(told.made for told in control.preparing.values())
        of = sum(told.of for told in control.preparing.values())
        return (f"making prompts ({made:,} of {of:,})", None, made / of) if of else ("preparing", None, 0.0)

    def _let_log_lines_pass(self) -> None:
        """Log handlers hold the stream as it was; without this their lines would be written into the bar."""
        for handler in logging.getLogger().handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream is sys.__stderr__:
                handler.setStream(sys.stderr)
                self._log_streams.append(handler)
