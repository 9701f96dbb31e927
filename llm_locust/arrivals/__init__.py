"""When to send: arrival processes and stage plans as pure functions of (specification, seed)."""

from llm_locust.arrivals.burstiness import bin_counts, dispersion, gap_cv
from llm_locust.arrivals.leaving import leaves
from llm_locust.arrivals.naming import is_steady, mean_rate, parse_process, process_name
from llm_locust.arrivals.plan import PHASES, REPLAY_STREAM, StagePlan, plan_stage, stream
from llm_locust.arrivals.processes import PROCESSES, Parameter, Process, ProcessKind
from llm_locust.arrivals.stage_replay import load_trace, plan_of, replay_of

__all__ = [
    "PHASES",
    "PROCESSES",
    "REPLAY_STREAM",
    "Parameter",
    "Process",
    "ProcessKind",
    "StagePlan",
    "bin_counts",
    "dispersion",
    "gap_cv",
    "is_steady",
    "leaves",
    "load_trace",
    "mean_rate",
    "parse_process",
    "plan_of",
    "plan_stage",
    "process_name",
    "replay_of",
    "stream",
]
