"""What every process of a run must agree on: written by the master, sent to the workers before the first stage."""

from __future__ import annotations

from typing import Any

import msgspec

API_KEY_VARIABLES = ("LLM_LOCUST_API_KEY", "OPENAI_API_KEY")
"""Where the key is looked for on each machine, in this order, unless ``--api-key-env`` names another variable."""


class UserChoice(msgspec.Struct, frozen=True, kw_only=True):
    """One user class and its share of the arrivals."""

    name: str
    weight: float


class WorkloadSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where the prompts come from; the digest lets every worker prove that it has the same ones."""

    prompts_file: str | None = None
    """A JSONL file of prompts; ``None`` for the built-in synthetic prompts."""
    trace_file: str | None = None
    """A trace whose rows the prompts are made for, where there is no file of prompts."""
    trace_format: str | None = None
    """``None``: as its first line looks."""
    seed: int
    max_tokens: int
    """Output limit of a request whose prompt brings none of its own."""
    sha256: str = ""


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One run, as a worker needs to know it. Holds no secrets: keys are read from each worker's own environment."""

    run_id: str
    folder: str
    """The run folder's path, as seen by the master; a worker on another machine makes its own."""
    host: str
    model: str | None
    deadline_s: float
    """The whole-request deadline, from ``sent``; also the longest time an arrival is held back by the cap."""
    max_in_flight: int | None
    """Requests in flight over all workers; ``None`` for no cap."""
    users: list[UserChoice]
    workload: WorkloadSpec
    streaming: bool = True
    """``False`` asks for whole replies: there is no TTFT or TPOT then."""
    api_key_env: str | None = None
    """The environment variable that holds the key on each worker; ``None`` for the usual ones."""
    headers: list[tuple[str, str]] = []
    """Further headers, as the person gave them: a value ``@env:NAME`` is read on each worker."""
    extra_body: dict[str, Any] = {}
    """Fields put into every request's body, over what the user class says."""
    ca_file: str | None = None
    """PEM certificates to trust instead of the system's, at this path on every worker."""
    insecure: bool = False
    """The server's certificate is not verified."""


def request_id(run_id: str, index: int) -> str:
    """The id of an arrival, sent as ``X-Request-Id``: a function of run and index, whichever worker sends it."""
    return f"{run_id}.{index}"
