"""A stage: one test point of a run, as a specification that plan, workers and judgement all read."""

from __future__ import annotations

from typing import Literal

import msgspec

NS_PER_S = 1_000_000_000

ArrivalMode = Literal["open", "closed"]

TRACE = "trace"
"""What a stage that replays a trace has for its arrival process."""


class TraceReplay(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of which trace is played again, and how."""

    path: str
    """The file, at this path on every worker."""
    format: str
    """The trace format by its name."""
    sha256: str
    """Of the file's bytes."""
    time_scale: float = 1.0
    """Duration of the replay over that of the trace: 0.1 is ten times as fast."""
    rate_scale: float = 1.0
    """Arrivals of the replay over those of the trace."""
    start_s: float | None = None
    """The slice, in seconds of the trace's own time; ``None`` for its first row."""
    end_s: float | None = None
    """``None`` for its end."""
    jitter: bool = False
    """Arrivals are moved inside the trace's time resolution."""


class StageSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One rate, one concurrency or one replay. The open plan is a pure function of this specification (and its trace)."""

    stage: int
    """Its number in the run, from 0."""
    round: int = 0
    """Which repetition of its point this is; each has arrivals and prompts of its own."""
    mode: ArrivalMode = "open"
    """``open``: arrivals do not wait for the server; ``closed``: a fixed number of requests is kept in flight."""
    rate_rps: float | None = None
    """Offered arrival rate in requests per second: the mean over the window, but for ramps, where it is the rate at the
    start; ``None`` for a closed loop."""
    arrivals: str = "poisson"
    """The arrival process by its canonical name, parameters included, or ``trace``; meaningless for a closed loop."""
    replay: TraceReplay | None = None
    """What is played again; ``None`` unless ``arrivals`` is ``trace``."""
    concurrency: int | None = None
    """Requests kept in flight by a closed loop; ``None`` for open arrivals."""
    by_users: bool = False
    """The closed loop is made by Locust's own users, as many as there are, and not by the stage."""
    warmup_s: float
    """Seconds before the window."""
    window_s: float | None
    """The measurement window; ``None`` for a stage of so many requests, or a closed loop that lasts until it is stopped."""
    requests: int | None = None
    """Measured requests after which the window ends; ``None`` for a window of set length."""
    cooldown_s: float
    """The longest cool-down; it ends as soon as the window's batch has ended."""
    seed: int
    """The run's seed; the stage and round are mixed in by the arrival process."""
    first_index: int
    """The index of this stage's first arrival: indices are unique in the run."""
    conversations: bool = False
    """Every arrival begins a conversation, whose next turns come beside the plan: the rate is that of conversations."""
    prompts_from: int | None = None
    """The measured requests take the workload's prompts from this one on, as other stages with the same number do;
    ``None``: prompts of their own."""
    idle_before_s: float = 0.0
    """Nothing is sent for so long before the stage begins."""
    unload_before: bool = False
    """The server is asked to unload the model before the stage begins."""
    cold_share: float | None = None
    """The share of open arrivals that are to find the model unloaded; ``None``: nothing is done about it."""

    @property
    def label(self) -> str:
        """How a table names the stage: its arrival mode is part of the name."""
        parts = (
            ("closed", f"C={self.concurrency}")
            if self.mode == "closed"
            else ("open", f"{self.rate_rps:.4g}{' conversations' if self.conversations else ''}/s", self.arrivals)
        )
        return " ".join([*parts, self.condition] if self.condition else parts)

    @property
    def condition(self) -> str | None:
        """What sets the stage apart from others of its rate or concurrency: the state of the server that it meets."""
        if self.unload_before:
            return "after unloading"
        if self.idle_before_s:
            return f"after {self.idle_before_s:g} s idle"
        return f"with {self.cold_share:.3g} cold" if self.cold_share else None
