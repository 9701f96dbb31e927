"""The measurement window of a stage: which requests belong to it, what was in flight in it and what came out of it.

Times are float seconds from the start of the window, NaN where null; all on the master's clock.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from llm_locust.analysis.derived import Bools, Floats, floats, mask
from llm_locust.analysis.gaps import GAPS_AT, GAPS_N, Us
from llm_locust.records import NS_PER_S, Outcome, StageManifest


class Window(NamedTuple):
    """The window as it was measured: half open, Unix nanoseconds on the master's clock."""

    start_ns: int
    end_ns: int
    method: str
    """``window``; ``window_cut_short`` when the stage ended before its time; ``window_until_stopped`` for a closed loop
    without a set length; ``trace_slice`` for a replay; of a stage of N requests ``planned_time_of_last_arrival``, or, where
    nothing was planned (a closed loop, another tool's file), ``first_sent_to_last_end``."""

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.end_ns - self.start_ns) / NS_PER_S


def measured_window(stage: StageManifest, rows: pd.DataFrame) -> Window | None:
    """The window of a stage; ``None`` when the stage ended before its window began.

    A stage that was cut short is measured as far as it went: its window ends no later than its arrivals did.
    """
    start, end = stage.window_start_ns, stage.window_end_ns
    if stage.interrupted is not None:
        known = [t for t in (end, stage.arrivals_end_ns) if t is not None]
        end = min(known) if known else _last_seen_ns(rows)
    elif end is None:
        end = stage.arrivals_end_ns or stage.end_ns or _last_seen_ns(rows)
    if end is None or end <= start:
        return None
    whole = stage.interrupted is None and stage.spec.requests is not None and stage.end_ns is not None
    if whole and (stage.spec.mode == "closed" or stage.window_end_ns is None):
        return _first_sent_to_last_end(rows)
    return Window(start, end, _method(stage))


def _method(stage: StageManifest) -> str:
    if stage.interrupted is not None:
        return "window_cut_short"
    if stage.spec.requests is not None:
        return "planned_time_of_last_arrival"
    if stage.spec.replay is not None:
        return "trace_slice"
    return "window" if stage.spec.window_s is not None else "window_until_stopped"


def _first_sent_to_last_end(rows: pd.DataFrame) -> Window | None:
    """N requests of which nobody planned when: a closed loop, or another tool's. There is no other time than theirs."""
    measured = rows[rows["phase"] == "measure"]
    first, last = measured["sent_ns"].min(), measured["end_ns"].max()
    if pd.isna(first) or pd.isna(last) or last <= first:
        return None
    return Window(int(first), int(last) + 1, "first_sent_to_last_end")  # half open, and the last end is in it


def _last_seen_ns(rows: pd.DataFrame) -> int | None:
    latest = rows["end_ns"].max()
    return None if pd.isna(latest) else int(latest)


def batch(rows: pd.DataFrame, stage: StageManifest, window: Window | None) -> Bools:
    """Which rows the figures are made of: open arrivals planned inside the window, closed ones sent inside it.

    An arrival that has no such time (issued but never sent, or a follow-up turn, which has no plan) belongs to the window
    if it was sent inside it, or if it was never sent and its phase says so: failures stay in the denominator.
    """
    if window is None:
        return np.zeros(len(rows), np.bool_)
    if stage.spec.requests is not None and stage.interrupted is None:
        return mask(rows["phase"] == "measure")  # all N, the Nth at the very end among them
    time = rows["sent_ns"] if stage.spec.mode == "closed" else rows["planned_ns"].fillna(rows["sent_ns"])
    inside = (time >= window.start_ns) & (time < window.end_ns)
    return np.where(mask(time.isna()), mask(rows["phase"] == "measure"), mask(inside))


def seconds_after(times_ns: pd.Series[int], origin_ns: int) -> Floats:
    """Unix nanoseconds as float seconds after an origin; the difference is taken in integers, where it is exact."""
    return floats(times_ns - origin_ns) / NS_PER_S


def in_flight_at(starts: Floats, ends: Floats, at: float) -> int:
    """How many had started and not ended at an instant; one that ends just then is gone, one that starts just then is in."""
    return int(((starts <= at) & ~(ends <= at)).sum())


def peak_in_flight(starts: Floats, ends: Floats, window: tuple[float, float]) -> int:
    """The largest number in flight at once inside the window; a place freed at an instant may be taken at that instant."""
    inside = np.sort(starts[(starts > window[0]) & (starts < window[1])])
    began = in_flight_at(starts, ends, window[0])
    if len(inside) == 0:
        return began
    left = np.sort(ends[(ends > window[0]) & (ends < window[1])])
    level = began + np.arange(1, len(inside) + 1) - np.searchsorted(left, inside, side="right")
    return max(began, int(level.max()))


def completed_in_window(rows: pd.DataFrame, window: Window) -> int:
    """Ok requests that were complete inside the window, whenever they were planned."""
    done = (rows["complete_ns"] >= window.start_ns) & (rows["complete_ns"] < window.end_ns)
    return int((mask(rows["outcome"] == Outcome.OK) & mask(done)).sum())


def output_tokens_in_window(
    rows: pd.DataFrame, gaps_us: Us, window: Window, chosen: Bools | None = None
) -> float | None:
    """How many output tokens came out inside the window, of any request of the stage, failed ones included.

    A request that put out its tokens wholly inside or outside counts wholly or not at all. One that straddles an edge has
    its tokens shared out equally over its output events where the gaps between them were kept; otherwise one token at the
    first output and the rest evenly up to the last. A request without a token count lends its number of output events;
    ``None`` when some request put out an unknown number.

    Args:
        rows: All rows of the stage.
        gaps_us: The gaps that the rows point into.
        window: The window.
        chosen: Count the tokens of these rows only.
    """
    tokens, first, last = token_times(rows, window.start_ns)
    if chosen is not None:
        first = np.where(chosen, first, np.nan)
    end = window.seconds
    touches = (first < end) & (last >= 0)
    if np.isnan(tokens[touches]).any():
        return None
    within = (first >= 0) & (last < end)
    total = float(tokens[within].sum())
    at, n = rows[GAPS_AT].to_numpy(), rows[GAPS_N].to_numpy()
    for k in np.flatnonzero(touches & ~within):
        if n[k]:
            when = first[k] + np.concatenate(([0.0], np.cumsum(gaps_us[at[k] : at[k] + n[k]], dtype=np.int64) / 1e6))
            total += tokens[k] * float(((when >= 0) & (when < end)).mean())
        else:
            total += float(evenly(tokens[k : k + 1], first[k : k + 1], last[k : k + 1], 0.0, end)[0])
    return float(total)


def token_times(rows: pd.DataFrame, origin_ns: int) -> tuple[Floats, Floats, Floats]:
    """Each request's output tokens (its events where nobody counted), and its first and last output in seconds."""
    tokens = floats(rows["output_tokens"].fillna(rows["output_events"]))
    first = seconds_after(rows["first_output_ns"], origin_ns)
    last = seconds_after(rows["last_output_ns"], origin_ns)
    return tokens, first, np.where(np.isnan(last), first, last)


def evenly(tokens: Floats, first: Floats, last: Floats, start: float, end: float) -> Floats:
    """The tokens that came out in [start, end): one at the first output, the rest evenly up to the last."""
    at_first = np.where((first >= start) & (first < end), 1.0, 0.0)
    overlap = np.clip(np.minimum(last, end) - np.maximum(first, start), 0.0, None)
    long = last > first
    part = overlap / np.where(long, last - first, 1.0)
    return np.where(long, np.minimum(tokens, at_first) + np.maximum(tokens - 1, 0.0) * part, tokens * at_first)
