"""One stage while it goes on: what its workers report, what became of its requests, and where it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import msgspec

from llm_locust.live.buckets import GroupBuckets
from llm_locust.live.generator import GeneratorWatch
from llm_locust.live.groups import MOST_CELLS, OTHER, Cell, Key, group_buckets, group_view, groupings, merged
from llm_locust.live.request import Ended, Times, Verdict, judge
from llm_locust.live.sketch import Floats
from llm_locust.live.snapshot import GroupView, Phase, StageView
from llm_locust.records.manifest import StageManifest
from llm_locust.records.outcomes import UNATTEMPTED, Outcome
from llm_locust.records.quality import QUALITY
from llm_locust.records.stage import NS_PER_S

MANY_CELLS = 8
CELL_EVERY_NS = 20_000_000
"""Of more cells, a running stage's groups are put together anew no sooner than after so long for each: a look at 200 takes
some 50 ms, in which nothing is sent where requests are sent by this very process."""


class Report(Protocol):
    """What a worker says of itself twice a second; counts are of the stage so far."""

    @property
    def stage(self) -> int: ...  # noqa: D102 - as the message's
    @property
    def due(self) -> int: ...  # noqa: D102
    @property
    def sent(self) -> int: ...  # noqa: D102
    @property
    def in_flight(self) -> int: ...  # noqa: D102
    @property
    def waiting(self) -> int: ...  # noqa: D102
    @property
    def ok(self) -> int: ...  # noqa: D102
    @property
    def failed(self) -> int: ...  # noqa: D102
    @property
    def failures_in_a_row(self) -> int: ...  # noqa: D102
    @property
    def last_failure(self) -> str | None: ...  # noqa: D102
    @property
    def cpu_percent(self) -> float | None: ...  # noqa: D102
    @property
    def loop_lag_ms(self) -> float | None: ...  # noqa: D102


class Request(Ended, Protocol):
    """A request that has ended, with whose it was."""

    @property
    def stage(self) -> int: ...  # noqa: D102 - as the record's
    @property
    def phase(self) -> str: ...  # noqa: D102
    @property
    def worker(self) -> int: ...  # noqa: D102
    @property
    def user(self) -> str: ...  # noqa: D102
    @property
    def slice(self) -> str | None: ...  # noqa: D102
    @property
    def end_ns(self) -> int | None: ...  # noqa: D102
    @property
    def status(self) -> str | int | None: ...  # noqa: D102
    @property
    def first_coalesced(self) -> bool | int | None: ...  # noqa: D102


class Place(NamedTuple):
    """Where a stage is."""

    phase: Phase
    left_s: float | None
    share: float


class LiveStage:
    """One stage.

    Args:
        record: The stage as its control keeps it: it is read whenever somebody looks, and never changed here.
        slo: The chosen per-request limits.
    """

    def __init__(self, record: StageManifest, slo: Mapping[str, float]) -> None:
        self.record = record
        self._slo = slo
        self._checked = QUALITY not in slo
        self.reports: dict[int, Report] = {}
        """The newest of each worker."""
        self.ended = False
        self.result: str | None = None
        self._cells: dict[Key, Cell] = {}
        self._overflown = False
        self._generator = GeneratorWatch(slo, closed=record.spec.mode == "closed")
        self._window_start_ns = record.window_start_ns
        self._offsets_ns: dict[int, int] = {}
        self._rows = 0
        self._attempted = 0
        self._first_sent_ns: int | None = None
        self._last_end_ns: int | None = None
        self._view: tuple[tuple[object, ...], StageView] | None = None
        self._grouped: list[GroupView] = []
        self._grouped_ns = 0
        self._frozen: tuple[StageView, list[GroupBuckets]] | None = None

    @property
    def cells(self) -> int:
        """How many cells are kept."""
        return len(self._cells)

    @property
    def frozen(self) -> bool:
        """Whether only the figures are kept."""
        return self._frozen is not None

    @property
    def overflown(self) -> bool:
        """Whether there were more slices and user classes than are told apart."""
        return self._overflown

    def offset_ns(self, worker: int) -> int:
        """A worker's clock minus the master's, as measured before the stage; 0 when it was not."""
        if not self._offsets_ns:  # known when the workers are gathered, and the same from then on
            self._offsets_ns = {
                known.worker: known.clock_start.offset_ns
                for known in self.record.workers
                if known.clock_start is not None
            }
        return self._offsets_ns.get(worker, 0)

    def add(self, of: Request, found: Times, gaps_ms: Floats | None) -> Verdict:
        """Count a request that has ended."""
        self._rows += 1
        self._attempted += of.outcome not in UNATTEMPTED
        if of.quality:
            self._checked = True
        verdict = judge(of, found, self._slo)
        measured = self._is_measured(of)
        self._generator.add(of, found, measured=measured, first_coalesced=of.first_coalesced)
        if measured and self._frozen is None:
            cell = self._cell(of.slice, of.user)
            cell.add(of.outcome, of.status, verdict, of.output_tokens, not of.quality and QUALITY in self._slo)
            cell.time(found, gaps_ms if of.outcome == Outcome.OK else None)
            self._note_times(of)
        return verdict

    def view(self, now_ns: int) -> StageView:
        """The stage at an instant of the master's clock."""
        if self._frozen is not None:
            return self._frozen[0]
        key = (self._rows, self.result, self.record.end_ns) if self._is_over else None
        if self._view is not None and key == self._view[0]:
            return self._view[1]
        view = self._build(now_ns)
        self._view = (key, view) if key is not None else None
        return view

    def buckets(self) -> list[GroupBuckets]:
        """The histograms of its groups."""
        if self._frozen is not None:
            return self._frozen[1]
        return [
            group_buckets([self._cells[key] for key in keys], self.record.spec.stage, slice_, user)
            for slice_, user, keys in groupings(list(self._cells))
        ]

    def settle(self) -> None:
        """Keep no values that wait to be put in their buckets."""
        for cell in self._cells.values():
            for latency in cell.latencies.values():
                latency.sketch.settle()

    def freeze(self, now_ns: int) -> None:
        """Keep only what is shown; requests that are told of later are no longer counted."""
        if self._frozen is None:
            self._frozen = self.view(now_ns), self.buckets()
            self._cells.clear()
            self._view = None

    def judged(self, result: str) -> None:
        """The merge has judged it."""
        self.result = result
        if self._frozen is not None:
            view, buckets = self._frozen
            self._frozen = msgspec.structs.replace(view, result=result), buckets

    @property
    def _is_over(self) -> bool:
        return self.ended or self.record.end_ns is not None

    def _is_measured(self, of: Request) -> bool:
        """Whether it is of the batch: open arrivals planned inside the window, closed ones sent inside it, as in the merge.

        Arrivals without such a time, and those of a stage of N requests, are of the phase that their row says.
        """
        record, spec = self.record, self.record.spec
        self._follow_window()
        at_ns = of.planned_ns if spec.mode == "open" and of.planned_ns is not None else of.sent_ns
        if at_ns is None or (spec.requests is not None and record.interrupted is None):
            return of.phase == "measure"
        at_ns -= self.offset_ns(of.worker)
        return record.window_start_ns <= at_ns and (record.window_end_ns is None or at_ns < record.window_end_ns)

    def _follow_window(self) -> None:
        """The window of a closed loop of Locust's users begins when all are there: what ended until then is not of it."""
        if self.record.window_start_ns != self._window_start_ns:
            self._window_start_ns = self.record.window_start_ns
            self._cells.clear()

    def _cell(self, slice_: str | None, user: str) -> Cell:
        cell = self._cells.get((slice_, user))
        if cell is None:
            if len(self._cells) >= MOST_CELLS:
                self._overflown = True
                slice_, user = OTHER, OTHER
            cell = self._cells.setdefault((slice_, user), Cell())
        return cell

    def _note_times(self, of: Request) -> None:
        """First sent and last end are what a closed stage of N requests is divided by."""
        if of.sent_ns is None or of.end_ns is None:
            return
        offset = self.offset_ns(of.worker)
        sent, end = of.sent_ns - offset, of.end_ns - offset
        self._first_sent_ns = sent if self._first_sent_ns is None else min(sent, self._first_sent_ns)
        self._last_end_ns = end if self._last_end_ns is None else max(end, self._last_end_ns)

    def _build(self, now_ns: int) -> StageView:
        self._follow_window()
        record, spec = self.record, self.record.spec
        reports = list(self.reports.values())
        place = where(record, now_ns, over=self._is_over)
        over = place.phase == "done"
        lag_p99 = merged(self._cells.values(), "dispatch_lag").percentile(99)
        return StageView(
            stage=spec.stage,
            round=spec.round,
            label=spec.label,
            mode=spec.mode,
            rate_rps=spec.rate_rps,
            concurrency=spec.concurrency,
            phase=place.phase,
            left_s=place.left_s,
            share=place.share,
            start_s=_seconds(record.start_ns),
            window_start_s=_seconds(record.window_start_ns),
            window_end_s=_seconds(record.window_end_ns),
            end_s=_seconds(record.end_ns),
            interrupted=record.interrupted,
            planned=record.planned if over and record.planned else sum(report.due for report in reports),
            sent=sum(report.sent for report in reports),
            completed=self._attempted
            if over
            else max(self._attempted, sum(report.sent - report.in_flight for report in reports)),
            in_flight=0 if over else sum(report.in_flight for report in reports),
            waiting=0 if over else sum(report.waiting for report in reports),
            generator=self._generator.view(
                record,
                lag_p99,
                (report.cpu_percent for report in reports),
                (report.loop_lag_ms for report in reports),
            ),
            groups=self._groups(now_ns, over=over),
            result=self.result,
        )

    def _groups(self, now_ns: int, *, over: bool) -> list[GroupView]:
        if len(self._cells) > MANY_CELLS and not over and now_ns - self._grouped_ns < CELL_EVERY_NS * len(self._cells):
            return self._grouped
        seconds = self._window_seconds(now_ns)
        of_cells: dict[tuple[Key, ...], GroupView] = {}
        self._grouped, self._grouped_ns = [], now_ns
        for slice_, user, keys in groupings(list(self._cells)):
            view = of_cells.get(tuple(keys))  # where there is one user class, it is all together once more
            if view is None:
                view = of_cells[tuple(keys)] = group_view(
                    [self._cells[key] for key in keys],
                    slice_,
                    user,
                    seconds=seconds,
                    has_limits=bool(self._slo),
                    checked=self._checked,
                )
            self._grouped.append(msgspec.structs.replace(view, slice=slice_, user=user))
        return self._grouped

    def _window_seconds(self, now_ns: int) -> float | None:
        """What rates are divided by: the merge's seconds once the stage is over, until then what has passed of them."""
        record, spec = self.record, self.record.spec
        if not record.start_ns:
            return None
        start, end = record.window_start_ns, record.window_end_ns
        if record.interrupted is not None:
            end = min((at for at in (end, record.arrivals_end_ns) if at is not None), default=None)
        elif spec.requests is not None and record.end_ns is not None and (spec.mode == "closed" or end is None):
            if self._first_sent_ns is None or self._last_end_ns is None:
                return None
            start, end = self._first_sent_ns, self._last_end_ns + 1
        elif end is None:
            end = record.arrivals_end_ns or record.end_ns
        end = now_ns if end is None else min(end, now_ns)
        return (end - start) / NS_PER_S if end > start else None


def where(record: StageManifest, now_ns: int, *, over: bool) -> Place:
    """Phase, seconds until the next one, and the share of warm-up and window that is behind.

    Args:
        record: The stage.
        now_ns: The master's clock.
        over: It has ended, in whatever way.
    """
    if over:
        return Place("done", None, 1.0)
    if not record.start_ns:
        return Place("preparing", None, 0.0)
    if record.arrivals_end_ns is not None:
        return Place("draining", None, 1.0)
    window_end = record.window_end_ns
    share = 0.0
    if window_end is not None:
        share = min(max((now_ns - record.start_ns) / max(window_end - record.start_ns, 1), 0.0), 1.0)
    if now_ns < record.start_ns:
        return Place("preparing", (record.start_ns - now_ns) / NS_PER_S, 0.0)
    if now_ns < record.window_start_ns:
        return Place("warm-up", (record.window_start_ns - now_ns) / NS_PER_S, share)
    if window_end is None:
        return Place("window", None, share)
    if now_ns < window_end:
        return Place("window", (window_end - now_ns) / NS_PER_S, share)
    end_ns = window_end + round(record.spec.cooldown_s * NS_PER_S)
    return Place("cool-down", max(end_ns - now_ns, 0) / NS_PER_S, share)


def _seconds(ns: int | None) -> float | None:
    """Unix seconds; ``None`` for what has not come yet."""
    return ns / NS_PER_S if ns else None
