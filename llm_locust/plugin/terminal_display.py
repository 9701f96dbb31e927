"""The display of a running run on a terminal: where it is, a row per stage, the server, the load generator.

It is drawn over itself. A terminal that was made narrower has broken the lines that stood there into more rows than were
written; how many there are now is worked out before they are drawn over, so that nothing of them is left behind.
"""

from __future__ import annotations

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.control import Control
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import ControlType, Segment
from rich.table import Table
from rich.text import Text

from llm_locust.live.snapshot import Snapshot, StageView
from llm_locust.plugin.terminal_figures import (
    Column,
    figure_items,
    generator_line,
    newest_stage,
    progress_items,
    server_items,
    shown_columns,
)
from llm_locust.records.text import one_line

MOST_ROWS = 6
"""Stages in the table, the newest: the others have their row in the final table."""

OTHER_LINES = 8
"""Of the display, beside the table's rows."""

GAP = "  "


class TerminalDisplay:
    """Draws on standard error while it is started."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._frame = _Frame()
        self._live = Live(
            self._frame, console=self._console, auto_refresh=False, transient=True, vertical_overflow="crop"
        )

    def start(self) -> None:
        """Take the terminal."""
        self._live.start()

    def stop(self) -> None:
        """Wipe the display away and give the terminal back."""
        self._frame.content = Text("")
        self._clear_broken_rows()
        self._live.stop()

    def show(self, title: str, where: str, share: float, now: Snapshot | None, stage: int) -> None:
        """Draw anew.

        Args:
            title: Which stage it is.
            where: Its phase.
            share: Of the stage that is behind.
            now: The run so far; ``None`` where nothing is known of it.
            stage: The number of the stage.
        """
        self._frame.content = frame(title, where, share, now, stage, self._console.width, self._console.height)
        self._clear_broken_rows()
        self._live.refresh()

    def _clear_broken_rows(self) -> None:
        """Move up over what a narrower terminal made of the lines that stand there, beyond the rows that rich knows of."""
        width = self._console.width
        if not self._frame.widths or width >= self._frame.drawn_at:
            return
        rows = sum(max(1, -(-cells // width)) for cells in self._frame.widths)
        more = rows - len(self._frame.widths)
        if more > 0:
            up = [
                (ControlType.ERASE_IN_LINE, 2),
                *([(ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)] * more),
            ]
            self._console.control(Control(*up))
        self._frame.drawn_at = width


class _Frame:
    """What is drawn, and how wide each of its lines was when it was drawn last."""

    def __init__(self) -> None:
        self.content: RenderableType = Text("")
        self.widths: list[int] = []
        self.drawn_at = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = [_without_end(line) for line in console.render_lines(self.content, options, pad=False)]
        self.widths = [Segment.get_line_length(line) for line in lines]
        self.drawn_at = options.max_width
        for place, line in enumerate(lines):
            if place:
                yield Segment.line()
            yield from line


def _without_end(line: list[Segment]) -> list[Segment]:
    """Without the spaces that it ends with: a terminal need not keep them when it breaks the line."""
    while line and not line[-1].text.rstrip():
        line = line[:-1]
    return [*line[:-1], Segment(line[-1].text.rstrip(), line[-1].style)] if line else []


def frame(
    title: str, where: str, share: float, now: Snapshot | None, stage: int, width: int, height: int
) -> RenderableType:
    """The display as it should look on a terminal of this size."""
    view = newest_stage(now, stage) if now is not None else None
    parts: list[RenderableType] = [_head(one_line(title), where, share, width)]
    if now is None or view is None:
        return Group(*parts)
    columns = shown_columns(width)
    if columns:
        parts.append(_table(columns, now.stages, stage, max(1, min(MOST_ROWS, height - OTHER_LINES))))
    else:
        parts.append(_items(figure_items(view), width))
    parts.append(_items([*progress_items(view), *server_items(now)], width))
    generator = generator_line(view)
    parts.append(Text(one_line(generator.text), style="yellow" if generator.trouble else "dim"))
    if now.synthetic:
        parts.append(Text("synthetic engine: no figure is performance", style="dim"))
    return Group(*parts)


def _head(title: str, where: str, share: float, width: int) -> RenderableType:
    words = Text(title, style="bold")
    words.append(f"{GAP}{where}", style="not bold")
    bar = min(24, width - words.cell_len - len(GAP))
    if bar < 8:
        return words
    line = Table.grid(padding=(0, len(GAP), 0, 0))
    line.add_row(words, ProgressBar(total=1.0, completed=share, width=bar))
    return line


def _table(columns: tuple[Column, ...], stages: list[StageView], stage: int, rows: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(
            Text(f"{column.name}\n{column.unit}"), justify="left" if column.text else "right", no_wrap=True
        )
    for view in stages[-rows:]:
        style = "bold" if view.stage == stage else "dim"
        table.add_row(*(Text(column.cell(view), style=style) for column in columns))
    return table


def _items(items: list[str], width: int) -> Text:
    """Items beside one another, never broken in the middle."""
    lines: list[str] = []
    for item in items:
        if lines and len(lines[-1]) + len(GAP) + len(item) <= width:
            lines[-1] += GAP + item
        else:
            lines.append(item)
    return Text("\n".join(lines), no_wrap=True, overflow="ellipsis")
