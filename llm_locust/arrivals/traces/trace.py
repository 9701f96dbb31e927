"""A trace in memory: one production log as parallel arrays, with what was left out of it and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from llm_locust.arrivals.traces.log_lines import LoggedRequest, LogLines
from llm_locust.records import NS_PER_S

UNKNOWN = -1
"""In every integer column: the trace does not say."""


@dataclass(frozen=True, eq=False)
class Trace:
    """The usable rows of a trace file, sorted by time; rows at one time stand as in the file. All arrays have length n.

    A column that the whole trace says nothing about takes no memory (one -1, seen n times) and cannot be written to.
    """

    path: str
    format: str
    """By its registered name."""
    unit: str
    """What times the file has, in words: ``timestamp in ms``."""
    sha256: str
    """Of the file's bytes."""
    resolution_ns: int
    """How finely times are told. An arrival was somewhere in ``[time, time + resolution)``."""
    binned: bool
    """The resolution is the width of the bins that arrivals were collected in, found in the times themselves."""

    time_ns: npt.NDArray[np.int64]
    """From the first row, which is at 0."""
    input_tokens: npt.NDArray[np.int32]
    output_tokens: npt.NDArray[np.int32]
    session: npt.NDArray[np.int32]
    """An index into ``session_names``; -1 for a row of no session."""
    turn: npt.NDArray[np.int32]
    """Which turn of its session a row is, from 1."""
    parent: npt.NDArray[np.int32]
    """The row that this one follows up, where the trace says so."""
    line: npt.NDArray[np.int32]
    """Line number in the file, from 1."""
    session_names: Sequence[str]

    hash_ids: npt.NDArray[np.int64]
    """Ids of the blocks of every prompt, one row's after the other's; equal ids are equal prefixes up to there."""
    hash_offsets: npt.NDArray[np.int64]
    """Of length n + 1: row i has ``hash_ids[hash_offsets[i]:hash_offsets[i + 1]]``."""
    block_tokens: int | None
    """Tokens in a block; ``None`` when the format has no blocks."""

    read: int
    """Rows of the file, blank lines included, a header not: ``used`` plus everything ``dropped``."""
    dropped: dict[str, int]
    """How many rows were left out, by reason."""
    unsorted: int
    """Rows that stood after a later one in the file."""
    notes: tuple[str, ...] = ()
    """What else is worth knowing, as sentences."""
    log: LogLines | None = None
    """Where the requests themselves are, for a format that holds them."""

    def __post_init__(self) -> None:
        n = self.used
        columns = (self.input_tokens, self.output_tokens, self.session, self.turn, self.parent, self.line)
        assert all(len(column) == n for column in columns)
        assert len(self.hash_offsets) == n + 1
        assert self.read == n + sum(self.dropped.values()), "every row that was read is used or dropped for a reason"
        assert n > 0
        assert self.time_ns[0] == 0
        assert (np.diff(self.time_ns) >= 0).all()

    def __len__(self) -> int:
        return self.used

    @property
    def used(self) -> int:
        """Rows in the arrays."""
        return len(self.time_ns)

    @property
    def end_ns(self) -> int:
        """The end of the time that the trace covers: its last row was somewhere in ``[time, time + resolution)``."""
        return int(self.time_ns[-1]) + self.resolution_ns

    @property
    def seconds(self) -> float:
        """The time that the trace covers."""
        return self.end_ns / NS_PER_S

    def blocks(self, row: int) -> npt.NDArray[np.int64]:
        """The block ids of a row's prompt, in order; empty when the trace has none."""
        return self.hash_ids[int(self.hash_offsets[row]) : int(self.hash_offsets[row + 1])]

    def session_name(self, row: int) -> str | None:
        """The session of a row."""
        code = int(self.session[row])
        return None if code == UNKNOWN else self.session_names[code]

    def where(self, row: int) -> str:
        """``file:line`` of a row."""
        return f"{self.path}:{self.line[row]}"

    def request(self, row: int) -> LoggedRequest:
        """What was asked in a row, read from the file now.

        Raises:
            ValueError: the format holds no requests (``log`` is ``None``).
            UsageError: the file is gone or is no longer the one that was read.
        """
        if self.log is None:
            raise ValueError(f"a trace of format {self.format} holds no prompts")
        return self.log.request(row)
