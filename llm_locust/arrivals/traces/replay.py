"""A trace played again: a slice of it, faster or slower, thinner or denser. Pure: arrays and a random stream in, arrays out.

What is done, in this order, each step on the result of the one before:

1. **Jitter** moves every arrival by a uniform amount inside the trace's resolution, where it was somewhere anyway. It
   comes first, so that a slice's edge cuts a bin of arrivals in proportion and not whole.
2. **Slice**: arrivals in ``[start, end)`` of trace time, which becomes ``[0, end - start)``.
3. **Rate**: below 1, every arrival is kept with that probability, independently of all others, which leaves the trace's
   own rhythm and its counts' excess over Poisson. Above 1, whole copies and a thinned one are laid over the trace, each
   shifted by a random amount around the slice, so that their bursts do not coincide. Conversations are kept or left out,
   and copied, whole.
4. **Time**: offsets times the time scale, 0.1 being ten times as fast, rounded down to whole nanoseconds. The scale is
   taken as the decimal fraction that it is written as: 0.1 is exactly a tenth.

At a rate of 1 and without jitter offsets are those of the trace, exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from llm_locust.arrivals.traces.trace import UNKNOWN, Trace
from llm_locust.records import NS_PER_S, UsageError

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

LEAST_SCALE, MOST_SCALE = 1e-6, 1e6
MOST_RATE = 1000.0


@dataclass(frozen=True, eq=False)
class Replay:
    """The arrivals of a replay, sorted by time. All arrays have length n; n may be 0 after thinning."""

    trace: Trace
    offset_ns: Ints
    """From the start of the replay, in ``[0, seconds)``."""
    row: Ints
    """The row of the trace that the arrival is."""
    copy: npt.NDArray[np.int16]
    """Which copy of the trace it is of: 0 for the trace itself."""
    start_ns: int
    """Where the slice begins in the trace's time."""
    end_ns: int
    """Where it ends."""
    time_scale: float
    rate_scale: float
    jitter_ns: int
    """Width of the jitter before scaling; 0 for none."""

    def __len__(self) -> int:
        return len(self.offset_ns)

    @property
    def seconds(self) -> float:
        """The divisor of this replay's rates: the slice's length times the time scale.

        A whole trace is as long as from its first row to its last, and then the resolution that its last row was
        somewhere in: 1,180 bins of 3 s are 3,540 s, not 3,537.
        """
        return (self.end_ns - self.start_ns) * self.time_scale / NS_PER_S

    @property
    def rate_rps(self) -> float:
        """Mean offered rate: arrivals / seconds."""
        return len(self) / self.seconds

    def session(self, arrival: int) -> str | None:
        """The name of an arrival's conversation: the trace's own, with ``#1``, ``#2``, ... in its copies."""
        name = self.trace.session_name(int(self.row[arrival]))
        copy = int(self.copy[arrival])
        return name if name is None or copy == 0 else f"{name}#{copy}"


def replay(
    trace: Trace,
    *,
    time_scale: float = 1.0,
    rate_scale: float = 1.0,
    start_s: float | None = None,
    end_s: float | None = None,
    jitter_ns: int | Literal["resolution"] = 0,
    random: np.random.Generator,
) -> Replay:
    """Plan a replay: a function of the trace, the parameters and the random stream, as this module's text tells.

    Args:
        trace: The trace.
        time_scale: Duration of the replay over that of the trace.
        rate_scale: Arrivals of the replay over those of the trace.
        start_s: Start of the slice in seconds from the trace's first row; default, and least, 0.
        end_s: End of the slice; default, and most, the end of the trace.
        jitter_ns: Width of the jitter in trace time; ``"resolution"`` for that of the trace.
        random: One fresh stream per replay. Each question has a stream of its own spawned from it: jitter is the same
            whatever the rate.

    Raises:
        UsageError: a scale is out of bounds, or no row of the trace is in the slice.
    """
    _check_scale("the time scale", time_scale, LEAST_SCALE, MOST_SCALE)
    _check_scale("the rate scale", rate_scale, LEAST_SCALE, MOST_RATE)
    jitter = trace.resolution_ns if jitter_ns == "resolution" else jitter_ns
    if jitter < 0:
        raise UsageError(f"the jitter is {jitter} ns: it cannot be negative")
    jitter_random, shift_random, thin_random = random.spawn(3)
    time = trace.time_ns
    if jitter > 0:
        moved = time + jitter_random.integers(0, jitter, len(time))
        time = in_turn(moved, trace.session)
    start, end = _slice(trace, start_s, end_s, int(trace.time_ns[-1]) + max(trace.resolution_ns, jitter))
    inside = np.flatnonzero((time >= start) & (time < end))
    if not len(inside):
        raise UsageError(
            f"{trace.path}: no row of the trace lies from {start / NS_PER_S:g} to {end / NS_PER_S:g} s; "
            f"it covers {trace.seconds:g} s"
        )
    whole = math.floor(rate_scale)
    part = rate_scale - whole
    times, rows, copies = [], [], []
    for copy in range(whole + (part > 0)):
        row = (
            inside if copy < whole else inside[kept(trace.session, part, len(trace.session_names), thin_random)[inside]]
        )
        offset = time[row] - start
        if copy > 0:
            shift = int(shift_random.integers(0, end - start))
            offset = in_turn((offset + shift) % (end - start), trace.session[row])
        times.append(offset)
        rows.append(row)
        copies.append(np.full(len(row), copy, np.int16))
    offset_ns = np.concatenate(times)
    order = np.argsort(offset_ns, kind="stable")
    return Replay(
        trace=trace,
        offset_ns=scaled(offset_ns[order], time_scale),
        row=np.concatenate(rows)[order],
        copy=np.concatenate(copies)[order],
        start_ns=start,
        end_ns=end,
        time_scale=time_scale,
        rate_scale=rate_scale,
        jitter_ns=jitter,
    )


def scaled(time_ns: Ints, scale: float) -> Ints:
    """``floor(time * scale)``, the scale taken as the decimal fraction that it prints as; times are not negative."""
    exact = Fraction(repr(float(scale)))
    # Remainder times numerator stays below 2^62: there is no overflow, and no float.
    exact = exact.limit_denominator(math.isqrt(2**62 // max(1, math.ceil(exact))))
    whole, rest = np.divmod(time_ns, exact.denominator)
    result: Ints = whole * exact.numerator + rest * exact.numerator // exact.denominator
    return result


def kept(session: npt.NDArray[np.int32], share: float, sessions: int, random: np.random.Generator) -> Flags:
    """Which rows an independent thinning to ``share`` keeps; all rows of a session have one lot."""
    rows = random.random(len(session)) < share
    if not sessions:
        return rows
    lots = random.random(sessions) < share
    return np.where(session == UNKNOWN, rows, lots[session])


def in_turn(time_ns: Ints, session: npt.NDArray[np.int32]) -> Ints:
    """The same times, those of each session handed out to its rows in their order: no turn comes before the one it follows.

    Jitter may turn two turns around, and a shift around the slice cuts conversations in two.
    """
    members = np.flatnonzero(session != UNKNOWN)
    if not len(members):
        return time_ns
    by_row = members[np.argsort(session[members], kind="stable")]
    by_time = members[np.lexsort((time_ns[members], session[members]))]
    result = time_ns.copy()
    result[by_row] = time_ns[by_time]
    return result


def _slice(trace: Trace, start_s: float | None, end_s: float | None, last_ns: int) -> tuple[int, int]:
    for name, value in (("start", start_s), ("end", end_s)):
        if value is not None and (not math.isfinite(value) or value < 0):
            raise UsageError(
                f"the {name} of the slice is {value:g} s: it is a time from the trace's first row on, "
                "so write seconds of at least 0"
            )
    start = 0 if start_s is None else round(start_s * NS_PER_S)
    end = last_ns if end_s is None else min(round(end_s * NS_PER_S), last_ns)
    if start >= last_ns:
        raise UsageError(
            f"{trace.path}: the slice begins at {start_s:g} s, but the trace covers {trace.seconds:g} s; "
            "begin before that"
        )
    if start >= end:
        raise UsageError(
            f"the slice begins at {start / NS_PER_S:g} s and ends at {end / NS_PER_S:g} s: it is empty; "
            "let it end later than it begins"
        )
    return start, end


def _check_scale(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise UsageError(f"{name} is {value:g}: it must be from {least:g} to {most:g}")
