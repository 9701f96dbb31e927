"""Client and server do not count the same."""

from __future__ import annotations

from collections.abc import Iterator

from llm_locust.analysis.diagnosis.case import Case
from llm_locust.records.diagnosis import Finding

_NEXT = {
    "requests": "Make sure that nobody else uses the server (and that one server answers all), and run the same again",
    "prompt_tokens": "Send one prompt of known text alone, and compare usage.prompt_tokens with the server's counter: "
    "a chat template or a begin token is counted by one of the two",
    "output_tokens": "Send one request with a fixed output length alone, and compare usage.completion_tokens with the "
    "server's counter: hidden reasoning or speculative tokens are counted by one of the two",
}


def counts_disagree(case: Case) -> Iterator[Finding]:
    """The server's counters differ from the client's records by more than they may, over the whole run."""
    agreement = case.summary.agreement
    if agreement is None or not agreement.differences:
        return
    read = [stage.summary.server for stage in case.stages if stage.summary.server is not None]
    starts = [server.counters_from_ns for server in read if server.counters_from_ns is not None]
    ends = [server.counters_to_ns for server in read if server.counters_to_ns is not None]
    between = [at for at in (min(starts, default=None), max(ends, default=None)) if at is not None]
    yield Finding(
        rule="counts_disagree",
        title="Client and server do not count the same",
        where="workload",
        confidence="shown",
        evidence=[difference.text for difference in agreement.differences],
        samples_ns=between,
        vary_next=[_NEXT[difference.name] for difference in agreement.differences if difference.name in _NEXT],
    )
