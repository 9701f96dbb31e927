"""The trace of a stage, read once per process and proven to be the file that the stage was planned with."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache

from llm_locust.arrivals.plan import REPLAY_STREAM, StagePlan, plan_stage, stream
from llm_locust.arrivals.traces import Replay, Trace, read_trace, replay
from llm_locust.records import StageSpec, UsageError
from llm_locust.records.run import UserChoice


def load_trace(path: str, format_name: str | None) -> Trace:
    """The trace in a file, from memory where it was read before and has not changed since.

    Raises:
        UsageError: the file cannot be read as a trace.
    """
    try:
        found = os.stat(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    return _read(path, format_name, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=2)
def _read(path: str, format_name: str | None, _changed_ns: int, _size: int) -> Trace:
    return read_trace(path, format_name)


def replay_of(spec: StageSpec) -> Replay | None:
    """What the stage plays again; ``None`` for a stage without a trace.

    Raises:
        UsageError: the file here is not the one that the stage names, or its slice is empty.
    """
    asked = spec.replay
    if asked is None:
        return None
    trace = load_trace(asked.path, asked.format)
    if trace.sha256 != asked.sha256:
        raise UsageError(
            f"{asked.path} is not the same here as on the master (SHA-256 {trace.sha256[:12]} against "
            f"{asked.sha256[:12]}): copy the master's file to this machine"
        )
    return replay(
        trace,
        time_scale=asked.time_scale,
        rate_scale=asked.rate_scale,
        start_s=asked.start_s,
        end_s=asked.end_s,
        jitter_ns="resolution" if asked.jitter else 0,
        random=stream(spec, REPLAY_STREAM),
    )


def plan_of(spec: StageSpec, users: Sequence[UserChoice]) -> StagePlan:
    """The plan of an open stage, with its trace read where it has one.

    Raises:
        UsageError: the trace cannot be replayed here.
    """
    return plan_stage(spec, users, replay_of(spec))
