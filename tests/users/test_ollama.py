"""Ollama users: the bodies of its own API, options that survive one another, and the wish to unload."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import pytest

from llm_locust.records import UsageError
from llm_locust.streaming import get_dialect
from llm_locust.users import LLMUser, OllamaChatUser, OllamaGenerateUser, OpenAIChatUser, OpenAICompletionUser
from llm_locust.workload import Prompt
from tests.users.test_users import PROMPT, body, user

BOTH = [OllamaChatUser, OllamaGenerateUser]


def evicting(made: LLMUser) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(made.build_request(PROMPT, "run.5", evict_after=True).body)
    return found


def test_a_chat_user_streams_messages_and_limits_the_reply_by_an_option() -> None:
    request = user(OllamaChatUser).build_request(PROMPT, "run.5")
    assert (request.path, request.dialect, request.streamed) == ("/api/chat", "ollama-chat", True)
    assert msgspec.json.decode(request.body) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": True,
        "options": {"num_predict": 7},
    }
    assert dict(request.headers) == {"Authorization": "Bearer k", "X-Request-Id": "run.5"}


def test_a_generate_user_sends_one_text() -> None:
    made = user(OllamaGenerateUser)
    assert (made.path, made.dialect) == ("/api/generate", "ollama-generate")
    assert body(made) == {"model": "m", "prompt": "hello", "stream": True, "options": {"num_predict": 7}}
    chat = Prompt(
        index=0, messages=[{"role": "system", "content": "be"}, {"role": "user", "content": "kind"}], max_tokens=7
    )
    assert msgspec.json.decode(made.build_request(chat, "r").body)["prompt"] == "be\n\nkind"


@pytest.mark.parametrize("kind", BOTH)
def test_a_user_asks_where_its_dialect_lives(kind: type[LLMUser]) -> None:
    assert kind.path == get_dialect(kind.dialect).path


@pytest.mark.parametrize("kind", BOTH)
def test_without_streaming_the_whole_reply_is_asked_for_in_so_many_words(kind: type[LLMUser]) -> None:
    """Ollama streams unless it is told not to."""
    made = user(kind, streaming=False)
    assert body(made)["stream"] is False
    assert made.build_request(PROMPT, "r").streamed is False


@pytest.mark.parametrize("kind", BOTH)
def test_options_of_the_class_and_of_the_command_line_are_merged_one_by_one(kind: type[LLMUser]) -> None:
    class Warm(kind):  # type: ignore[misc,valid-type]
        options: ClassVar[dict[str, Any]] = {"temperature": 0.0, "seed": 1}

    assert body(user(Warm))["options"] == {"num_predict": 7, "temperature": 0.0, "seed": 1}
    extra = {"options": {"num_ctx": 8192, "seed": 2}, "keep_alive": "30m"}
    made = body(user(Warm, extra=extra))
    assert made["options"] == {"num_predict": 7, "temperature": 0.0, "seed": 2, "num_ctx": 8192}
    assert made["keep_alive"] == "30m"
    assert body(user(kind))["options"] == {"num_predict": 7}  # one class leaves nothing behind in another


def test_the_output_limit_gives_way_to_one_that_is_written_out() -> None:
    class Brief(OllamaChatUser):
        options: ClassVar[dict[str, Any]] = {"num_predict": 3}

    assert body(user(Brief))["options"] == {"num_predict": 3}
    assert body(user(Brief, extra={"options": {"num_predict": 2}}))["options"] == {"num_predict": 2}
    assert body(user(Brief, extra={"options": None}))["options"] is None


def test_a_body_of_ones_own_is_built_on() -> None:
    class Thinking(OllamaChatUser):
        def build_body(self, prompt: Prompt) -> dict[str, Any]:
            return {**super().build_body(prompt), "think": True, "keep_alive": -1}

    made = body(user(Thinking, extra={"options": {"top_k": 1}}))
    assert (made["think"], made["keep_alive"]) == (True, -1)
    assert made["options"] == {"num_predict": 7, "top_k": 1}


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("streaming", [True, False])
def test_evicting_changes_keep_alive_and_nothing_else_whatever_was_asked_for(
    kind: type[LLMUser], streaming: bool
) -> None:
    made = user(kind, streaming=streaming, extra={"keep_alive": "30m"})
    assert made.can_evict
    assert evicting(made) == {**body(made), "keep_alive": 0}
    assert body(made)["keep_alive"] == "30m"


@pytest.mark.parametrize("kind", [OpenAIChatUser, OpenAICompletionUser])
def test_an_api_that_cannot_evict_says_so_and_which_can(kind: type[LLMUser]) -> None:
    made = user(kind)
    assert not made.can_evict
    with pytest.raises(UsageError, match=rf"{made.path}.*OllamaChatUser, OllamaGenerateUser"):
        evicting(made)


def test_an_api_of_ones_own_can_learn_to_evict() -> None:
    class Own(OpenAIChatUser):
        can_evict = True

        def evict_after(self, body: dict[str, Any]) -> dict[str, Any]:
            return {**body, "ttl": 1}

    assert evicting(user(Own)) == {**body(user(Own)), "ttl": 1}


def test_locustfiles_find_the_users_at_the_top() -> None:
    import llm_locust

    assert llm_locust.OllamaChatUser is OllamaChatUser
    assert llm_locust.OllamaGenerateUser is OllamaGenerateUser
