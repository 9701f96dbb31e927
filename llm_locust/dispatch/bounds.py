"""How much a run may cost before it ends by itself: requests, tokens, minutes, and failures in a row."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from llm_locust.dispatch.messages import Progress


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Budgets of a whole run; ``None`` is no budget."""

    max_requests: int | None = None
    max_output_tokens: int | None = None
    max_minutes: float | None = None
    failures_in_a_row: int | None = 20
    """The circuit breaker: a stage in which nothing works any more ends after this many failures."""

    def left(self, sent: int, output_tokens: int) -> Bounds:
        """What is left for the next stage after so much was used."""
        return msgspec.structs.replace(
            self,
            max_requests=None if self.max_requests is None else max(self.max_requests - sent, 0),
            max_output_tokens=(
                None if self.max_output_tokens is None else max(self.max_output_tokens - output_tokens, 0)
            ),
        )


def broken_circuit(reports: Collection[Progress], limit: int | None) -> str | None:
    """Why the stage should end because everything fails; ``None`` while anything works.

    Each worker knows its own streak. Together they have failed ``limit`` times in a row once the streaks add up to it and
    no worker that has seen an end saw a good one last.
    """
    ended = [report for report in reports if report.ok + report.failed > 0]
    streak = sum(report.failures_in_a_row for report in ended)
    if limit is None or not ended or streak < limit or any(report.failures_in_a_row == 0 for report in ended):
        return None
    last = next((report.last_failure for report in ended if report.last_failure), None)
    return f"{streak} requests in a row failed, the last with {last}"
