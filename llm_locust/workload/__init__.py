"""What to send: prompts, named and hashed."""

from llm_locust.workload.prompts import (
    Message,
    Prompt,
    PromptsFile,
    SyntheticPrompts,
    Workload,
    load_workload,
    workload_of,
)

__all__ = ["Message", "Prompt", "PromptsFile", "SyntheticPrompts", "Workload", "load_workload", "workload_of"]
