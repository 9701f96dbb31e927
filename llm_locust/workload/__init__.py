"""What to send: prompts, named and hashed."""

from llm_locust.workload.loading import fixed, load_workload, workload_of
from llm_locust.workload.prompts import Message, Prompt, PromptsFile, SyntheticPrompts, Workload
from llm_locust.workload.trace_prompts import TracePrompts

__all__ = [
    "Message",
    "Prompt",
    "PromptsFile",
    "SyntheticPrompts",
    "TracePrompts",
    "Workload",
    "fixed",
    "load_workload",
    "workload_of",
]
