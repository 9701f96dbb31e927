"""The file of a mix: TOML with a table ``[slice.NAME]`` for each slice, its weight, and any of the workload's options.

[slice.faq]
weight = 3
input_tokens = "normal:mean=200,sd=40"
shared_prefix = "share=0.8,groups=2"
output_tokens = 60

[slice.documents]
weight = 1
prompts = "documents.jsonl"     # beside this file
temperature = 0.7
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from llm_locust.records import UsageError
from llm_locust.records.run import SliceSpec, SourceSpec
from llm_locust.workload.prompts_file import BODY_FIELDS_OF_OUR_OWN

SAMPLING_KEYS = ("temperature", "top_p", "stop", "ignore_eos")
"""Keys that are body fields under their own name; ``sampling_seed`` is the body's ``seed``."""

_TEXTS = ("prompts", "input_tokens", "output_tokens", "shared_prefix", "sessions")
_KEYS = ("weight", *_TEXTS, "max_tokens", "min_tokens", *SAMPLING_KEYS, "sampling_seed", "extra")


def read_mix(path: str, base: SourceSpec) -> list[SliceSpec]:
    """The slices of a file.

    Args:
        path: the file.
        base: what the options say: output limits and body fields that a slice does not set itself.

    Raises:
        UsageError: the file cannot be read; a key is unknown or its value unusable. File and key are named.
    """
    try:
        found = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"--mix {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"--mix {path}: not TOML: {error}") from None
    tables = found.pop("slice", None)
    if found:
        raise UsageError(
            f"{path}: unknown key {next(iter(found))!r}: a mix is tables [slice.NAME], and nothing else; leave it out"
        )
    if not isinstance(tables, dict) or not tables or not all(isinstance(table, dict) for table in tables.values()):
        raise UsageError(f"{path}: no slices in it: write a table [slice.NAME] for each")
    slices = [_slice(name, table, base, path) for name, table in tables.items()]
    if sum(part.weight for part in slices) <= 0:
        raise UsageError(f"{path}: the weights sum to 0: at least one slice needs a share of the arrivals")
    return slices


def _slice(name: str, table: Mapping[str, Any], base: SourceSpec, path: str) -> SliceSpec:
    where = f"{path}: slice.{name}"
    if not name.isprintable() or not name.strip():
        raise UsageError(f"{path}: the slice {name!r}: its name is on one line, without control characters")
    for key in table:
        if key not in _KEYS:
            raise UsageError(f"{where}.{key}: unknown key: write one of {', '.join(_KEYS)}")
    weight = table.get("weight")
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < math.inf:
        raise UsageError(f"{where}.weight: a number of at least 0, not {weight!r}")
    given: dict[str, Any] = {}
    for key in _TEXTS:
        if key in table:
            value = table[key]
            if isinstance(value, bool) or not isinstance(value, str | int):
                raise UsageError(
                    f"{where}.{key}: a text, as the option --{key.replace('_', '-')} takes it, not {value!r}"
                )
            given[key] = str(value)
    if "prompts" in given:
        prompts = given.pop("prompts")
        given["prompts_file"] = str((Path(path).resolve().parent / prompts).resolve())
    for key in ("max_tokens", "min_tokens"):
        if key in table:
            given[key] = _whole(table[key], f"{where}.{key}", at_least=1 if key == "max_tokens" else 0)
    if "max_tokens" in given and "output_tokens" in given:
        raise UsageError(f"{where}: max_tokens and output_tokens both limit the reply: give one of them")
    if "max_tokens" in given:
        given["output_tokens"] = None
    extra = dict(base.extra)
    for key in SAMPLING_KEYS:
        if key in table:
            extra[key] = sampling_value(key, table[key], f"{where}.{key}")
    if "sampling_seed" in table:
        extra["seed"] = _whole(table["sampling_seed"], f"{where}.sampling_seed", at_least=0)
    further = table.get("extra", {})
    if not isinstance(further, dict):
        raise UsageError(f"{where}.extra: a table of body fields, not {further!r}")
    if ours := sorted(BODY_FIELDS_OF_OUR_OWN & further.keys()):
        raise UsageError(f"{where}.extra.{ours[0]}: that field is not a slice's to choose there; leave it out")
    common = {field: getattr(base, field) for field in SourceSpec.__struct_fields__}
    # Where prompts come from is each slice's own; what replies may be is everybody's unless it says otherwise.
    common |= dict.fromkeys(("prompts_file", "input_tokens", "shared_prefix", "sessions"))
    common |= given | {"extra": {**extra, **further}}
    return SliceSpec(name=name, weight=float(weight), **common)


def sampling_value(name: str, value: Any, where: str) -> Any:
    """A sampling field's value, checked.

    Raises:
        UsageError: it is out of range, or of another type.
    """
    if name == "ignore_eos":
        if not isinstance(value, bool):
            raise UsageError(f"{where}: true or false, not {value!r}")
        return value
    if name == "stop":
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
            raise UsageError(f"{where}: a text at which the reply stops, or a list of them, not {value!r}")
        return texts
    high = 1.0 if name == "top_p" else 100.0
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value <= high
        or (name == "top_p" and value == 0)
    ):
        raise UsageError(
            f"{where}: a number {'above 0 and at most 1' if name == 'top_p' else 'of at least 0'}, not {value!r}"
        )
    return float(value)


def _whole(value: Any, where: str, *, at_least: int) -> int:
    try:
        found = msgspec.convert(value, int)
    except msgspec.ValidationError:
        found = None
    if found is None or isinstance(value, bool) or found < at_least:
        raise UsageError(f"{where}: a whole number of at least {at_least}, not {value!r}")
    return found
