"""Users: a prompt in, a request out; keys and headers from the environment of the process that sends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from llm_locust.records import UsageError
from llm_locust.users import LLMUser, OpenAIChatUser, OpenAICompletionUser, api_key, parse_headers, request_headers
from llm_locust.workload import Prompt

PROMPT = Prompt(index=0, prompt="hello", max_tokens=7)


def user(kind: type[LLMUser], streaming: bool = True, extra: dict[str, Any] | None = None) -> LLMUser:
    class Concrete(kind):  # type: ignore[misc,valid-type]
        pass

    plugin = SimpleNamespace(
        model="m", headers={"Authorization": "Bearer k"}, streaming=streaming, extra_body=extra or {}, quality=None
    )
    return Concrete(SimpleNamespace(llm_locust=plugin))


def body(made: LLMUser) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(made.build_request(PROMPT, "run.5").body)
    return found


def test_a_chat_user_streams_messages_with_usage() -> None:
    request = user(OpenAIChatUser).build_request(PROMPT, "run.5")
    assert (request.path, request.dialect, request.streamed) == ("/v1/chat/completions", "openai-chat", True)
    assert msgspec.json.decode(request.body) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 7,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert dict(request.headers) == {"Authorization": "Bearer k", "X-Request-Id": "run.5"}


def test_a_completion_user_sends_the_text() -> None:
    made = user(OpenAICompletionUser)
    assert body(made)["prompt"] == "hello"
    assert made.path == "/v1/completions"


@pytest.mark.parametrize("kind", [OpenAIChatUser, OpenAICompletionUser])
def test_without_streaming_the_whole_reply_is_asked_for_whatever_the_body_says(kind: type[LLMUser]) -> None:
    made = user(kind, streaming=False)
    assert body(made)["stream"] is False
    assert "stream_options" not in body(made)
    assert made.build_request(PROMPT, "r").streamed is False


def test_extra_fields_go_into_every_body_and_overrule_it() -> None:
    made = user(OpenAIChatUser, extra={"seed": 1, "max_tokens": 3})
    assert (body(made)["seed"], body(made)["max_tokens"], body(made)["stream"]) == (1, 3, True)


def test_more_than_one_choice_is_refused() -> None:
    with pytest.raises(UsageError, match="n=2"):
        body(user(OpenAIChatUser, extra={"n": 2}))


def test_the_key_comes_from_the_first_variable_that_is_set() -> None:
    assert api_key(None, {"OPENAI_API_KEY": "b", "LLM_LOCUST_API_KEY": "a"}) == "a"
    assert api_key(None, {"OPENAI_API_KEY": "b"}) == "b"
    assert api_key(None, {}) is None
    assert api_key("MINE", {"MINE": "c", "OPENAI_API_KEY": "b"}) == "c"
    with pytest.raises(UsageError, match="MINE"):
        api_key("MINE", {"OPENAI_API_KEY": "b"})


def test_further_headers_are_literal_or_read_from_the_environment() -> None:
    given = parse_headers(["X-Team: search: eu", "X-Key: @env:TEAM_KEY"])
    assert given == [("X-Team", "search: eu"), ("X-Key", "@env:TEAM_KEY")]
    assert request_headers(None, given, {"TEAM_KEY": "s"}) == {"X-Team": "search: eu", "X-Key": "s"}
    with pytest.raises(UsageError, match="TEAM_KEY is not set"):
        request_headers(None, given, {})


@pytest.mark.parametrize("name", ["Authorization", "X-Api-Key", "api-key", "Cookie", "X-Auth-Token", "X-Client-Secret"])
def test_a_literal_secret_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_headers([f"{name}: hunter2"])
    assert "hunter2" not in str(error.value)
    assert "@env:" in str(error.value)


@pytest.mark.parametrize("item", ["nocolon", ": value", "Name:", "two words: x"])
def test_what_is_no_header_is_refused(item: str) -> None:
    with pytest.raises(UsageError, match="Name: value"):
        parse_headers([item])
