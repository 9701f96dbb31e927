"""The run over time, in bounded memory: so many points at most, whose step doubles when they are used up.

Strategy: a step stays open until nothing of it is to be expected any more (:data:`SETTLE_S`), and holds counts, levels and
sketches. When it closes it becomes one row of figures, with sketches of four times the error beside it. When there are
:data:`MOST_POINTS` rows, each becomes one with its neighbour: rates and levels are averaged, of peaks the greater is kept,
and percentiles are told from the sketches of both together, so that they are those of the longer step, and not an average
of percentiles. A day takes no more memory than half an hour does.

What comes for a step that has closed is counted in the oldest open one: late, but not lost.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable

from llm_locust.live.request import Times, Verdict
from llm_locust.live.sketch import Floats, Sketch
from llm_locust.live.snapshot import SERIES_COLUMNS, Series
from llm_locust.records.outcomes import UNATTEMPTED, Outcome

MOST_POINTS = 1_800
SETTLE_S = 2.0
"""Workers write their rows every second, and ship them then."""
FOLDS = 2
"""Sketches of closed steps have buckets four times as wide: percentiles of steps put together are within 2 %."""
CARRIED_S = 3.0
"""A level stands for so long after it was last told, if nobody says how often it is told."""

_COUNTS = ("planned", "sent", "completed", "ok", "good", "failed", "rejected", "timeout", "output_tokens")
_SKETCHED: dict[str, tuple[int, ...]] = {
    "ttft": (50, 95, 99), "tpot": (50, 95, 99), "itl": (95,), "e2e": (50, 95), "client_wait": (95,), "dispatch_lag": (99,),
}  # fmt: skip
_LEVELS: dict[str, Callable[[list[float]], float]] = {
    "in_flight": sum, "waiting": sum,
    "server_running": sum, "server_waiting": sum, "server_kv_usage_pct": max, "server_queue_p95_ms": max,
    "gpu_utilisation_pct": lambda values: sum(values) / len(values), "gpu_memory_gb": sum,
    "worker_cpu_pct_max": max, "worker_loop_lag_ms_max": max,
}  # fmt: skip
"""How the levels of several workers, servers or GPUs become one."""
_PEAKS = frozenset({"server_queue_p95_ms", "worker_cpu_pct_max", "worker_loop_lag_ms_max"})
"""Of two steps put together the greater is kept; other levels are averaged."""

Figure = float | None


class _Level:
    """One level as one worker, server or GPU tells it."""

    def __init__(self) -> None:
        self.told_s = -math.inf
        self.value: float | None = None
        """The last of the steps that have closed."""
        self.at_s = -math.inf
        """The end of the step that it is of."""
        self.carried_s = CARRIED_S


class _Step:
    """What is known of a step that is still open."""

    def __init__(self) -> None:
        self.counts: dict[str, float] = dict.fromkeys(_COUNTS, 0.0)
        self.unknown = 0
        """Ok requests of which it cannot be said whether they were good."""
        self.sketches: dict[str, Sketch] = {}
        self.levels: dict[tuple[str, object], list[float | None]] = defaultdict(list)

    def sketch(self, name: str) -> Sketch:
        found = self.sketches.get(name)
        if found is None:
            found = self.sketches[name] = Sketch()
        return found

    def merge(self, other: _Step) -> None:
        for name, count in other.counts.items():
            self.counts[name] += count
        self.unknown += other.unknown
        for name, sketch in other.sketches.items():
            self.sketch(name).merge(sketch)
        for key, values in other.levels.items():
            self.levels[key] += values


class SeriesRecorder:
    """The series of one run.

    Args:
        start_s: Its start, Unix seconds of the master.
        has_limits: Whether any per-request limit was chosen: without one no request is good or not.
    """

    def __init__(self, start_s: float, *, has_limits: bool) -> None:
        self._start_s = float(math.floor(start_s))
        self._has_limits = has_limits
        self._step_s = 1.0
        self._open: dict[int, _Step] = {}
        self._columns: dict[str, list[Figure]] = {name: [] for name in SERIES_COLUMNS}
        self._sketches: list[dict[str, Sketch]] = []
        """Of the closed steps."""
        self._levels: dict[tuple[str, object], _Level] = {}
        self._doubled_s = -math.inf
        """The end of the closed steps when the step last doubled: who has points only up to here may have other ones."""
        self._over_s: float | None = None

    # --- what comes in ---------------------------------------------------------------------------------------------

    def ended(
        self, at_s: float, outcome: str, verdict: Verdict, found: Times, gaps_ms: Floats | None, tokens: int | None
    ) -> None:
        """A request has ended at this time; its output tokens are counted here too."""
        step = self._step_at(at_s)
        counts = step.counts
        counts["completed"] += outcome not in UNATTEMPTED
        if outcome == Outcome.OK:
            counts["ok"] += 1
            if verdict is Verdict.GOOD:
                counts["good"] += 1
            elif verdict is Verdict.UNKNOWN:
                step.unknown += 1
            for name, value in (("ttft", found.ttft), ("tpot", found.tpot), ("e2e", found.e2e)):
                if value is not None:
                    step.sketch(name).add(value)
            if gaps_ms is not None:
                step.sketch("itl").add_many(gaps_ms)
        else:
            counts["failed"] += 1
            if outcome in (Outcome.REJECTED, Outcome.TIMEOUT):
                counts[outcome] += 1
        counts["output_tokens"] += tokens or 0
        if found.client_wait is not None:
            step.sketch("client_wait").add(found.client_wait)
        if found.dispatch_lag is not None:
            step.sketch("dispatch_lag").add(found.dispatch_lag)

    def counted(self, name: str, amount: float, from_s: float, to_s: float) -> None:
        """So many more of ``planned`` or ``sent`` came between two times: they are taken to have come evenly."""
        if amount <= 0:
            return
        from_s = max(from_s, self._end_s)
        first, last = self._place(from_s), self._place(to_s)
        if first >= last or to_s <= from_s:
            self._step(last).counts[name] += amount
            return
        for place in range(first, last + 1):
            begin = self._start_s + place * self._step_s
            part = min(to_s, begin + self._step_s) - max(from_s, begin)
            self._step(place).counts[name] += amount * max(part, 0.0) / (to_s - from_s)

    def level(self, name: str, source: object, at_s: float, value: float | None, carried_s: float = CARRIED_S) -> None:
        """A level as one source told it at this time; ``None``: it did not say.

        It stands until the source tells another, for ``carried_s`` seconds at most.
        """
        key = (name, source)
        known = self._levels.get(key)
        if known is None:
            if value is None:
                return
            known = self._levels[key] = _Level()
        known.told_s, known.carried_s = at_s, carried_s
        self._step_at(at_s).levels[key].append(value)

    # --- time goes on ----------------------------------------------------------------------------------------------

    def go_on(self, now_s: float) -> None:
        """Close the steps of which nothing more is expected."""
        settled = now_s - SETTLE_S
        if self._over_s is not None and settled >= self._over_s:
            self.close(now_s)
        while self._end_s + self._step_s <= min(settled, self._over_s or settled):
            self._close(self._step_s)

    def over(self, now_s: float) -> None:
        """The run is over at this time; what is still to be told of it may come later."""
        if self._over_s is None:
            self._over_s = now_s

    def close(self, now_s: float) -> None:
        """All of the run was told: close what is open. Call it again when something came after all."""
        self.over(now_s)
        assert self._over_s is not None
        while self._open or self._end_s < self._over_s:
            self._close(max(min(self._step_s, self._over_s - self._end_s), 1.0))

    # --- what is shown ---------------------------------------------------------------------------------------------

    def view(self, now_s: float, since: float | None = None) -> Series:
        """The points that start at ``since`` or later, all of them where the reader may have others (or for ``None``).

        The newest point is of a step that goes on where at least two seconds of it have settled; it will change.
        """
        self.go_on(now_s)
        whole = since is None or since < self._doubled_s
        closed = len(self._sketches)
        first = 0
        if since is not None and not whole:
            after = (since - self._start_s) / self._step_s
            first = closed + 1 if after > closed else max(math.ceil(after - 1e-9), 0)
        t = [self._start_s + place * self._step_s for place in range(first, closed)]
        columns = {name: values[first:] for name, values in self._columns.items()}
        passed = now_s - SETTLE_S - self._end_s
        if self._over_s is None and first <= closed and 2.0 <= passed < self._step_s and closed in self._open:
            t.append(self._end_s)
            figures, _ = self._figures(self._open[closed], self._end_s + passed, passed, keep=False)
            for name, values in columns.items():
                values.append(figures[name])
        return Series(step_s=self._step_s, whole=whole, t=t, columns=columns)

    # --- inside ----------------------------------------------------------------------------------------------------

    @property
    def _end_s(self) -> float:
        """Where the closed steps end."""
        return self._start_s + len(self._sketches) * self._step_s

    def _place(self, at_s: float) -> int:
        return max(int((at_s - self._start_s) // self._step_s), len(self._sketches))

    def _step_at(self, at_s: float) -> _Step:
        return self._step(self._place(at_s))

    def _step(self, place: int) -> _Step:
        place = max(place, len(self._sketches))
        found = self._open.get(place)
        if found is None:
            found = self._open[place] = _Step()
        return found

    def _close(self, seconds: float) -> None:
        """Close the oldest step, of which so many seconds have passed."""
        step = self._open.pop(len(self._sketches), None) or _Step()
        figures, folded = self._figures(step, self._end_s + self._step_s, seconds, keep=True)
        for name, values in self._columns.items():
            values.append(figures[name])
        self._sketches.append(folded)
        if len(self._sketches) >= MOST_POINTS:
            self._double()

    def _figures(
        self, step: _Step, end_s: float, seconds: float, *, keep: bool
    ) -> tuple[dict[str, Figure], dict[str, Sketch]]:
        """The row of a step, and its sketches for later (``keep``)."""
        found: dict[str, Figure] = dict.fromkeys(SERIES_COLUMNS)
        for name, count in step.counts.items():
            found[f"{name}_{'tps' if name == 'output_tokens' else 'rps'}"] = _short(count / seconds)
        if not self._has_limits or step.unknown:
            found["good_rps"] = None
        folded: dict[str, Sketch] = {}
        for name, sketch in step.sketches.items():
            _tell(found, name, sketch)
            if keep:
                folded[name] = sketch.folded(FOLDS)
        told: dict[str, list[float]] = defaultdict(list)
        for (name, source), known in list(self._levels.items()):
            values = step.levels.get((name, source))
            if values:
                if numbers := [value for value in values if value is not None]:
                    told[name].append(max(numbers) if name in _PEAKS else sum(numbers) / len(numbers))
                if keep:
                    known.value, known.at_s = values[-1], end_s
            elif known.value is not None and end_s - known.at_s <= known.carried_s:
                told[name].append(known.value)
            elif keep and end_s - known.told_s > known.carried_s:
                del self._levels[(name, source)]
        for name, together in _LEVELS.items():
            if name in told:
                found[name] = _short(together(told[name]))
        return found, folded

    def _double(self) -> None:
        """Make one of every two closed steps, and of every two open ones."""
        for name, values in self._columns.items():
            pairs = zip(values[::2], values[1::2], strict=True)
            self._columns[name] = [_joined(name, one, other) for one, other in pairs]
        for place in range(0, len(self._sketches), 2):
            one, other = self._sketches[place], self._sketches[place + 1]
            for name, sketch in other.items():
                if name in one:
                    one[name].merge(sketch)
                else:
                    one[name] = sketch
        self._sketches = self._sketches[::2]
        for place, sketches in enumerate(self._sketches):
            row: dict[str, Figure] = {}
            for name, sketch in sketches.items():
                _tell(row, name, sketch)
            for name, value in row.items():
                self._columns[name][place] = value
        self._step_s *= 2
        self._doubled_s = self._end_s
        steps, self._open = self._open, {}
        for place in sorted(steps):
            self._step(place // 2).merge(steps[place])


def _tell(row: dict[str, Figure], name: str, sketch: Sketch) -> None:
    """Put the percentiles of a sketch where they belong."""
    percents = _SKETCHED[name]
    for percent, value in zip(percents, sketch.percentiles(percents), strict=True):
        row[f"{name}_p{percent}_ms"] = None if value is None else _short(value)


def _joined(column: str, one: Figure, other: Figure) -> Figure:
    """A rate or level of two steps as one."""
    known = [value for value in (one, other) if value is not None]
    if not known:
        return None
    if column in _PEAKS:
        return max(known)
    if column == "good_rps" and len(known) < 2:
        return None
    return _short(sum(known) / len(known))


def _short(value: float) -> float:
    """To six digits: what is drawn needs no more, and a page of 1,800 points is half as long."""
    return float(f"{value:.6g}")
