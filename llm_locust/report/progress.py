"""How far a long command is: a bar with its rows, on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from llm_locust.analysis.raw_files import Step

SHOW_AFTER_S = 1.0
"""Most merges are done before anybody wonders what they are doing."""


@contextmanager
def shown_progress() -> Iterator[Callable[[Step], None]]:
    """What is being done and how far it is, on standard error: only in a terminal, and only once it takes long."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        TextColumn("{task.fields[rows]} rows"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    task = bar.add_task("", total=None, rows="0")
    began = time.monotonic()

    def tell(step: Step) -> None:
        if console.is_terminal and time.monotonic() - began >= SHOW_AFTER_S:
            bar.start()
            total = None if step.share is None else 1.0
            bar.update(task, description=step.what, total=total, completed=step.share or 0.0, rows=f"{step.rows:,}")

    try:
        yield tell
    finally:
        bar.stop()
