"""``requests.csv``: the merged table on disk, written whole or not at all, read back without losing a digit."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd

from llm_locust.analysis.derived import DERIVED_COLUMNS, DERIVED_STRING_COLUMNS
from llm_locust.analysis.raw_files import Progress
from llm_locust.records import COLUMNS, STRING_COLUMNS, UsageError

MERGED_COLUMNS: tuple[str, ...] = (*COLUMNS, *DERIVED_COLUMNS)
"""The header of ``requests.csv``: the record, times on the master's clock, then the derived columns."""

CHUNK_ROWS = 50_000


def write_merged(path: Path, rows: pd.DataFrame, progress: Progress = lambda _: None) -> None:
    """Write the merged table atomically: a reader sees the old file or the new one."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w", encoding="utf-8", newline="") as file:
        file.write(",".join(MERGED_COLUMNS) + "\n")
        for start in range(0, len(rows), CHUNK_ROWS):
            progress(f"writing {path.name}, row {start:,} of {len(rows):,}")
            part = rows.iloc[start : start + CHUNK_ROWS]
            part.to_csv(file, columns=list(MERGED_COLUMNS), header=False, index=False, lineterminator="\n")
    os.replace(temporary, path)


def read_merged(path: Path) -> pd.DataFrame:
    """Read the merged table; the figures computed from it are those computed when it was written.

    Raises:
        UsageError: there is none, or it was written by another version.
    """
    integers = {*COLUMNS, "good"} - STRING_COLUMNS
    milliseconds = [name for name in DERIVED_COLUMNS if name not in integers and name not in DERIVED_STRING_COLUMNS]
    types = {name: "Int64" if name in integers else "str" for name in MERGED_COLUMNS}
    try:
        rows = pd.read_csv(path, dtype=types, keep_default_na=False, na_values=[""])
    except FileNotFoundError:
        raise UsageError(f"{path.parent} has no {path.name}: run llm-locust merge {path.parent} first") from None
    except (ValueError, TypeError) as error:
        raise UsageError(f"{path}: {error}; run llm-locust merge {path.parent} to write it anew") from None
    if tuple(rows.columns) != MERGED_COLUMNS:
        raise UsageError(
            f"{path}: not the columns of this version; run llm-locust merge {path.parent} to write it anew"
        )
    # The parser's own conversion is a digit off now and then in older versions of pandas; Python's never is.
    return rows.assign(**{name: rows[name].astype("object").astype("float64") for name in milliseconds})
