"""Facts about the server of a run, typed in afterwards: checked, and written into its folder as ``facts.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from llm_locust.analysis.server_facts import server_facts
from llm_locust.records import Manifest, RunFolder, UsageError
from llm_locust.records.facts import (
    FACT_NAMES,
    Facts,
    FactValue,
    combine,
    parse_facts,
    read_facts,
    template,
    wrong_facts,
)
from llm_locust.records.whole_file import write_whole
from llm_locust.web.workbench.forms import FIELDS, text_of, value_of
from llm_locust.web.workbench.typed import Fields, Refused


def known_facts(folder: RunFolder, manifest: Manifest) -> dict[str, Any]:
    """What is known of the server of a run, by who says so, as it would be typed.

    Returns:
        ``typed``: the facts file of the run. ``stated``: what a person wrote before load. ``said``: what the server said.
        ``problem``: why the facts file cannot be used, or ``None``.
    """
    typed, problem = Facts(), None
    if folder.facts.exists():
        try:
            typed = read_facts(folder.facts)
        except UsageError as error:
            problem = str(error)
    said = {name: value for name, value in server_facts(manifest).items() if value is not None and name in FACT_NAMES}
    stated = {name: value for name, value in manifest.facts.items() if name not in said}
    return {
        "typed": _texts(typed.values),
        "stated": _texts(stated),
        "said": _texts(said),
        "problem": problem,
    }


def write_facts(folder: RunFolder, typed: Mapping[str, Any]) -> dict[str, Any]:
    """Write the facts file of a run anew, whole or not at all.

    Raises:
        Refused: a fact is wrong, or contradicts what the server said; both values are named.
    """
    manifest = Manifest.load(folder.manifest)
    said = server_facts(manifest)
    fields = Fields(typed, FACT_NAMES)
    values: dict[str, FactValue] = {}
    for name in FACT_NAMES:
        value = fields.read(name, partial(value_of, FIELDS[name]))
        if value is not None and value != []:
            values[name] = value
    for name, problem in wrong_facts(values).items():
        fields.refuse(name, problem)
    for name, value in values.items():
        try:
            combine(Facts({name: value}, folder.facts.name), {name: said.get(name)})
        except UsageError as error:
            told = str(error).removeprefix(f"{folder.facts.name}: ")
            fields.refuse(name, told.replace("correct the file", "correct it"))
    fields.check()
    text = template(values)
    parse_facts(text, folder.facts.name)
    try:
        write_whole(folder.facts, text)
    except OSError as error:
        raise Refused({"request": f"{folder.facts} cannot be written: {error.strerror}"}) from None
    return {"known": len(values), "of": len(FACT_NAMES), "file": str(folder.facts), **known_facts(folder, manifest)}


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: text_of(FIELDS[name], value) for name, value in values.items() if name in FIELDS}
