"""Fields of the data contracts with what is said of them: their types, and the docstrings that stand under them."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec


class Field(NamedTuple):
    """One field of a contract."""

    name: str
    """As it stands in the file."""
    kind: str
    meaning: str


def fields_of(contract: type[msgspec.Struct]) -> list[Field]:
    """The fields in their order, with the docstring of each, or else what its name says."""
    docs = {name: doc for kind in reversed(contract.__mro__) for name, doc in _docs(kind)}
    return [
        Field(field.encode_name, kind_text(field.type), docs.get(field.name) or _from_name(field.name))
        for field in msgspec.structs.fields(contract)
    ]


def _docs(kind: type) -> Iterator[tuple[str, str]]:
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)) or kind is msgspec.Struct:
        return
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    for said, after in zip(body.body, [*body.body[1:], None], strict=True):
        if not (isinstance(said, ast.AnnAssign) and isinstance(said.target, ast.Name)):
            continue
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            yield said.target.id, after.value.value


SAID = {
    "run_id": "The run's name.",
    "stage": "Number of the stage, from 0.",
    "round": "Which repetition of its point, from 0.",
    "worker": "The K of `worker-K.csv`.",
    "user": "The user class.",
    "slice": "The part of the workload; empty where it has none.",
    "cold": "1: the request found the model unloaded; 0: loaded; empty: the server does not say.",
    "planned_ns": "When it was due.",
    "dispatched_ns": "When the load generator took it up.",
    "connect_ns": "Duration of the connect, where a new connection was needed.",
    "tls_ns": "Duration of the TLS handshake.",
    "reused": "1: the connection was there already.",
    "retries": "1: a kept-alive connection had been closed by the server, and the request was sent on another.",
    "written_ns": "When its bytes were with the kernel.",
    "headers_ns": "When the head of the response came.",
    "first_output_ns": "When the first generated token came, of any kind.",
    "first_answer_ns": "When the first one came that is not reasoning.",
    "last_output_ns": "When the last one came.",
    "outcome": "What became of it: [outcomes](judging.md#outcomes-of-a-request).",
    "status": "HTTP status.",
    "finish_reason": "As the server gave it.",
    "prompt_tokens": "As the server counted them.",
    "output_tokens": "Generated tokens, reasoning included.",
    "reasoning_tokens": "Of which reasoning, where the server says so.",
    "cached_tokens": "Prompt tokens that the server had in its prefix cache.",
    "output_events": "Events that carried output; one may carry several tokens.",
    "max_gap_ns": "The longest gap between two output events.",
    "bytes_in": "Bytes of the response.",
    "prompt_sha256": "Digest of what was asked.",
    "prompt_index": "Which prompt of the workload.",
    "prefix_group": "Prompts of one group begin alike.",
    "session": "The conversation that it is a turn of.",
    "turn": "Which turn, from 1.",
    "input_tokens_asked": "Length that the prompt was made for.",
    "max_tokens": "Output limit.",
    "read_lag_ns": "The largest difference between a read's user and kernel time.",
    "total_duration_ns": "As Ollama reports it.",
    "load_duration_ns": "As Ollama reports it.",
    "prompt_eval_duration_ns": "As Ollama reports it.",
    "eval_duration_ns": "As Ollama reports it.",
    "server_queue_ns": "Time in the server's queue, where the server says it.",
}
"""Of fields that the code leaves to their names."""

_UNITS = {
    "_ns": "Nanoseconds.",
    "_us": "Microseconds.",
    "_ms": "Milliseconds.",
    "_rps": "Per second.",
    "_tps": "Tokens per second.",
    "_gb": "GB (10^9 bytes).",
    "_pct": "Percent.",
    "_bytes": "Bytes.",
    "_s": "Seconds.",
    "_w": "Watts.",
    "_c": "Degrees Celsius.",
    "_mhz": "MHz.",
    "_j": "Joules.",
}


def _from_name(name: str) -> str:
    return SAID.get(name) or next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), "")


def kind_text(kind: Any) -> str:
    """A type in a few words."""
    said = kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__args__") else str(kind)
    said = re.sub(r"typing\.|msgspec\.|llm_locust\.[a-z_.]+\.", "", said)
    said = re.sub(r"Annotated\[([^,\]]+(?:\[[^\]]*\])?),[^\]]*\]", r"\1", said)
    said = re.sub(r"Literal\[([^\]]+)\]", lambda found: found[1].replace("'", '"').replace(", ", " or "), said)
    said = re.sub(r"Optional\[([^\]]+)\]", r"\1 | None", said)
    said = re.sub(r"Union\[([^\]]+)\]", lambda found: found[1].replace(", ", " | "), said)
    words = {
        "str": "text",
        "int": "integer",
        "float": "number",
        "bool": "true or false",
        "None": "null",
        "NoneType": "null",
        "Outcome": "text",
    }
    return re.sub(r"\b(str|int|float|bool|None|NoneType|Outcome)\b", lambda found: words[found[1]], said).replace(
        " | ", " or "
    )
