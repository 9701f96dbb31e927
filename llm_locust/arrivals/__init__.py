"""When to send: arrival processes and stage plans as pure functions of (specification, seed)."""

from llm_locust.arrivals.burstiness import bin_counts, dispersion, gap_cv
from llm_locust.arrivals.naming import mean_rate, parse_process, process_name
from llm_locust.arrivals.plan import PHASES, StagePlan, plan_stage
from llm_locust.arrivals.processes import PROCESSES, Parameter, Process, ProcessKind

__all__ = [
    "PHASES",
    "PROCESSES",
    "Parameter",
    "Process",
    "ProcessKind",
    "StagePlan",
    "bin_counts",
    "dispersion",
    "gap_cv",
    "mean_rate",
    "parse_process",
    "plan_stage",
    "process_name",
]
