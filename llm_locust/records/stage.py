"""A stage: one test point of a run, as a specification that plan, workers and judgement all read."""

from __future__ import annotations

from typing import Literal

import msgspec

NS_PER_S = 1_000_000_000

ArrivalMode = Literal["open", "closed"]


class StageSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One rate, one concurrency or one replay. The open plan is a pure function of this specification."""

    stage: int
    round: int = 0
    mode: ArrivalMode = "open"
    rate_rps: float | None = None
    """Offered arrival rate in requests per second; ``None`` for a closed loop."""
    arrivals: str = "poisson"
    """The arrival process by its registered name; meaningless for a closed loop."""
    concurrency: int | None = None
    """Requests kept in flight by a closed loop; ``None`` for open arrivals."""
    warmup_s: float
    window_s: float | None
    """The measurement window; ``None`` for a closed loop that lasts until it is stopped."""
    cooldown_s: float
    """The longest cool-down; it ends as soon as the window's batch has ended."""
    seed: int
    """The run's seed; the stage and round are mixed in by the arrival process."""
    first_index: int
    """The index of this stage's first arrival: indices are unique in the run."""

    @property
    def label(self) -> str:
        """How a table names the stage: its arrival mode is part of the name."""
        if self.mode == "closed":
            return f"closed C={self.concurrency}"
        return f"open {self.rate_rps:g}/s {self.arrivals}"
