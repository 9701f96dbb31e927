"""Dialects of one's own: what is registered under which name, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

import llm_locust
from llm_locust import UsageError, register_dialect
from llm_locust.streaming import DIALECTS, Delta, Event, JsonLines, get_dialect

pytestmark = pytest.mark.usefixtures("own_dialects")


class Mine:
    """A line of JSON is a text."""

    name: Any = "mine"
    path: Any = "/mine"
    media_type: Any = "application/x-ndjson"
    events: Any = JsonLines

    def read_event(self, event: Event) -> Delta:
        return Delta(text=event.data.decode())

    def read_whole(self, body: bytes) -> Delta:
        return Delta(text=body.decode(), finished=True)


class Other(Mine):
    pass


def test_a_registered_dialect_is_found_by_its_name() -> None:
    mine = Mine()
    register_dialect(mine)
    assert get_dialect("mine") is mine
    assert list(DIALECTS)[-1] == "mine"


def test_it_is_one_of_the_names_to_import_from_the_top() -> None:
    assert "register_dialect" in llm_locust.__all__
    assert llm_locust.register_dialect is register_dialect


def test_the_table_is_written_by_registering_alone() -> None:
    with pytest.raises(TypeError):
        DIALECTS["mine"] = Mine()  # type: ignore[index]


def test_the_name_of_another_dialect_is_refused_unless_it_is_to_be_replaced() -> None:
    register_dialect(Mine())
    with pytest.raises(
        UsageError, match=r"Other: the name 'mine' is taken by .*Mine: choose another name, .* replace=True"
    ):
        register_dialect(Other())
    other = Other()
    register_dialect(other, replace=True)
    assert get_dialect("mine") is other


def test_the_name_of_one_that_comes_along_is_taken_too() -> None:
    mine = Mine()
    mine.name = "openai-chat"
    before = get_dialect("openai-chat")
    with pytest.raises(UsageError, match=r"is taken by llm_locust\.streaming\.dialects\.openai_chat\.OpenAIChat"):
        register_dialect(mine)
    assert get_dialect("openai-chat") is before


def test_a_file_that_is_imported_twice_registers_twice() -> None:
    register_dialect(Mine())
    again = Mine()
    register_dialect(again)
    assert get_dialect("mine") is again


@pytest.mark.parametrize(
    ("member", "value", "said"),
    [
        ("name", "", "name is '': write letters"),
        ("name", "my own", "name is 'my own': write letters"),
        ("name", None, "name is None"),
        ("path", "v1/mine", "path is 'v1/mine': write the endpoint's path under --host, from its first '/'"),
        ("path", "/a b", "path is '/a b'"),
        ("media_type", "json", "media_type is 'json': write a content type in lower case"),
        ("media_type", "Text/Event-Stream", "media_type is 'Text/Event-Stream'"),
        ("events", JsonLines(), "events must be a class: give SseEvents or JsonLines, without ()"),
        ("events", dict, "events is dict, which has no alone, idle, feed, tail: give SseEvents or JsonLines"),
        ("read_event", "text", "read_event must be a method that takes an event"),
        ("read_event", lambda: Delta(), "read_event must be a method that takes an event"),
        ("read_whole", lambda body, more: Delta(), "read_whole must be a method that takes the bytes of a body"),
    ],
)
def test_a_member_of_a_wrong_form_is_named(member: str, value: object, said: str) -> None:
    mine = Mine()
    setattr(mine, member, value)
    with pytest.raises(UsageError, match=re.escape(f"dialect Mine: {said}")):
        register_dialect(mine)
    assert "mine" not in DIALECTS


def test_members_that_are_missing_are_named_together() -> None:
    class Half:
        name = "half"
        media_type = "text/event-stream"

    with pytest.raises(UsageError, match=r"^dialect Half has no path, events, read_event, read_whole: add "):
        register_dialect(Half())  # type: ignore[arg-type]


def test_a_class_in_place_of_an_instance_is_refused() -> None:
    with pytest.raises(UsageError, match=r"dialect Mine is a class: give an instance, Mine\(\)"):
        register_dialect(Mine)  # type: ignore[arg-type]


def test_an_unknown_dialect_is_answered_with_those_there_are() -> None:
    register_dialect(Mine())
    with pytest.raises(UsageError, match=r"'yours': choose one of openai-chat, .*, mine, or register your own"):
        get_dialect("yours")
