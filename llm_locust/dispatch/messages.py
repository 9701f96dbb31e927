"""What master and workers say to each other, as typed payloads.

Locust carries messages as msgpack, so a payload travels as plain builtins. Names begin with ``llm_``; the direction is in
the comment. Every handler returns at once: a local run delivers messages by a direct call.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from llm_locust.records import StageSpec
from llm_locust.records.run import RunSpec


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """Master to all: who is there? Answered by :class:`Here`."""

    TYPE: ClassVar[str] = "llm_hello"
    roll_call: int


class Here(msgspec.Struct, frozen=True, kw_only=True):
    """Worker to master: I am."""

    TYPE: ClassVar[str] = "llm_here"
    roll_call: int
    worker: int
    host: str
    pid: int


class Ping(msgspec.Struct, frozen=True, kw_only=True):
    """Master to one worker: what is your time?"""

    TYPE: ClassVar[str] = "llm_ping"
    serial: int


class Pong(msgspec.Struct, frozen=True, kw_only=True):
    """Worker to master: this is."""

    TYPE: ClassVar[str] = "llm_pong"
    serial: int
    worker_ns: int


class OpenRun(msgspec.Struct, frozen=True, kw_only=True):
    """Master to all: a run begins."""

    TYPE: ClassVar[str] = "llm_open_run"
    run: RunSpec


class PrepareStage(msgspec.Struct, frozen=True, kw_only=True):
    """Master to one worker: make this stage's plan; answered by :class:`Prepared`."""

    TYPE: ClassVar[str] = "llm_prepare_stage"
    spec: StageSpec
    rank: int
    of: int
    max_requests: int | None = None
    """This worker's share of what may still be sent; ``None`` for no budget."""
    max_output_tokens: int | None = None
    """This worker's share of what may still be generated, in tokens."""


class Preparing(msgspec.Struct, frozen=True, kw_only=True):
    """Worker to master: how many of the stage's prompts are made, when making them takes its time."""

    TYPE: ClassVar[str] = "llm_preparing"
    stage: int
    made: int
    of: int


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """Worker to master: the plan's digest and where the target was found, or why there is none."""

    TYPE: ClassVar[str] = "llm_prepared"
    stage: int
    plan_sha256: str | None
    addresses: list[str] = []
    error: str | None = None


class StartStage(msgspec.Struct, frozen=True, kw_only=True):
    """Master to one worker: the stage starts at this instant of your clock."""

    TYPE: ClassVar[str] = "llm_start_stage"
    stage: int
    start_ns: int


class OpenWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Master to one worker: the window of a closed stage begins at this instant of your clock."""

    TYPE: ClassVar[str] = "llm_open_window"
    stage: int
    start_ns: int


class EndArrivals(msgspec.Struct, frozen=True, kw_only=True):
    """Master to all: no more arrivals. Cool-down ones are withdrawn, the others end as ``not_sent`` for this reason."""

    TYPE: ClassVar[str] = "llm_end_arrivals"
    stage: int
    reason: str | None
    """``None`` at the regular end of a cool-down."""


class CancelInFlight(msgspec.Struct, frozen=True, kw_only=True):
    """Master to all: do not wait for what is in flight; it ends as ``cancelled``."""

    TYPE: ClassVar[str] = "llm_cancel"
    stage: int


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Worker to master, twice a second and at turning points: how far the stage is, and the generator's own health."""

    TYPE: ClassVar[str] = "llm_progress"
    stage: int
    """Number of the stage in its run, from 0."""
    at_ns: int
    """When it was written, Unix nanoseconds on the worker's clock."""
    due: int
    """Arrivals whose planned time has passed."""
    sent: int
    """Requests issued so far."""
    in_flight: int
    """Requests sent and not ended."""
    waiting: int
    """Taken up, but held back by the cap."""
    ok: int
    """Requests that ended with outcome ``ok``."""
    failed: int
    """Requests that ended with any other outcome."""
    batch_left: int
    """Arrivals of the measurement window without an outcome yet."""
    output_tokens: int
    """Generated so far in this stage; a reply whose count is unknown, or not there yet, counts with its limit."""
    failures_in_a_row: int
    """Failures since the last ``ok`` of this stage; who left as planned is none."""
    last_failure: str | None
    """Outcome and error of the last one; ``None``: none yet."""
    stop: str | None
    """Why this worker wants the run to end: a spent budget, a disk that is full."""
    cpu_percent: float | None
    """Of the worker's process since the last report, 100 is one core; ``None``: not measured."""
    loop_lag_ms: float | None
    """The worst lateness of a 100 ms timer since the last report: what a busy event loop adds to everything."""
    clock_steps: int = 0
    """How often in this stage a step of the wall clock made reads take user time instead of the kernel's."""


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """Worker to master: CSV lines, as they stand in the worker's own file. Answered by :class:`Ack`."""

    TYPE: ClassVar[str] = "llm_rows"
    run_id: str
    worker: int
    serial: int
    issued: bool
    lines: str


class Ack(msgspec.Struct, frozen=True, kw_only=True):
    """Master to one worker: rows up to this serial are on disk."""

    TYPE: ClassVar[str] = "llm_ack"
    serial: int


class StageDone(msgspec.Struct, frozen=True, kw_only=True):
    """Worker to master: every request of the stage has ended and every row is acknowledged."""

    TYPE: ClassVar[str] = "llm_stage_done"
    stage: int
    taken: int
    """Of its share of the plan; of a closed loop, all."""
    follow_ups: int = 0
    """Requests beyond the plan: the next turns of conversations."""
    wall_step_ns: int
    clock_steps: int = 0
    """As in :class:`Progress`, of the whole stage."""
    error: str | None = None


class CloseRun(msgspec.Struct, frozen=True, kw_only=True):
    """Master to all: the run is over."""

    TYPE: ClassVar[str] = "llm_close_run"
    run_id: str
