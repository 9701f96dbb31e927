"""What all stages of a run share on one worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from llm_locust.dispatch.recorder import Recorder
from llm_locust.records import Clock, RequestRecord
from llm_locust.records.run import RunSpec
from llm_locust.streaming import Reply, StreamClient, StreamRequest
from llm_locust.workload import Prompt, Workload

CLOSED_STRIDE = 1000
"""Closed loops have no plan to number arrivals by: worker k numbers its own k, k + 1000, k + 2000, ..."""


class RequestBuilder(Protocol):
    """Turns a prompt into a request: a user class, seen from here."""

    def build_request(self, prompt: Prompt, request_id: str, evict_after: bool = False) -> StreamRequest:
        """The request to send for this prompt; ``evict_after`` has the model unloaded once it has ended."""
        ...

    @property
    def checks(self) -> bool:
        """Its replies are to be checked for quality."""
        ...

    def check(self, prompt: Prompt, reply: Reply) -> bool | None:
        """Whether a finished reply is good enough; ``None``: not checked."""
        ...


Observe = Callable[[RequestRecord, Reply | None, RequestBuilder], None]
"""Told of every terminal record (with the reply, where one was attempted)."""


class WorkerRun(msgspec.Struct, kw_only=True):
    """What all stages of a run share on one worker."""

    spec: RunSpec
    worker: int
    clock: Clock
    workload: Workload
    client: StreamClient
    recorder: Recorder
    builders: dict[str, RequestBuilder]
    """One per user class, for open arrivals."""
    observe: Observe
    stride: int
    """1 when this is the only worker, else :data:`CLOSED_STRIDE`."""


def share(total: int | None, rank: int, of: int) -> int | None:
    """This worker's part of a cap or budget; the parts of all workers add up to it."""
    if total is None:
        return None
    return total // of + (1 if rank < total % of else 0)
