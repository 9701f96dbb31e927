"""The file of a sampler: it grows line by line beside the final one, which is made of it at the end.

``FILE.partial`` holds the head and then one sample or note a line, written through at once: a sampler that is killed loses
nothing that it had sampled, and memory does not grow with the days. Two samplers cannot share it, and what a killed one left
is moved aside, not overwritten.
"""

from __future__ import annotations

import fcntl
import itertools
import os
from pathlib import Path

import msgspec

from llm_locust.records import UsageError
from llm_locust.records.device_sample import (
    DeviceSample,
    Ending,
    TelemetryHead,
    TelemetryNote,
    partial_path,
)
from llm_locust.records.whole_file import whole_file

MAX_NOTES = 1000
"""Kept in all; something that comes and goes for days would fill the file."""

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC

_NOTE = b'{"note":'
"""How the line of a note begins."""


class SampleFile:
    """Takes samples and notes, and makes the final file of them.

    Args:
        path: the final file; it is replaced when it is there.
        head: what is known before the first sample.

    Raises:
        UsageError: the file cannot be written there, or another sampler is writing it.
    """

    def __init__(self, path: Path, head: TelemetryHead) -> None:
        self.path = path
        self.partial = partial_path(path)
        self.moved_aside: Path | None = None
        """What a killed sampler had left at the same place."""
        self._head = head
        self._notes: list[TelemetryNote] = []
        self._encoder = msgspec.json.Encoder()
        self._file = self._open()
        self._end = 0
        self._append(head)

    def add(self, sample: DeviceSample) -> None:
        """Keep a sample.

        Raises:
            OSError: the disk is full or gone; what was kept before is whole.
        """
        self._append(sample)

    def note(self, at_ns: int, text: str) -> None:
        """Keep something worth knowing."""
        if len(self._notes) < MAX_NOTES:
            self._notes.append(TelemetryNote(at_ns=at_ns, note=text))
            self._append(self._notes[-1])

    def finish(self, ended: Ending, ended_ns: int, wall_step_ns: int) -> None:
        """Write the final file, whole or not at all, and remove the partial one.

        Raises:
            OSError: there is no room for it; the partial one then stays.
        """
        fields = {
            **msgspec.structs.asdict(self._head),
            "ended": ended,
            "ended_ns": ended_ns,
            "wall_step_ns": wall_step_ns,
            "notes": self._notes,
        }
        with whole_file(self.path, synced=True) as final, self.partial.open("rb") as lines:
            final.write(self._encoder.encode(fields).removesuffix(b"}") + b',"samples":[')
            next(lines)  # the head
            separator = b"\n"
            for line in lines:
                if not line.startswith(_NOTE):
                    final.write(separator + line.removesuffix(b"\n"))
                    separator = b",\n"
            final.write(b"\n]}\n")
        self.partial.unlink()

    def close(self) -> None:
        """Let go of the partial file, and leave it as it is unless it is finished."""
        os.close(self._file)

    def _open(self) -> int:
        if self.path.is_dir():
            raise UsageError(f"--output {self.path}: that is a folder; name a file in it")
        try:
            file = os.open(self.partial, _FLAGS, 0o666)
            self._lock(file)
            if os.fstat(file).st_size:
                self.moved_aside = next(p for n in itertools.count(1) if not (p := self._aside(n)).exists())
                self.partial.rename(self.moved_aside)
                os.close(file)
                file = os.open(self.partial, _FLAGS | os.O_EXCL, 0o666)
                self._lock(file)
        except OSError as error:
            raise UsageError(f"--output {self.path}: cannot be written: {error.strerror}") from None
        return file

    def _lock(self, file: int) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"--output {self.path}: another llm-locust telemetry is writing it; choose another file"
            ) from None
        except OSError:  # a file system without locks
            return

    def _aside(self, number: int) -> Path:
        return self.partial.with_name(f"{self.partial.name}.{number}")

    def _append(self, thing: DeviceSample | TelemetryHead | TelemetryNote) -> None:
        data = self._encoder.encode(thing) + b"\n"
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            os.ftruncate(self._file, self._end)
            raise OSError(error.errno, error.strerror, str(self.partial)) from None
        self._end += len(data)
