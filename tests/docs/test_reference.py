"""The reference is what the code gives now."""

from __future__ import annotations

import re

import pytest

from docs.generate import environment, errors
from docs.generate.pages import PAGES, REFERENCE
from docs.generate.raised import parts_of, raised
from llm_locust.plugin.option_table import OPTIONS


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
