"""The base of every user: turns a prompt into a request. Subclasses say which API, and what the body looks like."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import msgspec
from locust import User, task

from llm_locust.records import UsageError
from llm_locust.streaming import StreamRequest
from llm_locust.workload import Prompt


class Session(Protocol):
    """The current run, as a user sees it: what every request has in common, and whose turn it is."""

    model: str | None
    headers: dict[str, str]
    streaming: bool
    extra_body: dict[str, Any]

    def turn(self, user: LLMUser) -> None:
        """One task execution of a user."""
        ...


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
        """Headers of the request beyond the usual ones: the API key of this worker's environment, and ``--header``."""
        return self._session.headers

    def build_request(self, prompt: Prompt, request_id: str) -> StreamRequest:
        """The whole request: body, headers, and the id under which the server can log it."""
        body = {**self.build_body(prompt), **self._session.extra_body}
        if body.get("n", 1) != 1:
            raise UsageError(f"the body asks for n={body['n']} choices: a request has one reply, ask for more requests")
        if not self._session.streaming:
            body = {name: value for name, value in body.items() if name != "stream_options"} | {"stream": False}
        return StreamRequest(
            path=self.path,
            body=msgspec.json.encode(body),
            headers=[*self.build_headers(prompt).items(), ("X-Request-Id", request_id)],
            dialect=self.dialect,
            streamed=self._session.streaming,
        )

    @property
    def model(self) -> str | None:
        """The model of the run (``--model``, or the first that the server lists)."""
        return self._session.model

    @task
    def turn(self) -> None:
        """One request in a closed loop; a wait where the plan decides."""
        self._session.turn(self)

    @property
    def _session(self) -> Session:
        session: Session = self.environment.llm_locust
        return session
