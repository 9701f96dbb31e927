"""Locust ``User`` classes: what a person subclasses in a locustfile."""

from llm_locust.users.base import LLMUser
from llm_locust.users.headers import API_KEY_VARIABLES, api_key, parse_headers, request_headers
from llm_locust.users.openai import OpenAIChatUser, OpenAICompletionUser

__all__ = [
    "API_KEY_VARIABLES",
    "LLMUser",
    "OpenAIChatUser",
    "OpenAICompletionUser",
    "api_key",
    "parse_headers",
    "request_headers",
]
