"""Facts that no client can see (weights, data types, drivers, who answers for it), from a TOML file that a person fills in.

Every fact is a field of the evidence record and obeys its type. A blank (``""``, or no line at all) is not known and stays
null. What the server itself says wins over a blank; where the two contradict each other, one of them is wrong and nobody
but the person can say which.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from llm_locust.records.errors import UsageError
from llm_locust.records.evidence import FIELD_TYPES
from llm_locust.records.users_claim import claimed_users

FactValue = str | int | float | bool | list[str]

GROUPS: Mapping[str, Mapping[str, FactValue]] = MappingProxyType(
    {
        "The engine": {
            "engine": "vLLM",
            "engine_version": "0.11.0",
            "image_digest": "vllm/vllm-openai@sha256:" + "0123456789abcdef" * 4,
            "replicas": 1,
            "parallelism": "TP 2",
            "max_active_sequences": 256,
            "server_admission_cap": 512,
            "batching_limits": "max_num_seqs 256, max_num_batched_tokens 8192, chunked prefill",
            "context_limit_tokens": 8192,
            "prefix_caching": True,
            "kv_cache_size_tokens": 406_528,
            "kv_cache_max_concurrency": 49.63,
            "offload": "none",
            "startup_peak_memory_gb": 71.2,
        },
        "The model": {
            "model_id": "Qwen/Qwen3-8B",
            "model_revision": "0123456789abcdef0123456789abcdef01234567",
            "weights_sha256": "0123456789abcdef" * 4,
            "quantization_dtype": "bfloat16",
            "kv_cache_dtype": "fp8",
            "tokenizer_revision": "the model's own",
            "chat_template_sha256": "0123456789abcdef" * 4,
        },
        "The server's hardware and system": {
            "environment": "staging cluster, load from the same rack, no other tenants",
            "accelerator": "NVIDIA H100 80GB HBM3",
            "accelerator_count": 2,
            "available_memory_gb": 160.0,
            "interconnect": "NVLink",
            "gpu_residency": "all layers",
            "power_limit_w": 700.0,
            "driver_runtime_host": "driver 570.86, Docker 28.0, Ubuntu 24.04",
            "cuda": "12.8",
            "cpu": "AMD EPYC 9454",
            "ram_gb": 768.0,
            "numa": "2 nodes, server pinned to node 0",
        },
        "The workload": {
            "cache_state": "cold: the server was restarted before the run",
            "sampling": "temperature 0",
            "quality_precondition": "40 answers were read before the run",
        },
        "The record": {
            "evidence_location": "s3://load-tests/2026-11",
            "owner": "Inference team",
            "retest_when": ["the prompt template changes"],
        },
    }
)
"""Every fact by group, with an example of it."""

_EXAMPLES: Mapping[str, FactValue] = {name: value for group in GROUPS.values() for name, value in group.items()}

FACT_NAMES: tuple[str, ...] = tuple(_EXAMPLES)

_HEAD = """\
# Facts about the server that no client can see; they stand in the evidence record of every stage.
# Fill in what you know and leave the rest blank (""): it stays "not known". Never write 0 for what you do not know.
# What the server says of itself is taken where this file is blank; where the two contradict each other, the file is refused.
"""


class Facts(NamedTuple):
    """Facts with where they were read, so that a contradiction can name the line."""

    values: Mapping[str, FactValue] = MappingProxyType({})
    """The known ones only, by field of the evidence record."""
    source: str = "the facts"
    lines: Mapping[str, int] = MappingProxyType({})
    elsewhere: Mapping[str, str] = MappingProxyType({})
    """Where those are from that :attr:`source` does not hold."""

    def where(self, name: str) -> str:
        """``facts.toml, line 12``."""
        if name in self.elsewhere:
            return self.elsewhere[name]
        return f"{self.source}, line {self.lines[name]}" if name in self.lines else self.source

    def on_top_of(self, earlier: Facts) -> Facts:
        """These facts, with earlier ones where these are blank: who writes again corrects what was written before."""
        blank = {name: earlier.where(name) for name in earlier.values if name not in self.values}
        return Facts({**earlier.values, **self.values}, self.source, self.lines, blank)


NO_FACTS = Facts()


def template(known: Mapping[str, FactValue] = MappingProxyType({})) -> str:
    """The file to fill in: every fact with what it is and an example, blank unless it is ``known``."""
    parts = [_HEAD]
    for heading, examples in GROUPS.items():
        parts.append(f"\n# {heading}\n")
        for name, example in examples.items():
            parts.append(f"\n# {_description(name)}. {_kind(example)}, e.g. {_toml(example)}\n")
            parts.append(f"{name} = {_toml(known.get(name, ''))}\n")
    return "".join(parts)


def read_facts(path: Path) -> Facts:
    """Read and check a facts file.

    Raises:
        UsageError: it cannot be read, is not TOML, or holds something that is no fact; every such line is named.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}. llm-locust facts --template writes one") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text (byte {error.start})") from None
    return parse_facts(text, str(path))


def parse_facts(text: str, source: str) -> Facts:
    """The facts in a TOML text; see :func:`read_facts`."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        quotes = "; text wants quotes" if _unquoted(text) else ""
        raise UsageError(f"{source}: not TOML: {error}{quotes}") from None
    lines = {name: line for name in document if (line := _line(text, name)) is not None}
    facts = Facts({name: value for name, value in document.items() if not _blank(value)}, source, lines)
    if wrong := wrong_facts(document):
        raise UsageError("\n".join(f"{facts.where(name)}: {problem}" for name, problem in wrong.items()))
    return facts


def _unquoted(text: str) -> bool:
    """Whether a line has a bare value that is no TOML by itself: text without quotes, or a version."""
    for line in text.splitlines():
        if re.match(r"""\s*\w+\s*=\s*[^\s"'\[{#]""", line):
            try:
                tomllib.loads(line)
            except tomllib.TOMLDecodeError:
                return True
    return False


def wrong_facts(values: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with facts as they were written, by name; empty when nothing is."""
    return {name: problem for name, value in values.items() if (problem := _wrong(name, value))}


def combine(facts: Facts, said: Mapping[str, FactValue | None], who: str = "the server said") -> dict[str, FactValue]:
    """The facts of a file together with those that were asked for; what is not known on either side is left out.

    Args:
        facts: What a person wrote.
        said: What was asked from the server, by field; ``None`` for what it did not say.
        who: Where the latter come from, for the message.

    Raises:
        UsageError: the two contradict each other; both are named.
    """
    known = dict(facts.values)
    for name, value in said.items():
        if value is None or _blank(value):
            continue
        if name in known and not _same(known[name], value):
            raise UsageError(
                f"{facts.where(name)}: {name} is {known[name]!r}, but {who} {value!r}: correct the file, or leave it blank"
            )
        known[name] = value
    return known


def _blank(value: object) -> bool:
    return value == [] or (isinstance(value, str) and not value.strip())


def _wrong(name: str, value: Any) -> str | None:
    """What is wrong with one line; ``None`` for nothing."""
    if name not in _EXAMPLES:
        near = difflib.get_close_matches(name, _EXAMPLES, n=1)
        hint = f"; did you mean {near[0]}?" if near else "; llm-locust facts --template lists them all"
        return f"{name} is not a fact{hint}"
    if _blank(value):
        return None
    if value == 0 and not isinstance(value, bool) and name != "accelerator_count":
        return f"{name} is 0, which it cannot be: leave it blank if it is not known"
    try:
        msgspec.convert(value, FIELD_TYPES[name])
    except msgspec.ValidationError:
        example = _EXAMPLES[name]
        return f"{name} = {value!r}: write {_kind(example).lower()}, e.g. {_toml(example)} ({_description(name)})"
    for text in value if isinstance(value, list) else [value]:
        claim = claimed_users(text) if isinstance(text, str) else None
        if claim:
            return f"{name} states a number of users ({claim!r}), which no figure here is: leave it out"
    return None


def _same(one: FactValue, other: FactValue) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return one.strip().casefold() == other.strip().casefold()
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other)
    return one == other


def _line(text: str, name: str) -> int | None:
    key = re.escape(name)
    found = re.search(rf"""^[ \t]*(?:\[\s*)?(?:{key}|"{key}"|'{key}')[ \t]*(?:[=.]|\])""", text, re.MULTILINE)
    return text.count("\n", 0, found.start()) + 1 if found else None


def _description(name: str) -> str:
    found = next((m.description for m in FIELD_TYPES[name].__metadata__ if m.description), None)
    assert found is not None, name
    text, *_ = str(found).split("; null:")  # what null means is for JSON: a person leaves the line blank
    return text[:1].upper() + text[1:]


def _kind(example: FactValue) -> str:
    if isinstance(example, bool):
        return "true or false"
    words = {str: "Text", int: "Whole number", float: "Number", list: "List of texts"}
    return words[type(example)]


def _toml(value: FactValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # JSON's strings are strings of TOML, but for the one character that JSON lets stand.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") if isinstance(value, str) else repr(value)
