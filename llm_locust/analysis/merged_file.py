"""``requests.csv``: the merged table on disk, written whole or not at all, read back without losing a digit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from llm_locust.analysis.columns import ColumnsInParts
from llm_locust.analysis.csv_blocks import Layout, line_blocks, parse_block
from llm_locust.analysis.derived import DERIVED_COLUMNS, DERIVED_STRING_COLUMNS
from llm_locust.analysis.gaps import GAPS_AT, GAPS_N, Us, gap_texts, picked_gaps
from llm_locust.analysis.raw_files import Progress, Step
from llm_locust.records import COLUMNS, STRING_COLUMNS, UsageError
from llm_locust.records.run_folder import why_no_run
from llm_locust.records.whole_file import whole_file

MERGED_COLUMNS: tuple[str, ...] = (*COLUMNS, *DERIVED_COLUMNS)
"""The header of ``requests.csv``: the record, times on the master's clock, then the derived columns."""

MERGED = Layout(
    MERGED_COLUMNS,
    (STRING_COLUMNS | DERIVED_STRING_COLUMNS) - {"gaps_us"},
    floats=frozenset(DERIVED_COLUMNS) - DERIVED_STRING_COLUMNS - {"good"},
    gaps="gaps_us",
)

ROWS_AT_ONCE = 5_000


def write_merged(path: Path, rows: pd.DataFrame, gaps_us: Us, progress: Progress = lambda _: None) -> None:
    """Write the merged table atomically: a reader sees the old file or the new one."""
    with whole_file(path) as file:
        file.write((",".join(MERGED_COLUMNS) + "\n").encode())
        for start in range(0, len(rows), ROWS_AT_ONCE):
            part = rows.iloc[start : start + ROWS_AT_ONCE]
            columns = [_cells(part, name, gaps_us) for name in MERGED_COLUMNS]
            # Only texts can need quotes, so the csv module need not look at every character of the gaps: half the time.
            file.write("\n".join(map(",".join, zip(*columns, strict=True))).encode())
            file.write(b"\n")
            done = start + len(part)
            progress(Step(f"writing {path.name}", done, done / len(rows)))


def _cells(part: pd.DataFrame, name: str, gaps_us: Us) -> list[str]:
    """The cells of a column as they are written, empty for null."""
    if name == "gaps_us":
        at, n = part[GAPS_AT].to_numpy(), part[GAPS_N].to_numpy()
        filled = n > 0
        texts = iter(gap_texts(picked_gaps(gaps_us, at[filled], n[filled]), n[filled]))
        return [next(texts) if has else "" for has in filled.tolist()]
    null = part[name].isna().to_numpy()
    if null.all():
        return [""] * len(part)
    column = part[name].array
    kind = MERGED.kind(name)
    if kind == "text":
        values = column.tolist()
        written = {value: _quoted(value) for value in set(values) if isinstance(value, str)}
        return [written.get(value, "") for value in values]
    if kind == "integer":
        cells = list(map(str, np.asarray(column.fillna(0), dtype=np.int64).tolist()))
    else:
        cells = list(map(repr, np.asarray(column, dtype=np.float64).tolist()))
    if not null.any():
        return cells
    return ["" if empty else cell for cell, empty in zip(cells, null.tolist(), strict=True)]


def _quoted(text: str) -> str:
    if '"' in text:
        return '"' + text.replace('"', '""') + '"'
    return f'"{text}"' if "," in text or "\n" in text or "\r" in text else text


def read_merged(path: Path, progress: Progress = lambda _: None) -> tuple[pd.DataFrame, Us]:
    """Read the merged table and its gaps; the figures computed from them are those computed when it was written.

    Raises:
        UsageError: there is none, or it was written by another version.
    """
    anew = f"run llm-locust merge {path.parent} to write it anew"
    columns = ColumnsInParts(MERGED)
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            if file.readline().decode("utf-8", "replace").rstrip("\r\n").split(",") != list(MERGED_COLUMNS):
                raise UsageError(f"{path}: not the columns of this version; {anew}")
            line = 2
            for data in line_blocks(file):
                try:
                    block = parse_block(data, MERGED, path, line)
                except UsageError as error:
                    raise UsageError(f"{error}; {anew}") from None
                columns.add(block)
                line += block.rows
                progress(Step(f"reading {path.name}", line - 2, file.tell() / size))
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(
            why_no_run(path.parent) or f"{path.parent} has no {path.name}: run llm-locust merge {path.parent} first"
        ) from None
    together, gaps_us = columns.together()
    return pd.DataFrame(together, copy=False), gaps_us
