"""The nine figures of a smoke test's short run, under names that do not change."""

from __future__ import annotations

import msgspec

from llm_locust.records.figures import Figure
from llm_locust.records.stage_summary import StageSummary


class SmokeFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one stage's batch, from its summary; ``None`` is not measured, never 0.

    They show that the figures can be made, and nothing else: a few short requests at a low rate.
    """

    success: int | None = None
    """Requests that came out ok."""
    failed: int | None = None
    """All others of the batch."""
    request_throughput_rps: float | None = None
    """ok / seconds of the window."""
    output_token_throughput_per_s: float | None = None
    """Output tokens of ok requests / seconds of the window."""
    goodput_requests: int | None = None
    """ok requests that met every chosen limit; ``None`` when none was chosen."""
    request_goodput_rps: float | None = None
    """... / seconds of the window."""
    ttft_p95_ms: Figure = None
    tpot_p95_ms: Figure = None
    e2e_p95_ms: Figure = None

    @staticmethod
    def of(stage: StageSummary) -> SmokeFigures:
        """The figures of a judged stage."""

        def p95(name: str) -> Figure:
            found = stage.percentiles.get(f"{name}_p95_ms")
            return None if found is None else found.value

        return SmokeFigures(
            success=stage.successful,
            failed=stage.failed,
            request_throughput_rps=stage.request_throughput_rps,
            output_token_throughput_per_s=stage.output_throughput_tps,
            goodput_requests=stage.good_requests,
            request_goodput_rps=stage.goodput_rps,
            ttft_p95_ms=p95("ttft"),
            tpot_p95_ms=p95("tpot"),
            e2e_p95_ms=p95("e2e"),
        )
