"""A CSV trace: its header by name, its columns a block of lines at a time."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from llm_locust.arrivals.traces.cells import MOST_TOKENS, time_ns, token_count
from llm_locust.arrivals.traces.exact import NS_DIGITS, Bytes, Ints, date_ns, dates_ns, numbers
from llm_locust.arrivals.traces.lines import Block, TraceFile, shown

SHOWN_COLUMNS = 10
"""Columns that a message lists."""

_COMMA, _NEWLINE, _RETURN, _SPACE, _TAB = b",\n\r \t"


def header_cells(line: bytes) -> list[str]:
    """The names in a header line; the line itself where it is none."""
    text = line.decode("utf-8", "replace")
    try:
        return [name.strip() for name in next(csv.reader([text]), [])]
    except csv.Error:
        return [text]


def has_columns(*names: str) -> Callable[[bytes], bool]:
    """Whether a first line is a header with these columns."""
    return lambda line: set(names) <= set(header_cells(line))


@dataclass(frozen=True)
class Rows:
    """The rows of some lines, blank lines left out. Every method gives one value a row, in their order."""

    file: TraceFile
    columns: dict[str, int]
    line: Ints
    """Line numbers, from 1."""
    blank: int
    """Blank lines that were left out."""
    text: Bytes
    starts: Ints
    """Rows by columns: where each cell begins in ``text``."""
    ends: Ints

    def token_counts(self, name: str) -> Ints:
        """A column of counts; -1 where the cell is empty or the file has no such column.

        Raises:
            UsageError: a cell is no whole number, is negative or too large.
        """
        if name not in self.columns:
            return np.full(len(self.line), -1, np.int64)
        starts, ends = self._cells(name)
        value, plain = numbers(self.text, starts, ends, 0)
        for row in np.flatnonzero(~plain | (value > MOST_TOKENS)).tolist():
            cell = self._cell(name, row)
            value[row] = token_count(self.file, int(self.line[row]), name, cell) if cell else -1
        return value

    def seconds(self, name: str) -> Ints:
        """A column of times in seconds, as nanoseconds.

        Raises:
            UsageError: a cell is no finite number, or too large for seconds.
        """
        value, plain = numbers(self.text, *self._cells(name), NS_DIGITS)
        for row in np.flatnonzero(~plain).tolist():
            value[row] = time_ns(self.file, int(self.line[row]), name, self._cell(name, row))
        return value

    def dates(self, name: str) -> Ints:
        """A column of dates and times, as Unix nanoseconds.

        Raises:
            UsageError: a cell is no such date.
        """
        value, plain = dates_ns(self.text, *self._cells(name))
        for row in np.flatnonzero(~plain).tolist():
            cell = self._cell(name, row)
            found = date_ns(cell)
            if found is None:
                raise self.file.bad(int(self.line[row]), f"{name} is {shown(cell)}, not a date and time")
            value[row] = found
        return value

    def texts(self, name: str) -> list[str]:
        """A column of texts."""
        starts, ends = self._cells(name)
        data = self.text.tobytes()
        return [data[a:b].decode().strip() for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]

    def _cells(self, name: str) -> tuple[Ints, Ints]:
        at = self.columns[name]
        return self.starts[:, at], self.ends[:, at]

    def _cell(self, name: str, row: int) -> str:
        at = self.columns[name]
        return self.text[int(self.starts[row, at]) : int(self.ends[row, at])].tobytes().decode().strip()


class Table:
    """A CSV file whose columns are found by their names in its first line that is not blank."""

    def __init__(self, file: TraceFile, required: Sequence[str], optional: Sequence[str] | None = None) -> None:
        """Read the header.

        Args:
            required: Columns that must be there.
            optional: All others that may be; ``None`` for any.

        Raises:
            UsageError: a column is missing, there twice, or unknown; it is said which there are.
        """
        self.file = file
        self._blocks = file.blocks()
        self._rest, line = self._header()
        names = header_cells(line)
        self.columns: dict[str, int] = {name: at for at, name in reversed(list(enumerate(names)))}
        self._width = len(names)
        number = self._rest.first_line - 1
        more = ", ..." if len(names) > SHOWN_COLUMNS else ""
        have = f"the columns are {', '.join(map(shown, names[:SHOWN_COLUMNS]))}{more}"
        for name in required:
            if name not in self.columns:
                near = difflib.get_close_matches(name, names, n=1, cutoff=0.8)
                meant = f" (is it {near[0]!r}?)" if near else ""
                raise file.wrong_format(number, f"no column {name!r} in the header{meant}; {have}")
        used = [*required, *(optional or ())]
        for name in used:
            if names.count(name) > 1:
                raise file.bad(number, f"two columns are called {name!r}")
        self.unused = [name for name in names if name not in used]
        """Columns of the file that nobody asked for."""
        if optional is not None and self.unused:
            known = ", ".join(used)
            raise file.wrong_format(number, f"unknown column {shown(self.unused[0])}; the format has {known}")

    def __iter__(self) -> Iterator[Rows]:
        """The rows of block after block.

        Raises:
            UsageError: a line has more or fewer cells than the header.
        """
        if self._rest.data:
            yield self._rows(self._rest)
        for block in self._blocks:
            yield self._rows(block)

    def _header(self) -> tuple[Block, bytes]:
        """What follows the header in its block, and the header."""
        for block in self._blocks:
            at, number = 0, block.first_line
            while at < len(block.data):
                end = block.data.index(b"\n", at) + 1
                if line := block.data[at:end].strip():
                    return Block(block.data[end:], number + 1, block.offset + end), line
                at, number = end, number + 1
        raise AssertionError("a file without a line that is not blank is not opened")

    def _rows(self, block: Block) -> Rows:
        if b'"' in block.data:
            return self._quoted_rows(block)
        text = np.frombuffer(block.data, np.uint8)
        newlines = np.flatnonzero(text == _NEWLINE)
        starts = np.concatenate((np.zeros(1, np.int64), newlines[:-1] + 1))
        ends = newlines - ((newlines > starts) & (text[newlines - 1] == _RETURN))
        blank = ends == starts
        for row in np.flatnonzero(~blank & ((text[starts] == _SPACE) | (text[starts] == _TAB))).tolist():
            blank[row] = not block.data[int(starts[row]) : int(ends[row])].strip()
        commas = np.flatnonzero(text == _COMMA)
        cells = np.searchsorted(commas, ends) - np.searchsorted(commas, starts) + 1
        line = block.first_line + np.arange(len(starts))
        if len(wrong := np.flatnonzero(~blank & (cells != self._width))):
            raise self._wrong_width(int(line[wrong[0]]), int(cells[wrong[0]]))
        inner = commas.reshape(int(np.count_nonzero(~blank)), self._width - 1)
        starts, ends, line = starts[~blank], ends[~blank], line[~blank]
        return Rows(
            file=self.file,
            columns=self.columns,
            line=line,
            blank=int(blank.sum()),
            text=text,
            starts=np.column_stack((starts, inner + 1)),
            ends=np.column_stack((inner, ends)),
        )

    def _quoted_rows(self, block: Block) -> Rows:
        pieces: list[bytes] = []
        numbers: list[int] = []
        blank = 0
        for number, line in enumerate(block.data.decode().split("\n")[:-1], start=block.first_line):
            if not line.strip():
                blank += 1
                continue
            try:
                row = next(csv.reader([line.removesuffix("\r")], strict=True))
            except csv.Error as error:
                raise self.file.bad(number, f"not a line of CSV: {error}") from None
            if len(row) != self._width:
                raise self._wrong_width(number, len(row))
            pieces += (cell.encode() for cell in row)
            numbers.append(number)
        widths = np.array([len(piece) for piece in pieces], np.int64)
        ends = np.cumsum(widths)
        return Rows(
            file=self.file,
            columns=self.columns,
            line=np.array(numbers, np.int64),
            blank=blank,
            text=np.frombuffer(b"".join(pieces) or b"\0", np.uint8),
            starts=(ends - widths).reshape(-1, self._width),
            ends=ends.reshape(-1, self._width),
        )

    def _wrong_width(self, line: int, cells: int) -> Exception:
        return self.file.bad(line, f"{cells} cells, but the header has {self._width} columns")
