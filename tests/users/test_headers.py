"""Ways in: a key or a password, and those of a proxy, all from the environment of the process that sends."""

from __future__ import annotations

import pytest

from llm_locust.records import UsageError
from llm_locust.streaming import Proxy
from llm_locust.users.headers import parse_headers, proxy_here, request_headers

BASIC = "Basic bWU6bGV0IG1lIGlu"


def test_a_password_is_sent_as_basic_credentials_beside_the_further_headers() -> None:
    headers = request_headers(None, [("X-Team", "eu")], {"LOGIN": "me:let me in"}, basic_auth_env="LOGIN")
    assert headers == {"Authorization": BASIC, "X-Team": "eu"}


@pytest.mark.parametrize(
    ("api_key_env", "given", "environment", "other"),
    [
        ("MINE", [], {}, "--api-key-env MINE"),
        (None, ["authorization: @env:TOKEN"], {}, "--header authorization"),
        (None, [], {"LLM_LOCUST_API_KEY": "k"}, "the key in LLM_LOCUST_API_KEY"),
        (None, [], {"OPENAI_API_KEY": "k"}, "the key in OPENAI_API_KEY"),
    ],
)
def test_a_password_beside_a_key_is_refused_and_both_are_named(
    api_key_env: str | None, given: list[str], environment: dict[str, str], other: str
) -> None:
    with pytest.raises(UsageError) as refused:
        request_headers(
            api_key_env, parse_headers(given), {**environment, "LOGIN": "me:hunter2"}, basic_auth_env="LOGIN"
        )
    assert str(refused.value).startswith(f"--basic-auth-env LOGIN and {other} are both set")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("environment", [{}, {"LOGIN": ""}])
def test_a_password_that_is_not_there_is_named(environment: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="--basic-auth-env LOGIN: that environment variable is not set"):
        request_headers(None, [], environment, basic_auth_env="LOGIN")


@pytest.mark.parametrize("value", ["hunter2", "me:hunt\ner2", "me:hunter2\r"])
def test_what_is_no_user_and_password_is_refused_and_not_repeated(value: str) -> None:
    with pytest.raises(UsageError, match="LOGIN does not hold user:password") as refused:
        request_headers(None, [], {"LOGIN": value}, basic_auth_env="LOGIN")
    assert "hunt" not in str(refused.value)
    with pytest.raises(UsageError, match="LLM_LOCUST_PROXY_AUTH does not hold user:password") as refused:
        proxy_here("http://proxy:3128", {"LLM_LOCUST_PROXY_AUTH": value})
    assert "hunt" not in str(refused.value)


def test_a_proxy_has_the_credentials_of_this_process() -> None:
    assert proxy_here("http://proxy:3128", {}) == Proxy("proxy", 3128)
    assert proxy_here("http://proxy:3128", {"LLM_LOCUST_PROXY_AUTH": "a:b"}) == Proxy("proxy", 3128, "a:b")


def test_no_proxy_is_used_that_was_not_asked_for() -> None:
    environment = {"LLM_LOCUST_PROXY_AUTH": "a:b", "HTTP_PROXY": "http://p:1", "https_proxy": "http://p:1"}
    assert proxy_here(None, environment) is None
