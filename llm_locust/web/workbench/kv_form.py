"""The KV preflight as a form: what ``llm-locust kv`` asks for, with the model's ``config.json`` pasted in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from llm_locust.records import UsageError
from llm_locust.report.kv_lines import kv_lines
from llm_locust.sizing.kv_dtypes import kv_dtype
from llm_locust.sizing.model_config import ModelShape, model_shape
from llm_locust.sizing.preflight import LEAST, MOST, Asked, MissingNumbers, model_of, preflight
from llm_locust.web.workbench.counts import LABEL
from llm_locust.web.workbench.typed import Fields, Refused, number, text, whole

WHOLE = ("layers", "kv_heads", "head_dim", "tp", "block_size", "tokens", "concurrency", "ollama_num_parallel")
NAMES = ("config", *WHOLE, "kv_dtype", "engine_kv_gib")


def kv_preflight(typed: Mapping[str, Any]) -> dict[str, Any]:
    """What the formula gives, or why it gives nothing for this model.

    Raises:
        Refused: a number is missing or wrong, or the file is no ``config.json``.
    """
    fields = Fields(typed, NAMES)
    counts = {name: fields.read(name, lambda given: whole(given, least=1, most=MOST)) for name in WHOLE}
    gib = fields.read("engine_kv_gib", lambda given: float(number(given, least=LEAST, most=MOST)))
    dtype = fields.read("kv_dtype", _dtype)
    file = fields.read("config", _config)
    if counts["tokens"] is None:
        fields.refuse("tokens", "it is needed: prompt and output of one request together")
    fields.check()
    try:
        model = model_of(file, counts["layers"], counts["kv_heads"], counts["head_dim"], dtype)
        found = preflight(
            model,
            Asked(
                tokens=counts["tokens"] or 0,
                concurrency=counts["concurrency"],
                block_tokens=counts["block_size"],
                tensor_parallel=counts["tp"] or 1,
                ollama_num_parallel=counts["ollama_num_parallel"],
                engine_kv_gib=gib,
            ),
        )
    except UsageError as error:
        raise Refused(_by_field(error)) from None
    return {"label": LABEL, "lines": _in_words_of_the_page(kv_lines(found)), **msgspec.to_builtins(found)}


def _dtype(typed: Any) -> str:
    found = text(typed)
    try:
        kv_dtype(found)
    except UsageError as error:
        raise UsageError(str(error).removeprefix("--kv-dtype ")) from None
    return found


def _config(typed: Any) -> ModelShape:
    if not isinstance(typed, str):
        raise UsageError("paste the text of the file")
    try:
        return model_shape(msgspec.json.decode(typed, type=dict[str, Any]))
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise UsageError(f"not a JSON object: {error}") from None
    except RecursionError:
        raise UsageError("it is nested too deeply for a config.json") from None


def _by_field(error: UsageError) -> dict[str, str]:
    """The message by the field that it is about: the command line names its options, which are the fields here."""
    if isinstance(error, MissingNumbers):
        found = {}
        for option in error.options:
            name, _, why = option.partition(" ")
            found[_field(name)] = (
                f"it is needed {why}".strip() if why else "it is needed: write it, or paste a config.json"
            )
        return found
    option, colon, rest = str(error).partition(": ")
    name = _field(option.split(" ")[0])
    return {name: rest} if colon and option.startswith("--") and name in NAMES else {"tokens": str(error)}


def _field(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def _in_words_of_the_page(lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
    named = {"--config": "the config.json", "--kv-dtype": "as typed", "--engine-kv-gib": "as typed"}
    found = []
    for name, line in lines:
        for option, words in named.items():
            line = line.replace(f"else give {option}", "else type it").replace(option, words)
        found.append((name, line))
    return found
