"""What a reader of another tool's file makes of it, and how its text of a failure becomes an outcome."""

from __future__ import annotations

import http
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from llm_locust.records import Outcome, UsageError
from llm_locust.records.stage import ArrivalMode

NS_PER_S = 1_000_000_000

T = TypeVar("T")


class Document(NamedTuple):
    """A file as JSON."""

    path: Path
    whole: Any
    """The one value it holds; ``None`` for a file of one value a line."""
    lines: Sequence[Any] = ()


class ImportedRequest(msgspec.Struct, kw_only=True):
    """One request as the file tells it. Times are Unix nanoseconds; ``None``: the file does not say."""

    request_id: str | None = None
    phase: str = "measure"
    planned_ns: int | None = None
    sent_ns: int
    first_output_ns: int | None = None
    first_answer_ns: int | None = None
    last_output_ns: int | None = None
    complete_ns: int | None = None
    end_ns: int
    outcome: Outcome
    status: int | None = None
    error: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    output_tokens_source: str | None = None
    cached_tokens: int | None = None
    output_events: int | None = None
    gaps_us: list[int] | None = None
    max_gap_ns: int | None = None


class Printed(NamedTuple):
    """A figure that the tool itself printed, to hold the rows against."""

    words: str
    """``TTFT P99``."""
    value_ms: float
    of: Callable[[ImportedRequest], float | None]
    """The value of one request in milliseconds."""
    statistic: Callable[[Sequence[float]], float]


class ImportedStage(msgspec.Struct, kw_only=True):
    """One load level."""

    mode: ArrivalMode
    rate_rps: float | None = None
    arrivals: str = "poisson"
    """By its canonical name; meaningless for a closed loop."""
    concurrency: int | None = None
    requests: list[ImportedRequest]
    printed: list[Printed] = []


class ImportedRun(msgspec.Struct, kw_only=True):
    """What a file holds."""

    tool: str
    version: str | None = None
    model: str | None = None
    target: str | None = None
    streaming: bool = True
    max_in_flight: int | None = None
    deadline_s: float | None = None
    workload: str = "not told"
    stages: list[ImportedStage]
    lacks: list[str]
    """What the file does not say, as sentences."""


class Format(NamedTuple):
    """One tool's file."""

    name: str
    about: str
    is_one: Callable[[Document], bool]
    read: Callable[[Document], ImportedRun]


RECEIVED = "The receive times are the tool's own, taken when its process got to reading: how late it read is not known."

NO_SERVER = "Nothing of the server (its queue, its caches, its devices) is in the file."

NO_FINISH = "Finish reasons are not in the file: a reply that was cut short may stand as ok."

NO_PLAN = "Planned times are not in the file: client wait, dispatch lag and figures from arrival are not measured."

NO_PROMPTS = (
    "What was sent is not in the file as this project would know it again: the workload has no SHA-256 and counts as "
    "synthetic."
)

BY_TOKENIZER = (
    "Output tokens were counted by {tool}'s tokenizer, or by the server: the file does not say which, so they "
)
BY_TOKENIZER += "are not taken for the server's."


def converted(document: Document, value: Any, kind: type[T], what: str, line: int | None = None) -> T:
    """A JSON value as the fields that are read of it.

    Raises:
        UsageError: a field is missing, or of another type; file, line and field are named.
    """
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        where = f"{document.path}, line {line}" if line is not None else f"{document.path}"
        raise UsageError(f"{where}: not {what} as this version reads it: {error}") from None


_PHRASES = {status.phrase.lower(): int(status) for status in http.HTTPStatus if status >= 400}

_STATUS = re.compile(r"(?:http|status|code|error|response)\W*(?:code\W*|status\W*)?\b([45]\d\d)\b", re.IGNORECASE)

_KINDS: tuple[tuple[re.Pattern[str], Outcome], ...] = (
    (re.compile(r"out[\s_-]*of[\s_-]*memory|\boom\b", re.IGNORECASE), Outcome.OOM),
    (re.compile(r"cancel", re.IGNORECASE), Outcome.CANCELLED),
    (re.compile(r"time[d]?[\s_-]*out", re.IGNORECASE), Outcome.TIMEOUT),
    (
        re.compile(
            r"disconnect|payloaderror|reset|remoteprotocol|readerror|incomplete|connection\s*closed", re.IGNORECASE
        ),
        Outcome.CONNECTION_LOST,
    ),
    (
        re.compile(r"connect\w*error|connection\s*refused|cannot\s+connect|name\s+resolution", re.IGNORECASE),
        Outcome.CONNECT_ERROR,
    ),
)


class Failure(NamedTuple):
    """What is known of a failed request."""

    outcome: Outcome
    status: int | None
    error: str
    told: bool
    """The file says of what kind it was; else it stands as ``stream_error``."""


def failure(text: str, status: int | None = None) -> Failure:
    """The outcome of a request that failed, by its status or its text; of a traceback the last line."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    said = lines[-1] if lines else ""
    if status is None:
        match = _STATUS.search(said)
        status = _PHRASES.get(said.lower()) or (int(match[1]) if match else None)
    if status is not None and not 400 <= status < 600:
        status = None
    memory, *others = _KINDS
    if memory[0].search(said):
        return Failure(Outcome.OOM, status, said, True)
    if status == 499:  # no server's answer: what a tool calls its own cancelling
        return Failure(Outcome.CANCELLED, None, said, True)
    if status is not None:
        return Failure(Outcome.REJECTED if status in (429, 503) else Outcome.HTTP_ERROR, status, said, True)
    for pattern, outcome in others:
        if pattern.search(said):
            return Failure(outcome, None, said, True)
    return Failure(Outcome.STREAM_ERROR, None, said, False)


def failures_told(failures: Sequence[Failure], tool: str) -> list[str]:
    """What is not known of the failures, as sentences; nothing when none failed."""
    if not failures:
        return []
    untold = sum(not one.told for one in failures)
    rest = f"; {untold} say nothing of it and stand as stream_error" if untold else ""
    return [f"{len(failures)} requests failed; of what kind is read from {tool}'s texts{rest}."]


def ns(seconds: float) -> int:
    """Seconds to integer nanoseconds."""
    return round(seconds * NS_PER_S)
