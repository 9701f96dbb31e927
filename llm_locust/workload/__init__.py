"""What to send: prompts, named and hashed."""

from llm_locust.workload.loading import SOURCES, fixed, load_workload, needs_counting, workload_of
from llm_locust.workload.made_up import MadeUpPrompts, SyntheticPrompts
from llm_locust.workload.mix import Mix
from llm_locust.workload.prompt import Message, Prompt, Workload
from llm_locust.workload.prompts_file import PromptsFile
from llm_locust.workload.sessions import SessionPlan
from llm_locust.workload.sharegpt import ShareGPTFile
from llm_locust.workload.trace_prompts import TracePrompts

__all__ = [
    "SOURCES",
    "MadeUpPrompts",
    "Message",
    "Mix",
    "Prompt",
    "PromptsFile",
    "SessionPlan",
    "ShareGPTFile",
    "SyntheticPrompts",
    "TracePrompts",
    "Workload",
    "fixed",
    "load_workload",
    "needs_counting",
    "workload_of",
]
