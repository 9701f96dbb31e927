"""Fields of the data contracts with what is said of them: their types, and the words that stand under them in the code."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args

import msgspec


class Field(NamedTuple):
    """One field of a contract."""

    name: str
    """As it stands in the file."""
    kind: str
    meaning: str


def fields_of(contract: type[msgspec.Struct]) -> list[Field]:
    """The fields in their order, each with what is said of it.

    Raises:
        LookupError: nothing is said of one; where to say it is in the message.
    """
    if found := wordless(contract):
        raise LookupError(
            f"say under the fields of {contract.__module__}.{contract.__name__} what they are: {', '.join(found)}"
        )
    words = _words(contract)
    return [
        Field(field.encode_name, kind_text(field.type), words[field.name]) for field in msgspec.structs.fields(contract)
    ]


def wordless(contract: type[msgspec.Struct]) -> list[str]:
    """Fields of which nothing is said."""
    words = _words(contract)
    return [field.name for field in msgspec.structs.fields(contract) if not words.get(field.name)]


def inner(contract: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    """Contracts that a contract is made of, at any depth, each once, in the order of the fields."""
    found: dict[type[msgspec.Struct], None] = {}
    open_ = [contract]
    while open_:
        of = open_.pop(0)
        new = [kind for field in msgspec.structs.fields(of) for kind in _structs(field.type) if kind not in found]
        found |= dict.fromkeys(new)
        open_ += dict.fromkeys(new)
    return iter(found)


def _structs(kind: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for part in get_args(kind):
        yield from _structs(part)


def _words(contract: type[msgspec.Struct]) -> dict[str, str]:
    """What is said of each field: the docstring under it, or else the description that its type carries."""
    described = {
        field.name: part.description
        for field in msgspec.structs.fields(contract)
        for part in getattr(field.type, "__metadata__", ())
        if isinstance(part, msgspec.Meta) and part.description
    }
    return described | {name: doc for kind in reversed(contract.__mro__) for name, doc in _docs(kind)}


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
