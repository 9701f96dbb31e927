"""The reference is what the code gives now."""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any

import msgspec
import pytest

import llm_locust.records
from docs.generate import environment, errors
from docs.generate.fields import fields_of, inner, wordless
from docs.generate.judging import exit_codes, statuses
from docs.generate.markdown import text
from docs.generate.pages import PAGES, REFERENCE
from docs.generate.raised import parts_of, raised
from llm_locust.plugin.option_table import OPTIONS
from llm_locust.records import ExitCode, Manifest
from llm_locust.records.envelope_schema import envelope_schema
from llm_locust.records.evidence import FIELD_TYPES, StageTelemetry
from llm_locust.records.evidence_schema import evidence_schema
from llm_locust.records.manifest import ClockSample
from tests.docs.pages import DOCS, READMES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_reference_is_what_the_code_gives(name: str) -> None:
    assert (REFERENCE / name).read_text(encoding="utf-8") == PAGES[name](), "run make docs"


def test_no_page_of_the_reference_is_left_over() -> None:
    assert {path.name for path in REFERENCE.glob("*.md")} == set(PAGES)


def test_every_option_has_a_row_with_its_variable() -> None:
    page = PAGES["options.md"]()
    for option in OPTIONS:
        assert re.search(rf"^\| `{option.flag}[ `].*`{option.variable}`", page, re.MULTILINE), option.flag


def test_every_message_to_a_user_says_what_to_do_or_is_on_the_list_with_a_reason() -> None:
    without = [f"{found.file}:{found.line}: {found.message}" for found in raised() if errors.mend_of(found) is None]
    assert without == [], (
        "end the message with what to do: '...; write ...', or add to REMEDIES in docs/generate/errors.py"
    )


def test_most_messages_say_themselves_what_to_do() -> None:
    found = raised()
    general = [each for each in found if parts_of(each.message).mend is None]
    assert len(found) > 400
    assert len(general) < len(found) / 2


@pytest.mark.parametrize(
    ("message", "where", "wrong", "mend"),
    [
        ("--slo {item}: a name is wrong; write NAME=MS", "--slo {item}", "a name is wrong", "write NAME=MS"),
        ("--rates {item}: write rates", "--rates {item}", "not of a form that is known", "write rates"),
        ("{path} is empty: give a file with rows", "", "{path} is empty", "give a file with rows"),
        ("{path}: cannot be read: {reason}", "{path}", "cannot be read: {reason}", None),
    ],
)
def test_a_message_is_taken_apart(message: str, where: str, wrong: str, mend: str | None) -> None:
    assert parts_of(message) == (where, wrong, mend)


def test_a_variable_of_ours_that_nobody_explains_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(environment.VARIABLES, "LLM_LOCUST_PROXY_AUTH")
    with pytest.raises(LookupError, match="LLM_LOCUST_PROXY_AUTH"):
        environment.environment_page()


# --- fields ---------------------------------------------------------------------------------------------------------


def contracts() -> list[type[msgspec.Struct]]:
    """Every data contract, but for the one that only hands fields of the evidence record on under their names."""
    modules = [
        importlib.import_module(f"llm_locust.records.{module.name}")
        for module in pkgutil.iter_modules(llm_locust.records.__path__)
    ]
    found = [
        kind
        for module in modules
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind.__module__ == module.__name__
        if not name.startswith("_")
    ]
    assert set(StageTelemetry.__struct_fields__) <= set(FIELD_TYPES)
    return [kind for kind in found if kind is not StageTelemetry]


@pytest.mark.parametrize("contract", contracts(), ids=lambda kind: kind.__name__)
def test_something_is_said_of_every_field_of_a_contract(contract: type[msgspec.Struct]) -> None:
    assert wordless(contract) == [], f"put a docstring under them in {contract.__module__}"


class Half(msgspec.Struct):
    told: int
    """In milliseconds."""
    untold: int


def test_a_field_of_which_nothing_is_said_makes_no_page() -> None:
    with pytest.raises(LookupError, match=r"Half what they are: untold$"):
        fields_of(Half)


def test_the_contracts_that_a_contract_is_made_of_are_found_at_any_depth() -> None:
    found = list(inner(Manifest))
    assert len(found) == len(set(found))
    assert ClockSample in found  # by its stages, their workers


@pytest.mark.parametrize("schema", [evidence_schema(), envelope_schema()], ids=lambda schema: schema["title"])
def test_something_is_said_of_every_field_of_a_schema(schema: dict[str, Any]) -> None:
    for name, kind in [("", schema), *schema["$defs"].items()]:
        for field, of in kind.get("properties", {}).items():
            said = [of, *of.get("anyOf", ())]
            assert any(part.get("description") for part in said), f"{name}.{field}"


# --- exit codes -----------------------------------------------------------------------------------------------------


def test_the_readme_says_of_each_exit_code_what_the_code_says() -> None:
    english, *others = [
        dict(re.findall(r"^\| (\d) \| (.*) \|$", page.read_text(encoding="utf-8"), re.MULTILINE)) for page in READMES
    ]
    said = {str(int(code)): text(meaning).rstrip(".") for code, meaning in exit_codes().items()}
    assert english == {code: meaning[0].lower() + meaning[1:] for code, meaning in said.items()}
    assert all(list(other) == list(english) for other in others)


def test_the_page_for_pipelines_has_a_row_for_each_exit_code() -> None:
    page = (DOCS / "how-to" / "ci-gate.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d(?:, \d)*) \|", page, re.MULTILINE)
    assert [int(code) for row in rows for code in row.split(", ")] == list(ExitCode)


def test_no_subcommand_has_an_exit_code_of_its_own() -> None:
    found = dict(statuses())
    assert {"llm-locust merge", "llm-locust gate", "llm-locust smoke", "llm-locust validate"} <= set(found)
    for name, said in found.items():
        assert {int(number) for number, _ in said} <= set(ExitCode), name


@pytest.mark.parametrize(
    ("wrong", "order"),
    [
        ("must be {what}, a number greater than 0", "Give {what}, a number greater than 0."),
        ("must be at least {at_least}", r"Give at least {at\_least}."),
        ("a number of at least 0, not '{weight}'", "Give a number of at least 0."),
        ("turns={turns}: a whole number from 1 to {most}", "Give a whole number from 1 to {most}."),
        ("{meaning} is {rule}", "Give a value {rule}."),
    ],
)
def test_what_a_message_allows_is_said_as_what_to_give(wrong: str, order: str) -> None:
    assert errors.allowed_in(wrong) == order


def test_every_message_that_states_what_is_allowed_has_an_order_of_its_own() -> None:
    vague = {found.message for found in raised() if (errors.mend_of(found) or "").startswith(("Needed:", "Keep to"))}
    assert vague == set()
