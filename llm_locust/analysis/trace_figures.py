"""What is in a trace, in figures: rates, burstiness, lengths, conversations, shared prefixes. Of the whole or of a slice."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from llm_locust.analysis.quantiles import nearest_rank, per_second
from llm_locust.arrivals.burstiness import dispersion, gap_cv
from llm_locust.arrivals.traces.replay import Ints, Replay
from llm_locust.arrivals.traces.trace import UNKNOWN
from llm_locust.records import NS_PER_S


class LengthFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Lengths in tokens, over the arrivals whose length is known. Percentiles are nearest rank."""

    known: int
    total: int
    mean: float
    p50: int
    p95: int
    p99: int
    max: int


class SessionFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Conversations."""

    sessions: int
    arrivals: int
    """Arrivals that belong to one."""
    mean_turns: float
    p95_turns: int
    max_turns: int


class PrefixFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks of prompts that an earlier arrival had, with all that precedes them: what an unbounded cache would hit."""

    block_tokens: int
    blocks: int
    seen_before: int
    share: float
    """seen_before / blocks."""


class TraceFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A trace file, what was read of it, and the figures of its slice. ``None``: not known, or not defined."""

    file: str
    format: str
    unit: str
    sha256: str
    resolution_ns: int
    read: int
    """Rows of the file: used + everything dropped."""
    used: int
    dropped: dict[str, int]
    unsorted: int
    notes: tuple[str, ...]

    from_s: float
    to_s: float
    seconds: float
    """The slice's length, the divisor of the means."""
    arrivals: int
    mean_rps: float
    """Arrivals / seconds."""
    mean_per_minute: float
    peak_per_second: int
    """Most arrivals in one second, seconds being counted from the slice's start."""
    peak_per_minute: int
    gap_cv: float | None
    """Standard deviation of the gaps between arrivals / their mean; 1 for Poisson."""
    dispersion_1s: float | None
    """Variance / mean of the arrivals per second; 1 for Poisson."""
    dispersion_10s: float | None
    input_tokens: LengthFigures | None
    output_tokens: LengthFigures | None
    input_tps: float | None
    """Input tokens offered / seconds; ``None`` unless every length is known."""
    output_tps: float | None
    total_tps: float | None
    sessions: SessionFigures | None
    prefix: PrefixFigures | None


def trace_figures(played: Replay) -> TraceFigures:
    """The figures of a slice as it was: a replay without scales, copies or jitter."""
    trace, offset, row = played.trace, played.offset_ns, played.row
    seconds = played.seconds
    given = lengths(trace.input_tokens[row])
    made = lengths(trace.output_tokens[row])
    input_tps, output_tps = (
        None if found is None or found.known < len(row) else per_second(found.total, seconds) for found in (given, made)
    )
    return TraceFigures(
        file=trace.path,
        format=trace.format,
        unit=trace.unit,
        sha256=trace.sha256,
        resolution_ns=trace.resolution_ns,
        read=trace.read,
        used=trace.used,
        dropped=trace.dropped,
        unsorted=trace.unsorted,
        notes=trace.notes,
        from_s=played.start_ns / NS_PER_S,
        to_s=played.end_ns / NS_PER_S,
        seconds=seconds,
        arrivals=len(row),
        mean_rps=played.rate_rps,
        mean_per_minute=played.rate_rps * 60,
        peak_per_second=peak(offset, 1),
        peak_per_minute=peak(offset, 60),
        gap_cv=gap_cv(offset),
        dispersion_1s=dispersion(offset, 1, seconds),
        dispersion_10s=dispersion(offset, 10, seconds),
        input_tokens=given,
        output_tokens=made,
        input_tps=input_tps,
        output_tps=output_tps,
        total_tps=None if input_tps is None or output_tps is None else input_tps + output_tps,
        sessions=sessions(trace.session[row]),
        prefix=prefix(played),
    )


def peak(offset_ns: Ints, bin_s: int) -> int:
    """The most arrivals in one bin, the last one, which may be cut short, included."""
    return int(np.unique_counts(offset_ns // (bin_s * NS_PER_S)).counts.max(initial=0))


def lengths(tokens: npt.NDArray[np.int32]) -> LengthFigures | None:
    """``None`` when not one length is known."""
    known = np.sort(tokens[tokens != UNKNOWN]).astype(np.int64)
    n = len(known)
    if not n:
        return None
    p50, p95, p99 = (int(known[nearest_rank(percent, n) - 1]) for percent in (50, 95, 99))
    total = int(known.sum())
    return LengthFigures(known=n, total=total, mean=total / n, p50=p50, p95=p95, p99=p99, max=int(known[-1]))


def sessions(session: npt.NDArray[np.int32]) -> SessionFigures | None:
    """``None`` when no arrival belongs to one."""
    turns = np.sort(np.unique_counts(session[session != UNKNOWN]).counts)
    n = len(turns)
    if not n:
        return None
    arrivals = int(turns.sum())
    return SessionFigures(
        sessions=n,
        arrivals=arrivals,
        mean_turns=arrivals / n,
        p95_turns=int(turns[nearest_rank(95, n) - 1]),
        max_turns=int(turns[-1]),
    )


def prefix(played: Replay) -> PrefixFigures | None:
    """``None`` when the trace has no blocks.

    Every block but the first of its id has been seen before, whatever the order of the arrivals.
    """
    trace = played.trace
    starts, ends = trace.hash_offsets[played.row], trace.hash_offsets[played.row + 1]
    blocks = int((ends - starts).sum())
    if trace.block_tokens is None or not blocks:
        return None
    places = len(trace.hash_ids) + 1
    inside = np.cumsum(np.bincount(starts, minlength=places) - np.bincount(ends, minlength=places))[:-1] > 0
    distinct = len(np.unique(trace.hash_ids[inside]))
    seen = blocks - distinct
    return PrefixFigures(block_tokens=trace.block_tokens, blocks=blocks, seen_before=seen, share=seen / blocks)
