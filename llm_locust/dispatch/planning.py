"""Making a stage's plan inside a process that must go on answering."""

from __future__ import annotations

from collections.abc import Sequence

import gevent

from llm_locust.arrivals import StagePlan, plan_of
from llm_locust.records import StageSpec
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
