"""A file written whole or not at all: a reader sees the old one or the new one, never half of one."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec


@contextlib.contextmanager
def whole_file(path: Path, *, synced: bool = False) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of ``path`` when the block ends; when it fails, nothing has happened.

    It is written beside the file it replaces (a rename works within one file system only), under a name of this process's
    own, so that two that write the same file do not write into each other. It keeps the mode of the file that it replaces;
    of a link, the file that it leads to is replaced.

    Nothing is forced to the disk: that costs some 6 ms a file, in which a gevent loop dispatches nothing, and the rows that
    everything rests on are not forced there either. What is promised holds against a killed process and a full disk, not
    against a machine that loses power.

    Args:
        path: the file.
        synced: force it to the disk all the same, for whoever deletes the only other copy afterwards.

    Raises:
        OSError: it cannot be written.
    """
    final = Path(os.path.realpath(path))
    temporary = final.with_name(f"{final.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(file.fileno(), stat.S_IMODE(final.stat().st_mode))
            yield file
            if synced:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, final)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.filename == str(temporary):
            error.filename = str(path)  # the name that a person knows
        raise


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file with :func:`whole_file`; text as UTF-8.

    Raises:
        OSError: it cannot be written.
    """
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_whole_json(path: Path, value: object) -> None:
    """Write a value as JSON to be read by people too, with :func:`whole_file`.

    Raises:
        OSError: it cannot be written.
    """
    write_whole(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
