"""Is the load generator keeping up in a stage? The merge judges it from all rows; this warns while something can be done.

What is looked at, and by which bounds, is what the merge looks at (``llm_locust.analysis.generator``, which loads pandas and
so has no place in a process that makes load).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from llm_locust.live.request import Ended, Times
from llm_locust.live.snapshot import GeneratorView
from llm_locust.records.generator_bounds import (
    MAX_FIRST_COALESCED_SHARE,
    MIN_DISPATCHED_SHARE,
    ONE_IS_NO_SHARE,
    lag_bound_ms,
    too_many_late,
)
from llm_locust.records.manifest import StageManifest
from llm_locust.records.outcomes import Outcome


class GeneratorWatch:
    """What is known of the generator in one stage.

    Args:
        slo: The chosen limits.
        closed: Whether the stage is a closed loop, in which nothing is planned that could be late.
    """

    def __init__(self, slo: Mapping[str, float], *, closed: bool) -> None:
        self.bound_ms = lag_bound_ms(slo)
        self._closed = closed
        self._planned = 0
        self._dispatched = 0
        self._lags = 0
        self._late = 0
        self._told = 0
        self._coalesced = 0
        self._errors = 0

    def add(self, of: Ended, found: Times, *, measured: bool, first_coalesced: bool | int | None) -> None:
        """Look at one request; our own errors count in every phase, all else in the window."""
        if of.outcome == Outcome.GENERATOR_ERROR:
            self._errors += 1
        if not measured:
            return
        if of.planned_ns is not None:
            self._planned += 1
            self._dispatched += of.dispatched_ns is not None
        if found.dispatch_lag is not None:
            self._lags += 1
            self._late += found.dispatch_lag > self.bound_ms
        if first_coalesced is not None:
            self._told += 1
            self._coalesced += bool(first_coalesced)

    def view(
        self,
        record: StageManifest,
        lag_p99_ms: float | None,
        cpu_percents: Iterable[float | None],
        loop_lags_ms: Iterable[float | None],
    ) -> GeneratorView:
        """The generator now.

        Args:
            record: The stage, with its workers.
            lag_p99_ms: Of the measured requests so far.
            cpu_percents: Of each worker, in its newest report.
            loop_lags_ms: The same.
        """
        lost = [worker for worker in record.workers if worker.lost]
        warnings = [*self._of_requests(lag_p99_ms), *_of_clocks(record, self.bound_ms)]
        warnings += [f"worker {w.worker} was lost: {w.lost_reason or 'no reason recorded'}" for w in lost]
        seen = self._told or self._lags
        return GeneratorView(
            keeps_up=False if warnings else True if seen else None,
            warnings=warnings,
            dispatch_lag_p99_ms=None if self._closed else lag_p99_ms,
            lag_bound_ms=None if self._closed else self.bound_ms,
            dispatched=None if self._closed else self._lags,
            late=None if self._closed else self._late,
            first_coalesced_share=self._coalesced / self._told if self._told else None,
            lost_workers=[worker.worker for worker in lost],
            cpu_percent_max=max((cpu for cpu in cpu_percents if cpu is not None), default=None),
            loop_lag_ms_max=max((lag for lag in loop_lags_ms if lag is not None), default=None),
        )

    def _of_requests(self, lag_p99_ms: float | None) -> list[str]:
        found = []
        if not self._closed and self._dispatched < MIN_DISPATCHED_SHARE * self._planned:
            found.append(
                f"only {self._dispatched / self._planned:.2%} of the planned arrivals were dispatched (99 % are needed)"
            )
        if not self._closed and too_many_late(self._late, self._lags):
            found.append(
                f"dispatch was late: {self._late} of {self._lags} arrivals by more than {self.bound_ms:g} ms"
                + (f" (lag P99 {lag_p99_ms:.1f} ms)" if lag_p99_ms is not None else "")
            )
        if self._coalesced >= MAX_FIRST_COALESCED_SHARE * self._told and self._coalesced > ONE_IS_NO_SHARE:
            found.append(
                f"{self._coalesced} of {self._told} first outputs came in one read with later ones: their TTFT is only an "
                "upper bound"
            )
        if self._errors:
            found.append(f"{self._errors} requests failed by the generator's own error")
        return found


def _of_clocks(record: StageManifest, bound_ms: float) -> list[str]:
    known = [w.clock_start.uncertainty_ns / 1e6 for w in record.workers if w.clock_start is not None]
    worst = max(known, default=0.0)
    return [f"the workers' clocks are known to {worst:.1f} ms only, over {bound_ms:g} ms"] if worst > bound_ms else []
