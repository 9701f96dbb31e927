"""Sampling, stop, tools and formats: a prompt's own fields in every API's form, and who has the last word."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from llm_locust.records import UsageError
from llm_locust.users import LLMUser, OllamaChatUser, OpenAIChatUser, OpenAICompletionUser
from llm_locust.workload import Prompt
from tests.users.test_users import user

FIELDS: dict[str, Any] = {
    "temperature": 0.5,
    "seed": 3,
    "stop": ["END"],
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "response_format": {"type": "json_object"},
}


def asking(**extra: Any) -> Prompt:
    return Prompt(index=0, prompt="hello", max_tokens=7, extra=extra)


def body(made: LLMUser, prompt: Prompt) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(made.build_request(prompt, "run.1").body)
    return found


def test_openais_bodies_take_fields_as_they_are() -> None:
    for kind in (OpenAIChatUser, OpenAICompletionUser):
        sent = body(user(kind), asking(**FIELDS, cache_salt="x", ignore_eos=True, min_tokens=7))
        assert {name: sent[name] for name in FIELDS} == FIELDS
        assert (sent["cache_salt"], sent["ignore_eos"], sent["min_tokens"], sent["max_tokens"]) == ("x", True, 7, 7)


def test_ollama_has_sampling_among_its_options_and_a_format() -> None:
    sent = body(user(OllamaChatUser), asking(**FIELDS))
    assert sent["options"] == {"num_predict": 7, "temperature": 0.5, "seed": 3, "stop": ["END"]}
    assert sent["format"] == "json"
    assert sent["tools"] == FIELDS["tools"]
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
    assert body(user(OllamaChatUser), asking(response_format=schema))["format"] == {"type": "object"}


@pytest.mark.parametrize("name", ["ignore_eos", "min_tokens", "cache_salt"])
def test_what_ollama_has_no_field_for_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"cannot ask for {name}"):
        user(OllamaChatUser).build_request(asking(**{name: 1}), "run.1")


def test_a_prompts_field_overrules_the_class_and_extra_body_overrules_both() -> None:
    class Cold(OpenAIChatUser):
        abstract = True

        def build_body(self, prompt: Prompt) -> dict[str, Any]:
            return {**super().build_body(prompt), "temperature": 0.0, "top_p": 0.1}

    made = user(Cold)
    assert body(made, asking())["temperature"] == 0.0
    assert (body(made, asking(temperature=0.7))["temperature"], body(made, asking(temperature=0.7))["top_p"]) == (
        0.7,
        0.1,
    )
    made.environment.llm_locust.extra_body = {"temperature": 1.0}
    assert body(made, asking(temperature=0.7))["temperature"] == 1.0


def test_the_whole_body_is_what_the_request_holds() -> None:
    made = user(OpenAIChatUser)
    prompt = asking(seed=1)
    assert msgspec.json.decode(made.build_request(prompt, "run.1").body) == made.whole_body(prompt)
