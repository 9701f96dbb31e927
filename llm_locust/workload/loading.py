"""The workload that a run asks for, and the proof that a worker has the same one."""

from __future__ import annotations

import msgspec

from llm_locust.arrivals.stage_replay import load_trace
from llm_locust.records import UsageError
from llm_locust.records.run import WorkloadSpec
from llm_locust.workload.prompts import PromptsFile, SyntheticPrompts, Workload
from llm_locust.workload.trace_prompts import TracePrompts


def load_workload(spec: WorkloadSpec) -> Workload:
    """The workload that is asked for: a prompts file, else a trace's rows, else made-up prompts.

    Raises:
        UsageError: a file is unusable.
    """
    if spec.prompts_file is not None:
        return PromptsFile(spec.prompts_file, spec.max_tokens)
    if spec.trace_file is not None:
        trace = load_trace(spec.trace_file, spec.trace_format)
        return TracePrompts(trace, seed=spec.seed, max_tokens=spec.max_tokens)
    return SyntheticPrompts(spec.seed, spec.max_tokens)


def fixed(spec: WorkloadSpec, workload: Workload) -> WorkloadSpec:
    """The specification with the digest of what it was found to be."""
    return msgspec.structs.replace(spec, sha256=workload.facts.sha256)


def workload_of(spec: WorkloadSpec) -> Workload:
    """The workload of a run, made again on a worker and proven to be the same.

    Raises:
        UsageError: this process's prompts are not those of the master.
    """
    workload = load_workload(spec)
    if workload.facts.sha256 != spec.sha256:
        named = spec.prompts_file or spec.trace_file or "the synthetic workload"
        raise UsageError(
            f"{named} is not the same here as on the master "
            f"(SHA-256 {workload.facts.sha256[:12]} against {spec.sha256[:12]}): copy the master's file to this machine"
        )
    return workload
