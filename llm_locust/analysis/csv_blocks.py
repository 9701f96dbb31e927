"""Lines of CSV into typed columns, a block of whole lines at a time: integers exactly, token gaps as one flat array.

A million rows with a hundred gaps each are a gigabyte of text. Cell by cell in Python that is minutes; so the separators
of a block are found at once, all its integers are read in one go and so are all its gaps. What does not fit that (a broken
cell, a line of another length, an odd quote) is read again line by line, which finds the line and the cell to blame.
"""

from __future__ import annotations

import csv
import io
import math
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from llm_locust.records import UsageError

BLOCK_BYTES = 4 << 20
"""Read at once; what is made of it on the way is about eight times as large."""

_COMMA, _NEWLINE, _QUOTE, _SPACE = b',\n" '
_ENDS_OF_INT64 = np.iinfo(np.int64).min, np.iinfo(np.int64).max
"""What a number too large is read as, so that one of these is read again by line."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """A CSV contract: its columns in order, and what they hold; the rest are integers or empty."""

    columns: tuple[str, ...]
    texts: frozenset[str]
    required: tuple[str, ...] = ()
    """Columns that may not be empty."""
    floats: frozenset[str] = frozenset()
    gaps: str | None = None
    """The column that holds space-separated gaps in microseconds."""

    def kind(self, name: str) -> str:
        """``gaps``, ``text``, ``float`` or ``integer``."""
        if name == self.gaps:
            return "gaps"
        return "text" if name in self.texts else "float" if name in self.floats else "integer"

    def of_kind(self, kind: str) -> list[int]:
        """The positions of the columns of a kind."""
        return [at for at, name in enumerate(self.columns) if self.kind(name) == kind]


class Block(NamedTuple):
    """The columns of some rows."""

    columns: dict[str, pd.api.extensions.ExtensionArray | npt.NDArray[np.float64]]
    """Integers and texts as nullable arrays, floats with NaN for null; no gaps."""
    gap_counts: Ints
    """Gaps of each row."""
    gaps_us: npt.NDArray[np.uint32] | Ints
    """All gaps, one row's after the other's."""

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.gap_counts)


class _Irregular(Exception):
    """The block is not what the fast way can read."""


def line_blocks(file: BinaryIO, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """The rest of a file in blocks of whole lines; an unterminated last line is left out.

    A line end within quotes ends no line: a block goes on until its quotes are closed.
    """
    held = b""
    while chunk := file.read(size):
        held += chunk
        end = held.rfind(b"\n") + 1
        while end and held.count(b'"', 0, end) % 2:
            end = held.rfind(b"\n", 0, end - 1) + 1
        if end:
            yield held[:end]
            held = held[end:]


def parse_block(data: bytes, layout: Layout, path: Path, first_line: int) -> Block:
    """The columns of a block of whole lines (no header).

    Raises:
        UsageError: a broken cell or line, named by file, line and column.
    """
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    try:
        return _parse_at_once(data, layout)
    except _Irregular:
        return _parse_by_line(data, layout, path, first_line)


def _parse_at_once(data: bytes, layout: Layout) -> Block:
    width = len(layout.columns)
    starts, ends = _cells(data, width)
    gap_column = layout.of_kind("gaps")
    counts = np.zeros(len(ends), np.int64)
    gaps: npt.NDArray[np.uint32] | Ints = np.empty(0, np.uint32)
    if gap_column:
        at = gap_column[0]
        pieces = [data[a:b] for a, b in zip(starts[:, at].tolist(), ends[:, at].tolist(), strict=True)]
        counts, gaps = _gaps(pieces)
        data, starts, ends = _without(data, starts, ends, at)
    is_text = np.isin(np.arange(width), layout.of_kind("text"))
    # Each byte belongs to the cell that its separator ends.
    of_text = np.repeat(np.tile(is_text, len(ends)), (ends - starts + 1).ravel())
    buffer = np.frombuffer(data, np.uint8)
    columns: dict[str, pd.api.extensions.ExtensionArray | npt.NDArray[np.float64]] = {}
    columns |= _texts(buffer[of_text].tobytes(), layout, len(ends))
    numbers = buffer[~of_text]
    del of_text
    integers, floats = layout.of_kind("integer"), layout.of_kind("float")
    if floats:
        is_float = np.isin(np.flatnonzero(~is_text), [*floats, *gap_column])
        lengths = (ends - starts + 1)[:, ~is_text]
        of_float = np.repeat(np.tile(is_float, len(ends)), lengths.ravel())
        decimals, numbers = numbers[of_float], numbers[~of_float]
        values, filled = _numbers(decimals, (ends - starts)[:, floats], np.float64)
        values[~filled] = np.nan
        columns |= {layout.columns[at]: np.ascontiguousarray(values[:, k]) for k, at in enumerate(floats)}
    widths = (ends - starts)[:, integers]
    values, filled = _numbers(numbers, widths, np.int64)
    for k, at in enumerate(integers):
        columns[layout.columns[at]] = pd.arrays.IntegerArray(values[:, k].copy(), ~filled[:, k])
    for name in layout.required:
        if columns[name].isna().any():  # type: ignore[union-attr]
            raise _Irregular
    return Block(columns, counts, gaps)


def _cells(data: bytes, width: int) -> tuple[Ints, Ints]:
    """Start and end (that of its separator) of every cell, rows by columns."""
    buffer = np.frombuffer(data, np.uint8)
    ends = _unquoted(buffer, np.flatnonzero((buffer == _COMMA) | (buffer == _NEWLINE)))
    if len(ends) % width:
        raise _Irregular
    ends = ends.reshape(-1, width)
    if not (buffer[ends[:, -1]] == _NEWLINE).all() or (buffer[ends[:, :-1]] == _NEWLINE).any():
        raise _Irregular
    starts = np.concatenate(([0], ends.ravel()[:-1] + 1)).reshape(ends.shape)
    return starts, ends


def _unquoted(buffer: npt.NDArray[np.uint8], places: Ints) -> Ints:
    """The places before which quotes are closed; a doubled quote within quotes opens and closes."""
    quotes = np.flatnonzero(buffer == _QUOTE)
    return places[np.searchsorted(quotes, places) % 2 == 0] if len(quotes) else places


def _without(data: bytes, starts: Ints, ends: Ints, column: int) -> tuple[bytes, Ints, Ints]:
    """The block with the cells of one column emptied: they are most of its bytes, and done with."""
    cut_from, cut_to = starts[:, column], ends[:, column]
    keep_from = np.concatenate(([0], cut_to[:-1]))
    pieces = [data[a:b] for a, b in zip(keep_from.tolist(), cut_from.tolist(), strict=True)]
    rest = b"".join(pieces) + data[int(cut_to[-1]) if len(cut_to) else 0 :]
    removed = np.cumsum(cut_to - cut_from)
    before = np.concatenate(([0], removed[:-1]))
    ends = np.where(np.arange(ends.shape[1]) >= column, ends - removed[:, None], ends - before[:, None])
    starts = np.where(np.arange(starts.shape[1]) > column, starts - removed[:, None], starts - before[:, None])
    return rest, starts, ends


def _gaps(pieces: list[bytes]) -> tuple[Ints, npt.NDArray[np.uint32] | Ints]:
    counts = np.array([piece.count(b" ") + 1 if piece else 0 for piece in pieces], np.int64)
    text = b" ".join(filter(None, pieces))
    values = _read_numbers(text, np.int64)
    if len(values) != counts.sum() or (len(values) and values.min() < 0):
        raise _Irregular
    return counts, _smallest(values)


def _smallest(values: Ints) -> npt.NDArray[np.uint32] | Ints:
    """Half the memory for gaps up to 71 minutes."""
    return values.astype(np.uint32) if not len(values) or values.max() <= np.iinfo(np.uint32).max else values


def _numbers(cells: npt.NDArray[np.uint8], widths: Ints, kind: type) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Cells with their separators to numbers, rows by columns, and where there is one."""
    text = np.where((cells == _COMMA) | (cells == _NEWLINE), _SPACE, cells).astype(np.uint8).tobytes()
    filled = widths > 0
    found = _read_numbers(text, kind)
    if len(found) != filled.sum():
        raise _Irregular
    values: npt.NDArray[Any] = np.zeros(widths.shape, kind)
    values[filled] = found
    return values, filled


def _read_numbers(text: bytes, kind: type) -> npt.NDArray[Any]:
    if not text.strip():
        return np.empty(0, kind)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy only warns when it stops at something that is no number
            # Six times as fast as splitting the text and converting the words.
            found: npt.NDArray[Any] = np.fromstring(text, dtype=kind, sep=" ")
    except (ValueError, DeprecationWarning):
        raise _Irregular from None
    if kind is np.int64 and len(found) and (found.min() == _ENDS_OF_INT64[0] or found.max() == _ENDS_OF_INT64[1]):
        raise _Irregular
    return found


def _texts(data: bytes, layout: Layout, rows: int) -> dict[str, pd.api.extensions.ExtensionArray]:
    """Text that looks like a null ("None", "NA") is text: only an empty cell is null."""
    names = [layout.columns[at] for at in layout.of_kind("text")]
    if not names:
        return {}
    last_is_text = layout.kind(layout.columns[-1]) == "text"
    if not last_is_text:
        # The lines have lost their ends with the number that stood last, so the last text's comma stands for it.
        data = _lines(data, len(names))
    try:
        frame = pd.read_csv(
            io.BytesIO(data), header=None, names=names, dtype="str", keep_default_na=False, na_values=[""],
            skip_blank_lines=False, index_col=False, low_memory=False,
        )  # fmt: skip
    except ValueError:  # pandas' own parser errors are ValueErrors
        raise _Irregular from None
    if len(frame) != rows:
        raise _Irregular
    return {name: frame[name].array for name in names}


def _lines(data: bytes, width: int) -> bytes:
    """Every ``width``-th unquoted comma made a line end."""
    buffer = np.frombuffer(data, np.uint8).copy()
    ends = _unquoted(buffer, np.flatnonzero(buffer == _COMMA))
    buffer[ends[width - 1 :: width]] = _NEWLINE
    return buffer.tobytes()


_INTEGER = re.compile(r"-?\d+")
_GAPS = re.compile(r"\d+( \d+)*")


def _parse_by_line(data: bytes, layout: Layout, path: Path, first_line: int) -> Block:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + data.count(b"\n", 0, error.start)
        raise UsageError(f"{path}, line {line}: not UTF-8 text") from None
    cells: list[list[object]] = [[] for _ in layout.columns]
    kinds = [layout.kind(name) for name in layout.columns]
    gaps: list[int] = []
    reader = csv.reader(io.StringIO(text))
    while True:
        line = first_line + reader.line_num
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise UsageError(f"{path}, line {line}: {error}") from None
        if row is None:
            break
        if not row:
            continue
        if len(row) != len(kinds):
            raise UsageError(f"{path}, line {line}: {len(row)} cells, but there are {len(kinds)} columns")
        for name, kind, cell, column in zip(layout.columns, kinds, row, cells, strict=True):
            if not cell and name in layout.required:
                raise UsageError(f"{path}, line {line}: {name} is empty")
            if kind == "gaps":
                if cell and not _GAPS.fullmatch(cell):
                    raise UsageError(f"{path}, line {line}: {name} is not integers separated by spaces")
                found = [int(gap) for gap in cell.split()]
                gaps += found
                column.append(len(found))
            elif not cell:
                column.append(None)
            elif kind == "text":
                column.append(cell)
            else:
                column.append(_number(cell, kind, name, path, line))
    columns: dict[str, pd.api.extensions.ExtensionArray | npt.NDArray[np.float64]] = {}
    counts = np.zeros(len(cells[0]), np.int64)
    for name, kind, column in zip(layout.columns, kinds, cells, strict=True):
        if kind == "gaps":
            counts = np.array(column, np.int64)
        elif kind == "float":
            columns[name] = np.array(column, np.float64)
        else:
            columns[name] = pd.Series(column, dtype="str" if kind == "text" else "Int64").array
    return Block(columns, counts, _smallest(np.array(gaps, np.int64)))


def _number(cell: str, kind: str, name: str, path: Path, line: int) -> int | float:
    if kind == "integer":
        if _INTEGER.fullmatch(cell) and -(2**63) <= int(cell) < 2**63:
            return int(cell)
        raise UsageError(f"{path}, line {line}: {name} is {cell!r}, not an integer")
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise UsageError(f"{path}, line {line}: {name} is {cell!r}, not a number")
    return value
