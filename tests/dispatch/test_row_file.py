"""A file that grows by whole rows: what does not fit is kept, and the reserve lets the last ones in."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from llm_locust.dispatch.row_file import RowFile


class Disk:
    """Lets so many bytes more through, then is full."""

    def __init__(self, file: Any, room: int) -> None:
        self._file = file
        self.room = room

    def write(self, data: bytes) -> int:
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = min(len(data), self.room)
        self.room -= count
        return int(self._file.write(data[:count]))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def filled(file: RowFile, room: int) -> Disk:
    disk = Disk(file._file, room)
    file._file = disk  # type: ignore[assignment]
    return disk


def test_a_new_file_has_its_header_and_an_old_one_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    for line in ("1\n", "2\n"):
        file = RowFile(path, "n\n")
        file.append(line)
        file.close()
    assert path.read_text() == "n\n1\n2\n"
    assert [found.name for found in tmp_path.iterdir()] == ["rows.csv"]  # the reserve is given back


def test_half_a_row_never_stays_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    file = RowFile(path, "n\n")
    file.append("first\n")
    (tmp_path / "rows.csv.reserve").unlink()
    disk = filled(file, 3)
    with pytest.raises(OSError, match="No space left"):
        file.append("second\n")
    assert path.read_text() == "n\nfirst\n"
    disk.room = 1000
    file.append("third\n")
    file.close()
    assert path.read_text() == "n\nfirst\nsecond\nthird\n"


def test_the_reserve_lets_the_rows_in_and_the_writer_is_told_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    file = RowFile(path, "n\n")
    reserve = tmp_path / "rows.csv.reserve"
    assert reserve.stat().st_size == 2_000_000
    disk = filled(file, 0)
    real = disk.write

    def write(data: bytes) -> int:
        if not reserve.exists():
            disk.room = 1000  # giving the reserve up made room
        return real(data)

    disk.write = write  # type: ignore[method-assign]
    with pytest.raises(OSError, match="No space left"):
        file.append("row\n")
    assert path.read_text() == "n\nrow\n"
    assert not reserve.exists()
    file.close()
