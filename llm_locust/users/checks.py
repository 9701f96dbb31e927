"""The shipped quality checks: what a reply must look like to pass. A user class of one's own overrides ``check`` instead.

A check is given the prompt and the finished reply and says whether the reply passes; ``None`` means that it says nothing of
it. Adding one is a function here, a line in :data:`CHECKS` and a test.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from llm_locust.records import UsageError
from llm_locust.records.quality import QualitySpec
from llm_locust.streaming import Reply
from llm_locust.workload import Prompt

Check = Callable[[Prompt, Reply], bool | None]
"""Whether the reply passes; ``None``: not checked."""


class CheckKind(NamedTuple):
    """One shipped check."""

    form: str
    """How it is written after ``--quality``."""
    meaning: str
    read: Callable[[str, str | None], QualitySpec]
    """From its name and what stood after the colon. Raises UsageError."""
    make: Callable[[QualitySpec], Check]
    """The check itself, in the process that runs it."""


def parse_quality(text: str) -> QualitySpec:
    """``"regex:^yes"`` and the like, with the file that it names read.

    Raises:
        UsageError: no such check, or it cannot be used so; what there is, is said.
    """
    name, colon, argument = text.strip().partition(":")
    kind = CHECKS.get(name)
    if kind is None:
        raise UsageError(f"--quality {text!r}: write one of {', '.join(kind.form for kind in CHECKS.values())}")
    spec = kind.read(name, argument if colon else None)
    make_check(spec)
    return spec


def make_check(spec: QualitySpec) -> Check:
    """The check that was asked for.

    Raises:
        UsageError: its argument cannot be used, or a library that it needs is not installed here.
    """
    return CHECKS[spec.check].make(spec)


# --- reading what stands after --quality -------------------------------------------------------------------------------


def _bare(name: str, argument: str | None) -> QualitySpec:
    if argument is not None:
        raise UsageError(f"--quality {name}:{argument}: {name} takes nothing after it")
    return QualitySpec(check=name)


def _with_pattern(name: str, argument: str | None) -> QualitySpec:
    if not argument:
        raise UsageError(f"--quality {name}: which pattern? Write {name}:PATTERN, e.g. {name}:^(yes|no)")
    return QualitySpec(check=name, argument=argument)


def _with_schema(name: str, argument: str | None) -> QualitySpec:
    if not argument:
        raise UsageError(f"--quality {name}: which schema? Write {name}:FILE with the path of a JSON Schema")
    path = Path(argument).resolve()
    try:
        raw = path.read_bytes()
        schema = msgspec.json.decode(raw)
    except OSError as error:
        raise UsageError(f"--quality {name}:{argument}: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"--quality {name}:{argument}: not JSON ({error})") from None
    return QualitySpec(check=name, argument=str(path), content=schema, sha256=hashlib.sha256(raw).hexdigest())


# --- the checks --------------------------------------------------------------------------------------------------------


def _regex(spec: QualitySpec) -> Check:
    try:
        pattern = re.compile(spec.argument or "")
    except re.error as error:
        raise UsageError(f"--quality regex:{spec.argument}: {error}") from None
    return lambda prompt, reply: pattern.search(reply.text or "") is not None


def _json(spec: QualitySpec) -> Check:
    return lambda prompt, reply: _decoded(reply) is not _NOT_JSON


def _json_schema(spec: QualitySpec) -> Check:
    try:
        import jsonschema  # only for those who ask for it: it takes a tenth of a second
        from referencing import Registry
    except ImportError:
        raise UsageError("--quality json-schema needs the package jsonschema: pip install jsonschema") from None
    schema = spec.content
    try:
        of = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        of.check_schema(schema)
    except (jsonschema.SchemaError, TypeError, AttributeError) as error:
        said = getattr(error, "message", str(error))
        raise UsageError(f"--quality json-schema:{spec.argument}: not a JSON Schema: {said}") from None
    validator = of(schema, registry=Registry())  # with a registry of ours, no schema is fetched from anywhere

    def check(prompt: Prompt, reply: Reply) -> bool:
        found = _decoded(reply)
        return found is not _NOT_JSON and bool(validator.is_valid(found))

    return check


def _expected(spec: QualitySpec) -> Check:
    return lambda prompt, reply: answers(prompt.expected, reply)


def answers(expected: Any, reply: Reply) -> bool | None:
    """Whether the reply holds the expected answer; ``None`` when there is none.

    A text or a number is looked for as whole words, however it is written; of a list one of its answers is enough; an object
    is to be the reply's whole JSON.
    """
    if isinstance(expected, dict):
        return bool(_decoded(reply) == expected)
    if isinstance(expected, list):
        found = [answers(each, reply) for each in expected]
        return None if not found else any(found)
    wanted = normalised(expected if isinstance(expected, str) else msgspec.json.encode(expected).decode())
    if expected is None or not wanted:
        return None
    return re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", normalised(reply.text or "")) is not None


_NOT_JSON = object()

_FENCE = re.compile(r"\s*```[A-Za-z]*\s*\n(.*?)\n?\s*```\s*", re.DOTALL)


def _decoded(reply: Reply) -> Any:
    """The reply's text as JSON, alone or in one code fence, as models like to write it."""
    text = reply.text or ""
    fenced = _FENCE.fullmatch(text)
    try:
        return msgspec.json.decode(fenced[1] if fenced else text)
    except msgspec.DecodeError:
        return _NOT_JSON


def normalised(text: str) -> str:
    """A text for comparing answers: compatibility forms (NFKC), case folded, a run of blanks one space, no final stop."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(".!?")


CHECKS: dict[str, CheckKind] = {
    "regex": CheckKind("regex:PATTERN", "the pattern is found in the reply", _with_pattern, _regex),
    "json": CheckKind("json", "the reply is valid JSON, bare or in one code fence", _bare, _json),
    "json-schema": CheckKind("json-schema:FILE", "... and follows this JSON Schema", _with_schema, _json_schema),
    "expected": CheckKind(
        "expected", "the reply holds the prompt's expected answer; without one it is not checked", _bare, _expected
    ),
}
