"""Reading the raw files of a run: which there are, torn ends, rows that are there twice.

A worker's own file is the authority, the master keeps what was shipped, other machines' folders may be added: the same row
may come several times. Identical rows collapse; differing rows for one index are an error that names both files. Files are
read in blocks, never whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from llm_locust.analysis.columns import ColumnsInParts
from llm_locust.analysis.csv_blocks import Block, Layout, line_blocks, parse_block
from llm_locust.analysis.derived import mask
from llm_locust.analysis.gaps import GAPS_AT, GAPS_N, Us
from llm_locust.records import (
    COLUMNS,
    PLAN_COLUMNS,
    PLAN_STRING_COLUMNS,
    STRING_COLUMNS,
    Outcome,
    RunFolder,
    UsageError,
)


class Step(NamedTuple):
    """What is being done, and how far it is."""

    what: str
    rows: int = 0
    """Rows done so far in this step."""
    share: float | None = None
    """The part of this step that is done, from 0 to 1; ``None`` when it cannot be told."""


Progress = Callable[[Step], None]
"""Told what is being done, now and then."""

FILE = "file"
"""A column beside those of the contract: the number of the file a row came from."""

REQUESTS = Layout(
    COLUMNS,
    STRING_COLUMNS - {"gaps_us"},
    ("run_id", "stage", "round", "phase", "index", "request_id", "worker", "outcome"),
    gaps="gaps_us",
)
PLAN = Layout(PLAN_COLUMNS, PLAN_STRING_COLUMNS, ("run_id", "stage", "round", "phase", "index", "request_id", "worker"))

_COMPARED_BYTES = 1 << 20


@dataclass
class RawRows:
    """The distinct rows of some files, one per index, and what was found on the way."""

    frame: pd.DataFrame
    """The columns of the contract but its gaps, sorted by index; :data:`FILE`, and where each row's gaps are."""
    gaps_us: Us
    """The gaps of all rows (:mod:`llm_locust.analysis.gaps`)."""
    files: list[Path] = field(default_factory=list)
    read: int = 0
    collapsed: int = 0
    torn: list[Path] = field(default_factory=list)
    """Files whose last line was not terminated and was dropped."""


def find_files(folder: RunFolder, others: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """The request files and the issued files of a run and of other folders that hold some of its workers' files.

    Raises:
        UsageError: one of the other folders holds no ``worker-*.csv``, neither itself nor in ``requests/``.
    """
    requests, issued = folder.request_files(), folder.issued_files()
    for other in others:
        within = other / "requests"
        found = sorted((within if within.is_dir() else other).glob("worker-*.csv"))
        if not found:
            raise UsageError(f"--from {other}: no worker-*.csv there, nor in {within}")
        requests += [path for path in found if ".issued" not in path.name]
        issued += [path for path in found if ".issued" in path.name]
    return requests, issued


def read_rows(files: Sequence[Path], layout: Layout, run_id: str, progress: Progress = lambda _: None) -> RawRows:
    """Read files of one contract into one row per index, sorted by index.

    Raises:
        UsageError: a file has other columns, a broken line or rows of another run, or two rows of one index differ.
    """
    raw = RawRows(pd.DataFrame(), np.empty(0, np.uint32))
    columns = ColumnsInParts(layout)
    of_file: list[npt.NDArray[np.int16]] = [np.empty(0, np.int16)]
    sizes = {path: path.stat().st_size for path in files}
    done = 0
    for path in _distinct(files, raw):
        raw.files.append(path)
        for block, consumed in _blocks(path, layout, run_id):
            columns.add(block)
            of_file.append(np.full(block.rows, len(raw.files) - 1, np.int16))
            raw.read += block.rows
            done += consumed
            progress(Step(f"reading {path.name}", raw.read, min(1.0, done / max(1, sum(sizes.values())))))
    together, raw.gaps_us = columns.together()
    together[FILE] = np.concatenate(of_file)
    order = _one_per_index(together, raw, layout)
    # Column by column, the old one freed as the new one is made: a million rows are not held twice.
    raw.frame = pd.DataFrame({name: together.pop(name).take(order) for name in list(together)}, copy=False)
    return raw


def _distinct(files: Sequence[Path], raw: RawRows) -> Iterator[Path]:
    """The files to read; one that another of the same worker begins with is counted, not parsed again.

    What is shipped is the start of what was written, so on one machine this spares half the work.
    """
    groups: dict[str, list[Path]] = {}
    for path in files:
        groups.setdefault(path.name.replace(".shipped", ""), []).append(path)
    for group in groups.values():
        kept: list[Path] = []
        sizes = {path: _whole_bytes(path) for path in group}
        raw.torn += [path for path in group if sizes[path] < path.stat().st_size]
        for path in sorted(group, key=lambda p: -sizes[p]):
            if not sizes[path]:
                continue
            lines = next((n for longer in kept if (n := _common_lines(path, longer, sizes[path])) is not None), None)
            if lines is None:
                kept.append(path)
                continue
            raw.files.append(path)
            raw.read += lines - 1
            raw.collapsed += lines - 1
        yield from kept


def _whole_bytes(path: Path) -> int:
    """The length of the file up to its last line end: a killed worker may leave half a line."""
    size = path.stat().st_size
    with path.open("rb") as file:
        end = size
        while end:
            begin = max(0, end - _COMPARED_BYTES)
            file.seek(begin)
            found = file.read(end - begin).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            end = begin
    return 0


def _common_lines(path: Path, longer: Path, size: int) -> int | None:
    """How many lines the first ``size`` bytes of a file are, if another begins with the same; ``None`` if it does not."""
    lines = 0
    with path.open("rb") as one, longer.open("rb") as other:
        while size:
            part = one.read(min(size, _COMPARED_BYTES))
            if part != other.read(len(part)) or not part:
                return None
            lines += part.count(b"\n")
            size -= len(part)
    return lines


def _blocks(path: Path, layout: Layout, run_id: str) -> Iterator[tuple[Block, int]]:
    """The rows of a file block by block, checked, with the bytes each took."""
    with path.open("rb") as file:
        _check_header(path, file.readline(), layout)
        line = 2
        for data in line_blocks(file):
            block = parse_block(data, layout, path, line)
            _check(path, block, run_id, line)
            yield block, len(data)
            line += data.count(b"\n")


def _check_header(path: Path, line: bytes, layout: Layout) -> None:
    header = line.decode("utf-8", "replace").rstrip("\r\n").split(",")
    if header != list(layout.columns):
        missing = sorted(set(layout.columns) - set(header))
        unknown = sorted(set(header) - set(layout.columns))
        raise UsageError(
            f"{path}: not the columns of this version: missing {missing or 'none'}, unknown {unknown or 'none'}"
            f"{'' if missing or unknown else ', in another order'}; read it with the version that wrote it"
        )


def _check(path: Path, block: Block, run_id: str, first_line: int) -> None:
    found = np.asarray(block.columns["run_id"], dtype=object)
    others = found != run_id
    if others.any():
        at = int(others.argmax())
        raise UsageError(
            f"{path}, line {first_line + at}: a row of run {found[at]}, but this is run {run_id}; "
            "take the file out of the folder"
        )
    if "outcome" in block.columns:
        outcomes = pd.Series(block.columns["outcome"])
        unknown = ~outcomes.isin([str(outcome) for outcome in Outcome])
        if unknown.any():
            at = int(unknown.to_numpy(dtype=bool).argmax())
            raise UsageError(f"{path}, line {first_line + at}: unknown outcome {outcomes[at]!r}")


def _one_per_index(columns: dict[str, Any], raw: RawRows, layout: Layout) -> npt.NDArray[np.intp]:
    """The order that sorts rows by index, with one of identical rows; differing ones stop the merge."""
    index = np.asarray(columns["index"], dtype=np.int64)
    order = np.argsort(index, kind="stable")
    again = np.flatnonzero(np.diff(index[order]) == 0)
    if not len(again):
        return order
    ones, others = order[again], order[again + 1]
    differs = np.zeros(len(again), np.bool_)
    for name in layout.columns:
        differs |= ~_same(columns, raw.gaps_us, layout, name, ones, others)
    if differs.any():
        at = int(differs.argmax())
        one, other = ones[at : at + 1], others[at : at + 1]
        names = [name for name in layout.columns if not _same(columns, raw.gaps_us, layout, name, one, other)[0]]
        raise UsageError(
            f"two different rows for index {index[one[0]]}: {raw.files[columns[FILE][one[0]]]} and "
            f"{raw.files[columns[FILE][other[0]]]} differ in {', '.join(names)}; one of the files is not of this run as "
            "it was recorded: take it out of the folder"
        )
    raw.collapsed += len(again)
    return np.delete(order, again + 1)


def _same(
    columns: dict[str, Any],
    us: Us,
    layout: Layout,
    name: str,
    ones: npt.NDArray[np.intp],
    others: npt.NDArray[np.intp],
) -> npt.NDArray[np.bool_]:
    """Where two lists of rows have the same cell of a column, null equal to null."""
    if layout.kind(name) == "gaps":
        at, n = columns[GAPS_AT], columns[GAPS_N]
        pairs = zip(at[ones].tolist(), n[ones].tolist(), at[others].tolist(), n[others].tolist(), strict=True)
        return np.fromiter((m == k and (us[a : a + m] == us[b : b + k]).all() for a, m, b, k in pairs), np.bool_)
    one, other = columns[name].take(ones), columns[name].take(others)
    null, other_null = one.isna(), other.isna()
    same: npt.NDArray[np.bool_] = np.where(null | other_null, null & other_null, mask(pd.Series(one == other)))
    return same
