"""From rows as a file has them to a :class:`Trace`: compact columns that grow, and a count of every row left out."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from llm_locust.arrivals.traces.exact import Ints
from llm_locust.arrivals.traces.lines import TraceFile, shown
from llm_locust.arrivals.traces.log_lines import LogLines
from llm_locust.arrivals.traces.resolution import bin_ns, written_step_ns
from llm_locust.arrivals.traces.trace import UNKNOWN, Trace
from llm_locust.records import NS_PER_S, UsageError

BLANK = "blank line"
NO_INPUT = "no input tokens"
NO_OUTPUT = "no output tokens"

Ints32 = npt.NDArray[np.int32]
Kind = TypeVar("Kind", np.int32, np.int64)


class TraceBuilder:
    """The columns of a trace while its file is read.

    A format adds every row that the file has. Rows with a length of 0 are dropped here; to the others a format may append
    what it knows of sessions, blocks and places, one value for each row that was kept.
    """

    def __init__(self, file: TraceFile) -> None:
        self.file = file
        self.time_ns = array("q")
        self.input_tokens = array("i")
        self.output_tokens = array("i")
        self.line = array("i")
        self.session = array("i")
        self.session_names: list[str] = []
        self.turn = array("i")
        self.parent = array("i")
        self.hash_ids = array("q")
        self.hash_counts = array("i")
        self.offset = array("q")
        self.length = array("i")
        self.notes: list[str] = []
        self._codes: dict[str, int] = {}
        self._read = 0
        self._dropped: Counter[str] = Counter()

    def blank(self, count: int = 1) -> None:
        """Blank lines were seen."""
        if count:
            self._read += count
            self._dropped[BLANK] += count

    def add(self, line: int, time_ns: int, input_tokens: int, output_tokens: int) -> bool:
        """One row; whether it was kept."""
        self._read += 1
        if input_tokens == 0 or output_tokens == 0:
            self._dropped[NO_INPUT if input_tokens == 0 else NO_OUTPUT] += 1
            return False
        self.line.append(line)
        self.time_ns.append(time_ns)
        self.input_tokens.append(input_tokens)
        self.output_tokens.append(output_tokens)
        return True

    def add_all(self, line: Ints, time_ns: Ints, input_tokens: Ints, output_tokens: Ints) -> npt.NDArray[np.bool_]:
        """Some rows as parallel arrays; which of them were kept."""
        self._read += len(line)
        no_input = input_tokens == 0
        no_output = (output_tokens == 0) & ~no_input
        for reason, rows in ((NO_INPUT, no_input), (NO_OUTPUT, no_output)):
            if rows.any():
                self._dropped[reason] += int(rows.sum())
        kept: npt.NDArray[np.bool_] = ~(no_input | no_output)
        self.line.frombytes(line[kept].astype(np.int32).tobytes())
        self.time_ns.frombytes(time_ns[kept].tobytes())
        self.input_tokens.frombytes(input_tokens[kept].astype(np.int32).tobytes())
        self.output_tokens.frombytes(output_tokens[kept].astype(np.int32).tobytes())
        return kept

    def in_sessions(self, names: Iterable[str]) -> None:
        """The sessions of rows that were kept, by name; an empty name is no session.

        Raises:
            UsageError: a name has control characters, which no plan or record can hold.
        """
        for name in names:
            code = self._codes.get(name) if name else UNKNOWN
            if code is None:
                if not name.isprintable():
                    line = self.line[len(self.session)]
                    raise self.file.bad(line, f"the session {shown(name)} has characters that cannot be printed")
                code = self._codes[name] = len(self.session_names)
                self.session_names.append(name)
            self.session.append(code)

    def with_blocks(self, hash_ids: Sequence[int], line: int) -> None:
        """The block ids of one row that was kept.

        Raises:
            UsageError: an id does not fit an int64.
        """
        try:
            self.hash_ids.extend(hash_ids)
        except OverflowError:
            raise self.file.bad(line, "hash_ids holds a number above 2^63") from None
        self.hash_counts.append(len(hash_ids))

    def finish(self, *, format: str, unit: str, unit_ns: int, block_tokens: int | None = None) -> Trace:
        """The trace: sorted, from 0.

        Raises:
            UsageError: not one row can be used.
        """
        dropped = dict(self._dropped)
        time = np.frombuffer(self.time_ns, np.int64)
        n = len(time)
        if not n:
            why = ", ".join(f"{count} dropped: {reason}" for reason, count in dropped.items())
            raise UsageError(
                f"{self.file.path}: no rows that can be used ({why or 'it has only a header'}); "
                "check what the file holds, or name its format with --trace-format"
            )
        late = int(np.count_nonzero(time < np.maximum.accumulate(time)))
        order = np.argsort(time, kind="stable") if late else None
        step = written_step_ns(time, unit_ns)
        time = _sorted(time, order)
        if int(time[-1]) - int(time[0]) > np.iinfo(np.int64).max:
            raise UsageError(
                f"{self.file.path}: its times span more than 292 years: the unit is not what it seems; "
                "check the format (--trace-format)"
            )
        time = time - time[0]
        bins = bin_ns(time)
        notes = list(self.notes)
        if late:
            notes.append(f"Rows out of order in the file, sorted by time: {late:,}.")
        if bins is not None and bins > step:
            notes.append(
                f"Many rows share each time and times stand {bins / NS_PER_S:g} s apart: arrivals were collected in bins. "
                "Jitter inside a bin spreads them."
            )
        else:
            bins = None
        counts = np.frombuffer(self.hash_counts, np.int32) if self.hash_ids else None
        session = self._column(self.session, n, order)
        turn = self._column(self.turn, n, order)
        return Trace(
            path=self.file.path,
            format=format,
            unit=unit,
            sha256=self.file.sha256,
            resolution_ns=bins or step,
            binned=bins is not None,
            time_ns=time,
            input_tokens=self._column(self.input_tokens, n, order),
            output_tokens=self._column(self.output_tokens, n, order),
            session=session,
            turn=turns(session) if self.session and not self.turn else turn,
            parent=self._parents(n, order),
            line=self._column(self.line, n, order),
            session_names=self.session_names,
            hash_ids=_sorted_runs(np.frombuffer(self.hash_ids, np.int64), counts, order),
            hash_offsets=_offsets(counts, n, order),
            block_tokens=block_tokens,
            read=self._read,
            dropped=dropped,
            unsorted=late,
            notes=tuple(notes),
            log=self._log(order),
        )

    def _column(self, values: array[int], n: int, order: Ints | None) -> Ints32:
        """A column in the trace's order; one that nothing was said of is a single -1, seen n times."""
        if not values:
            return np.broadcast_to(np.int32(UNKNOWN), n)
        assert len(values) == n
        return _sorted(np.frombuffer(values, np.int32), order)

    def _parents(self, n: int, order: Ints | None) -> Ints32:
        parent = self._column(self.parent, n, order)
        if order is None or not self.parent:
            return parent
        place = np.empty(n, np.int32)
        place[order] = np.arange(n, dtype=np.int32)
        return np.where(parent == UNKNOWN, np.int32(UNKNOWN), place[parent])

    def _log(self, order: Ints | None) -> LogLines | None:
        if not self.offset:
            return None
        offset, length = np.frombuffer(self.offset, np.int64), np.frombuffer(self.length, np.int32)
        return LogLines(self.file.path, self.file.version, _sorted(offset, order), _sorted(length, order))


def turns(session: Ints32) -> Ints32:
    """Which row of its session each row is, from 1, in the order of the rows; -1 for rows of no session."""
    members = np.flatnonzero(session != UNKNOWN)
    grouped = members[np.argsort(session[members], kind="stable")]
    codes = session[grouped]
    first = np.flatnonzero(np.diff(codes, prepend=UNKNOWN))
    begin = np.repeat(first, np.diff(first, append=len(codes)))
    turn = np.full(len(session), UNKNOWN, np.int32)
    turn[grouped] = np.arange(len(codes)) - begin + 1
    return turn


def _sorted(values: npt.NDArray[Kind], order: Ints | None) -> npt.NDArray[Kind]:
    return values if order is None else values[order]


def _offsets(counts: Ints32 | None, n: int, order: Ints | None) -> Ints:
    if counts is None:
        return np.broadcast_to(np.int64(0), n + 1)
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(_sorted(counts, order), dtype=np.int64)))


def _sorted_runs(flat: Ints, counts: Ints32 | None, order: Ints | None) -> Ints:
    """Runs of numbers, ``counts`` long each, in another order."""
    if counts is None or order is None:
        return flat
    starts = _offsets(counts, len(counts), None)[:-1][order]
    lengths = counts[order]
    ends = np.cumsum(lengths, dtype=np.int64)
    return flat[np.repeat(starts - (ends - lengths), lengths) + np.arange(len(flat))]
