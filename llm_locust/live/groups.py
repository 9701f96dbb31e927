"""The measured requests of a stage, added up by slice and user class.

A request is counted once, in the cell of its slice and user class; what is shown of a slice, a class or all together is put
together from cells when somebody looks. So a request costs the same however many ways there are to look at it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from llm_locust.live.buckets import BOUNDS_MS, Buckets, FixedBuckets, GroupBuckets, added
from llm_locust.live.request import Times, Verdict
from llm_locust.live.sketch import Floats, Sketch
from llm_locust.live.snapshot import LATENCIES, GroupView, Spread
from llm_locust.records.outcomes import Outcome

MOST_CELLS = 200
"""Of one stage; the requests of further pairs of slice and user class are counted together."""
OTHER = "(other)"
"""The slice and user class of those."""

PERCENTS = (50, 95, 99)


class Latency:
    """One latency of one cell."""

    __slots__ = ("buckets", "sketch")

    def __init__(self, name: str) -> None:
        self.buckets = FixedBuckets(BOUNDS_MS[name])
        self.sketch = Sketch(beside=self.buckets.add_many)


class Cell:
    """One slice and user class of one stage."""

    def __init__(self) -> None:
        self.measured = 0
        self.ok = 0
        self.outcomes: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.good = 0
        self.unknown = 0
        """Ok requests of which it cannot be said whether they were good."""
        self.unchecked = 0
        """Ok requests whose reply nobody checked."""
        self.output_tokens = 0
        self.tokens_missing = 0
        """Ok requests without a count."""
        self.latencies: dict[str, Latency] = {}

    def add(
        self, outcome: str, status: str | int | None, verdict: Verdict, tokens: int | None, unchecked: bool
    ) -> None:
        """Count one request."""
        self.measured += 1
        self.outcomes[outcome] += 1
        if status is not None:
            self.statuses[str(status)] += 1
        if outcome != Outcome.OK:
            return
        self.ok += 1
        if verdict is Verdict.GOOD:
            self.good += 1
        elif verdict is Verdict.UNKNOWN:
            self.unknown += 1
        self.unchecked += unchecked
        if tokens is None:
            self.tokens_missing += 1
        else:
            self.output_tokens += tokens

    def time(self, found: Times, gaps_ms: Floats | None) -> None:
        """Add its times."""
        for name, value in zip(Times._fields, found, strict=True):
            if value is not None:
                self._latency(name).add(value)
        if gaps_ms is not None:
            self._latency("itl").add_many(gaps_ms)

    def _latency(self, name: str) -> Sketch:
        latency = self.latencies.get(name)
        if latency is None:
            latency = self.latencies[name] = Latency(name)
        return latency.sketch


def merged(cells: Iterable[Cell], name: str) -> Sketch:
    """One latency of several cells, to look at only: of a single cell it is that one's own."""
    found = [cell.latencies[name].sketch for cell in cells if name in cell.latencies]
    if len(found) == 1:
        return found[0]
    together = Sketch()
    for sketch in found:
        together.merge(sketch)
    return together


def group_view(
    cells: Sequence[Cell],
    slice_: str | None,
    user: str | None,
    *,
    seconds: float | None,
    has_limits: bool,
    checked: bool,
) -> GroupView:
    """What is shown of some cells together.

    Args:
        cells: The cells.
        slice_: Their slice, ``None`` for all.
        user: Their user class, ``None`` for all.
        seconds: Of the window that have passed.
        has_limits: Whether any per-request limit was chosen.
        checked: The quality of replies is no limit, or the reply of some request of the stage was checked.
    """
    outcomes: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    for cell in cells:
        outcomes += cell.outcomes
        statuses += cell.statuses
    measured, ok = sum(cell.measured for cell in cells), sum(cell.ok for cell in cells)
    said = has_limits and not any(cell.unknown or (cell.unchecked and not checked) for cell in cells)
    good = sum(cell.good for cell in cells) if said else None
    latencies: dict[str, Spread] = {}
    for name in LATENCIES:
        if (spread := _spread(cells, name)) is not None:
            latencies[name] = spread
    return GroupView(
        slice=slice_,
        user=user,
        measured=measured,
        ok=ok,
        failed=measured - ok,
        outcomes=dict(outcomes),
        status_counts=dict(sorted(statuses.items())),
        good=good,
        attainment=_over(good, measured),
        error_rate=_over(measured - ok, measured),
        seconds=seconds,
        throughput_rps=_over(ok, seconds),
        goodput_rps=_over(good, seconds),
        output_tokens=(
            sum(cell.output_tokens for cell in cells) if ok and not any(cell.tokens_missing for cell in cells) else None
        ),
        latencies=latencies,
    )


def group_buckets(cells: Sequence[Cell], stage: int, slice_: str | None, user: str | None) -> GroupBuckets:
    """The histograms of some cells together."""
    latencies: dict[str, Buckets] = {}
    for name in LATENCIES:
        found = [cell.latencies[name] for cell in cells if name in cell.latencies]
        for latency in found:
            latency.sketch.settle()
        if (together := added(latency.buckets.view() for latency in found)) is not None:
            latencies[name] = together
    return GroupBuckets(stage=stage, slice=slice_, user=user, latencies=latencies)


Key = tuple[str | None, str]


def groupings(keys: Sequence[Key]) -> list[tuple[str | None, str | None, list[Key]]]:
    """The groups to show of cells of these slices and user classes: (slice, user class, its cells).

    First all together, then each slice, then each user class, and each pair where there is more than one of both.
    """
    slices = sorted({slice_ for slice_, _ in keys if slice_ is not None})
    users = sorted({user for _, user in keys})
    found: list[tuple[str | None, str | None, list[Key]]] = [(None, None, list(keys))]
    found += [(slice_, None, [key for key in keys if key[0] == slice_]) for slice_ in slices]
    found += [(None, user, [key for key in keys if key[1] == user]) for user in users]
    if len(slices) > 1 and len(users) > 1:
        found += [(slice_, user, [(slice_, user)]) for slice_, user in sorted((s, u) for s, u in keys if s is not None)]
    return found


def _spread(cells: Sequence[Cell], name: str) -> Spread | None:
    sketch = merged(cells, name)
    if not sketch.count:
        return None
    p50, p95, p99 = sketch.percentiles(PERCENTS)
    return Spread(count=sketch.count, p50=p50, p95=p95, p99=p99, mean=sketch.mean, max=sketch.max)


def _over(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole
