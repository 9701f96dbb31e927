"""The base of every user: turns a prompt into a request. Subclasses say which API, and what the body looks like."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from locust import User, task

from llm_locust.streaming import StreamRequest
from llm_locust.workload import Prompt

if TYPE_CHECKING:
    from llm_locust.plugin import Plugin

API_KEY_VARIABLES = ("LLM_LOCUST_API_KEY", "OPENAI_API_KEY")
"""Read from the environment of the process that sends, in this order; never an option, never in a file of the run."""


def api_key() -> str | None:
    """The key of this process's environment, if there is one."""
    return next((key for name in API_KEY_VARIABLES if (key := os.environ.get(name))), None)


def auth_headers() -> dict[str, str]:
    """The bearer header for :func:`api_key`; empty without a key."""
    key = api_key()
    return {"Authorization": f"Bearer {key}"} if key else {}


class LLMUser(User):
    """A user of an LLM service. Subclass it, name the API, and override :meth:`build_body` to shape the request.

    With a shape of this project the plan decides when a request is sent; without one, each Locust user sends its next
    request when the last has ended (a closed loop).
    """

    abstract = True

    dialect: ClassVar[str]
    """How the reply is read, by its registered name, e.g. ``openai-chat``."""
    path: ClassVar[str]
    """The endpoint, appended to ``--host``."""

    def build_body(self, prompt: Prompt) -> dict[str, Any]:
        """The JSON body of the request for this prompt. Override this."""
        raise NotImplementedError

    def build_headers(self, prompt: Prompt) -> dict[str, str]:
        """Headers of the request beyond the usual ones; the API key comes from the environment of the worker."""
        return auth_headers()

    def build_request(self, prompt: Prompt, request_id: str) -> StreamRequest:
        """The whole request: body, headers, and the id under which the server can log it."""
        return StreamRequest(
            path=self.path,
            body=msgspec.json.encode(self.build_body(prompt)),
            headers=[*self.build_headers(prompt).items(), ("X-Request-Id", request_id)],
            dialect=self.dialect,
        )

    @property
    def model(self) -> str | None:
        """The model of the run (``--model``, or the first that the server lists)."""
        return self._plugin.model

    @task
    def turn(self) -> None:
        """One request in a closed loop; a wait where the plan decides."""
        self._plugin.turn(self)

    @property
    def _plugin(self) -> Plugin:
        plugin: Plugin = self.environment.llm_locust
        return plugin
