"""One worker, by its newest report."""

from __future__ import annotations

from llm_locust.live.snapshot import WorkerView
from llm_locust.live.stage import Report
from llm_locust.records.manifest import StageWorker

NS_PER_MS = 1_000_000


class LiveWorker:
    """What is known of one worker in a run.

    Args:
        number: The ``k`` of ``worker-<k>.csv``.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self.member: StageWorker | None = None
        """As it takes part in the newest stage."""
        self.report: Report | None = None
        self.at_s = 0.0
        """When the report came."""

    def view(self, now_s: float) -> WorkerView:
        """The worker now."""
        member, report = self.member, self.report
        clock = member.clock_start if member is not None else None
        lost = member is not None and member.lost
        return WorkerView(
            worker=self._number,
            host=member.host if member is not None else "",
            lost=(member.lost_reason or "no reason recorded") if member is not None and lost else None,
            age_s=max(now_s - self.at_s, 0.0) if report is not None else None,
            cpu_percent=report.cpu_percent if report is not None else None,
            loop_lag_ms=report.loop_lag_ms if report is not None else None,
            clock_uncertainty_ms=clock.uncertainty_ns / NS_PER_MS if clock is not None else None,
            sent=report.sent if report is not None else 0,
            in_flight=report.in_flight if report is not None else 0,
            waiting=report.waiting if report is not None else 0,
            failures_in_a_row=report.failures_in_a_row if report is not None else 0,
            last_failure=report.last_failure if report is not None else None,
        )
