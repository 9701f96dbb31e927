"""Making a stage's plan inside a process that must go on answering."""

from __future__ import annotations

from collections.abc import Sequence

import gevent
import msgspec

from llm_locust.arrivals import StagePlan, plan_of
from llm_locust.records import StageSpec, UsageError
from llm_locust.records.run import UserChoice


def plan_here(spec: StageSpec, users: Sequence[UserChoice]) -> StagePlan:
    """The plan of an open stage. A trace, of millions of rows perhaps, is read in a thread: heartbeats must go on.

    Raises:
        UsageError: the trace cannot be replayed here.
    """
    if spec.replay is None:
        return plan_of(spec, users)
    plan: StagePlan = gevent.get_hub().threadpool.apply(plan_of, (spec, users))
    return plan


def as_workers_read_it(spec: StageSpec) -> StageSpec:
    """The stage after its way over the line: a rate of 5 is 5.0 there, and the plan's digest would tell them apart.

    Raises:
        UsageError: a value is not of its kind; a shape is a person's own code, and nobody has checked it.
    """
    try:
        return msgspec.convert(msgspec.to_builtins(spec), StageSpec)
    except msgspec.ValidationError as error:
        raise UsageError(f"the shape yields a stage with a wrong value: {error}") from None
