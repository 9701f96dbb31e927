"""Locust ``User`` classes: what a person subclasses in a locustfile."""

from llm_locust.users.base import LLMUser
from llm_locust.users.headers import api_key, parse_headers, request_headers
from llm_locust.users.ollama import OllamaChatUser, OllamaGenerateUser
from llm_locust.users.openai import OpenAIChatUser, OpenAICompletionUser

__all__ = [
    "LLMUser",
    "OllamaChatUser",
    "OllamaGenerateUser",
    "OpenAIChatUser",
    "OpenAICompletionUser",
    "api_key",
    "parse_headers",
    "request_headers",
]
