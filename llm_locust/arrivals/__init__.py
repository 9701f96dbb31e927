"""When to send: arrival processes and stage plans as pure functions of (specification, seed)."""

from llm_locust.arrivals.plan import PHASES, StagePlan, plan_stage
from llm_locust.arrivals.processes import PROCESSES

__all__ = ["PHASES", "PROCESSES", "StagePlan", "plan_stage"]
