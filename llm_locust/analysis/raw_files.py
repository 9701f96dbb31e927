"""Reading the raw files of a run: which there are, torn ends, rows that are there twice.

A worker's own file is the authority, the master keeps what was shipped, other machines' folders may be added: the same row
may come several times. Identical rows collapse; differing rows for one index are an error that names both files.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from llm_locust.records import (
    COLUMNS,
    PLAN_COLUMNS,
    PLAN_STRING_COLUMNS,
    STRING_COLUMNS,
    Outcome,
    RunFolder,
    UsageError,
)

Progress = Callable[[str], None]
"""Told what is being done, now and then."""

FILE = "file"
"""A column beside those of the contract: the number of the file a row came from."""


@dataclass(frozen=True)
class Table:
    """A CSV contract: its columns, which of them hold text, which may not be empty."""

    columns: tuple[str, ...]
    strings: frozenset[str]
    required: tuple[str, ...]


REQUESTS = Table(
    COLUMNS, STRING_COLUMNS, ("run_id", "stage", "round", "phase", "index", "request_id", "worker", "outcome")
)
PLAN = Table(PLAN_COLUMNS, PLAN_STRING_COLUMNS, ("run_id", "stage", "round", "phase", "index", "request_id", "worker"))


@dataclass
class RawRows:
    """The distinct rows of some files, one per index, and what was found on the way."""

    frame: pd.DataFrame
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


def read_rows(files: Sequence[Path], table: Table, run_id: str, progress: Progress = lambda _: None) -> RawRows:
    """Read files of one contract into one row per index, sorted by index.

    Raises:
        UsageError: a file has other columns, a broken line or rows of another run, or two rows of one index differ.
    """
    raw = RawRows(_empty(table))
    frames: list[pd.DataFrame] = []
    for path, content in _distinct(files, raw):
        progress(f"reading {path.name}")
        frame = _parse(path, content, table, run_id)
        frame[FILE] = len(raw.files)
        raw.files.append(path)
        raw.read += len(frame)
        frames.append(frame)
    if frames:
        together = pd.concat(frames, ignore_index=True)
        raw.frame = _collapse(together, table, raw).sort_values("index", ignore_index=True)
    return raw


def _distinct(files: Sequence[Path], raw: RawRows) -> Iterable[tuple[Path, bytes]]:
    """Each file's whole lines; a file that another of the same worker begins with is counted, not parsed again.

    What is shipped is the start of what was written, so on one machine this spares half the parsing.
    """
    groups: dict[str, list[Path]] = {}
    for path in files:
        groups.setdefault(path.name.replace(".shipped", ""), []).append(path)
    for group in groups.values():
        kept: list[tuple[Path, bytes]] = []
        for path, content in sorted(((p, _whole_lines(p, raw)) for p in group), key=lambda pair: -len(pair[1])):
            if content and any(longer.startswith(content) for _, longer in kept):
                rows = content.count(b"\n") - 1
                raw.files.append(path)
                raw.read += rows
                raw.collapsed += rows
            elif content:
                kept.append((path, content))
        yield from kept


def _whole_lines(path: Path, raw: RawRows) -> bytes:
    """The file up to its last line end: a killed worker may leave half a line."""
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    if end < len(content):
        raw.torn.append(path)
    return content[:end]


def _parse(path: Path, content: bytes, table: Table, run_id: str) -> pd.DataFrame:
    header = content[: content.index(b"\n")].decode("utf-8", "replace").rstrip("\r").split(",")
    if header != list(table.columns):
        missing = sorted(set(table.columns) - set(header))
        unknown = sorted(set(header) - set(table.columns))
        raise UsageError(
            f"{path}: not the columns of this version: missing {missing or 'none'}, unknown {unknown or 'none'}"
            f"{'' if missing or unknown else ', in another order'}; read it with the version that wrote it"
        )
    types = {name: "str" if name in table.strings else "Int64" for name in table.columns}
    try:
        # Text such as "None" or "NA" is text: only an empty cell is null. Int64 holds Unix nanoseconds exactly.
        frame = pd.read_csv(io.BytesIO(content), dtype=types, keep_default_na=False, na_values=[""])
    except (ValueError, TypeError) as error:  # pandas' own parser errors are ValueErrors
        raise UsageError(f"{path}: {_broken_cell(content, table) or error}") from None
    for name in table.required:
        if frame[name].isna().any():
            raise UsageError(f"{path}, line {_line(frame[name].isna())}: {name} is empty")
    others = frame["run_id"] != run_id
    if others.any():
        raise UsageError(
            f"{path}, line {_line(others)}: a row of run {frame['run_id'][others].iloc[0]}, but this is run {run_id}; "
            "take the file out of the folder"
        )
    if "outcome" in frame:
        unknown_outcome = ~frame["outcome"].isin([str(outcome) for outcome in Outcome])
        if unknown_outcome.any():
            raise UsageError(
                f"{path}, line {_line(unknown_outcome)}: unknown outcome {frame['outcome'][unknown_outcome].iloc[0]!r}"
            )
    return frame


def _broken_cell(content: bytes, table: Table) -> str | None:
    """Where the first cell is that should be an integer and is not, in words."""
    try:
        text = pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False)
    except ValueError:
        return None
    for name in table.columns:
        if name not in table.strings:
            broken = ~text[name].str.fullmatch(r"(-?\d+)?")
            if broken.any():
                return f"line {_line(broken)}: {name} is {text[name][broken].iloc[0]!r}, not an integer"
    return None


def _line(condition: pd.Series[bool]) -> int:
    """The line of the file that holds the first row where the condition is true; the header is line 1."""
    return int(condition.to_numpy(dtype=bool).argmax()) + 2


def _collapse(frame: pd.DataFrame, table: Table, raw: RawRows) -> pd.DataFrame:
    """One row per index: identical ones collapse, differing ones stop the merge."""
    twice = frame["index"].duplicated(keep=False)
    if not twice.any():
        return frame
    columns = list(table.columns)
    distinct = frame[twice].drop_duplicates(subset=columns)
    conflicts = distinct[distinct["index"].duplicated(keep=False)]
    if len(conflicts):
        one, other = conflicts[conflicts["index"] == conflicts["index"].min()].iloc[:2].to_dict("records")
        differing = [name for name in columns if not _same(one[name], other[name])]
        raise UsageError(
            f"two different rows for index {one['index']}: {raw.files[int(one[FILE])]} and "
            f"{raw.files[int(other[FILE])]} differ in {', '.join(differing)}; one of the files is not of this run as it "
            "was recorded: take it out of the folder"
        )
    raw.collapsed += int(twice.sum()) - len(distinct)
    return pd.concat([frame[~twice], distinct])


def _same(one: object, other: object) -> bool:
    """Two cells of the same column, null equal to null."""
    null = one is pd.NA or one != one, other is pd.NA or other != other  # NaN is the null of text
    return null == (True, True) or (null == (False, False) and one == other)


def _empty(table: Table) -> pd.DataFrame:
    types = {name: "str" if name in table.strings else "Int64" for name in table.columns} | {FILE: "int64"}
    return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in types.items()})
