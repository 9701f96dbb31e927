"""Digests: of one request's content, and of a whole workload as the digests of its requests in the order of their index."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from llm_locust.records import UsageError

SAMPLED = 64
"""Requests of an endless workload that enter its digest, after what it is made by."""


def request_digest(content: Any, max_tokens: int, extra: Mapping[str, Any]) -> str:
    """SHA-256 of what is sent: the prompt or messages, the output limit, and further body fields where there are any."""
    parts: list[Any] = [content, max_tokens]
    if extra:
        parts.append(extra)
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()


def workload_digest(requests: Iterable[tuple[int, str]]) -> str:
    """SHA-256 over ``(index, digest)`` of requests, a line ``index digest`` each, in the order of the index.

    The same for any number of workers and any order of their rows. At merge: over the measured rows of a stage, with the
    row's ``index`` and ``prompt_sha256``. A follow-up turn of a session counts by its specification (what the user says in
    all turns so far), since what is sent holds the model's replies.

    Raises:
        ValueError: two different digests for one index.
    """
    digest = hashlib.sha256()
    before: tuple[int, str] | None = None
    for index, sha256 in sorted(set(requests)):
        if before is not None and before[0] == index:
            raise ValueError(f"request {index} has two digests: {before[1]} and {sha256}")
        before = (index, sha256)
        digest.update(f"{index} {sha256}\n".encode())
    return digest.hexdigest()


def check_same_prompts(rows: Iterable[tuple[int, int | None, str]]) -> None:
    """Every row with one prompt number (and turn) must have sent one content: else workers had different prompts.

    Args:
        rows: ``(prompt_index, turn, prompt_sha256)`` of rows that have all three.

    Raises:
        UsageError: two contents under one number; the merge must not go on.
    """
    known: dict[tuple[int, int | None], str] = {}
    for number, turn, sha256 in rows:
        if known.setdefault((number, turn), sha256) != sha256:
            raise UsageError(
                f"prompt {number} was sent with two different contents (SHA-256 {known[(number, turn)][:12]} and "
                f"{sha256[:12]}): the workers did not have the same prompts, and the run cannot be judged; "
                "copy the master's files to every worker, and run again"
            )


def endless_digest(made_by: str, sha256_of: Callable[[int], str]) -> str:
    """The digest of a workload without end: what it is made by, and its first requests as they come out here."""
    sample = workload_digest((index, sha256_of(index)) for index in range(SAMPLED))
    return hashlib.sha256(f"{made_by}\n{sample}\n".encode()).hexdigest()
