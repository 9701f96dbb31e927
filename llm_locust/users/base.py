"""The base of every user: turns a prompt into a request. Subclasses say which API, and what the body looks like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import msgspec
from locust import User, task

from llm_locust.records import UsageError
from llm_locust.streaming import Reply, StreamRequest
from llm_locust.users.checks import Check
from llm_locust.workload import Prompt


class Session(Protocol):
    """The current run, as a user sees it: what every request has in common, and whose turn it is."""

    model: str | None
    headers: dict[str, str]
    streaming: bool
    extra_body: dict[str, Any]
    quality: Check | None
    """What ``--quality`` names."""

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
    can_evict: ClassVar[bool] = False
    """A request of this API can have the model unloaded once it has ended: :meth:`evict_after` says how."""

    def build_body(self, prompt: Prompt) -> dict[str, Any]:
        """The JSON body of the request for this prompt. Override this."""
        raise NotImplementedError

    def build_headers(self, prompt: Prompt) -> dict[str, str]:
        """Headers of the request beyond the usual ones: the API key of this worker's environment, and ``--header``."""
        return self._session.headers

    def add_extra(self, body: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
        """The body with the fields of ``--extra-body``, which overrule it."""
        return {**body, **extra}

    def evict_after(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body of a request after which the server shall unload the model, so that the next one finds it cold.

        The server unloads when the last request in flight has ended. A next request that comes before then is warm, and
        on Ollama keeps the wish alive: the model goes after that one.

        Raises:
            UsageError: this API knows no such wish (:attr:`can_evict` is false).
        """
        raise UsageError(
            f"{type(self).__name__} cannot have the model unloaded: {self.path} has no field for it, only Ollama's own API "
            "does (OllamaChatUser, OllamaGenerateUser)"
        )

    def build_request(self, prompt: Prompt, request_id: str, evict_after: bool = False) -> StreamRequest:
        """The whole request: body, headers, and the id under which the server can log it.

        Args:
            prompt: what to ask.
            request_id: sent as ``X-Request-Id``.
            evict_after: have the model unloaded once the request has ended, whatever the body says of it.

        Raises:
            UsageError: more than one choice is asked for, or ``evict_after`` of an API that cannot.
        """
        return StreamRequest(
            path=self.path,
            body=msgspec.json.encode(self.whole_body(prompt, evict_after=evict_after)),
            headers=[*self.build_headers(prompt).items(), ("X-Request-Id", request_id)],
            dialect=self.dialect,
            streamed=self._session.streaming,
        )

    def whole_body(self, prompt: Prompt, *, evict_after: bool = False) -> dict[str, Any]:
        """The body as it is sent: what :meth:`build_body` says, over it the prompt's own fields, over all ``--extra-body``.

        Raises:
            UsageError: as :meth:`build_request`.
        """
        body = self.build_body(prompt)
        if prompt.extra:
            body = self.add_extra(body, self.request_fields(prompt.extra))
        body = self.add_extra(body, self._session.extra_body)
        if evict_after:
            body = self.evict_after(body)
        if body.get("n", 1) != 1:
            raise UsageError(f"the body asks for n={body['n']} choices: a request has one reply, ask for more requests")
        if not self._session.streaming:
            body = {name: value for name, value in body.items() if name != "stream_options"} | {"stream": False}
        return body

    def request_fields(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Body fields that a prompt or an option asks for (``temperature``, ``stop``, ``tools``, ...) as this API has them.

        Args:
            fields: by their OpenAI names.

        Raises:
            UsageError: this API has no such field.
        """
        return dict(fields)

    def check(self, prompt: Prompt, reply: Reply) -> bool | None:
        """Whether a finished reply is good enough; ``None``: not checked. Override this.

        It is asked of ok replies only, once their times are final; ``reply.text`` holds the generated text. What it says
        goes into the ``quality`` column and is counted apart from errors; it decides whether a request is good where
        ``--slo`` names ``quality``. A check that raises is counted as an error of its own (``error``), never against the
        server. As it stands it is what ``--quality`` names.
        """
        check = self._session.quality
        return None if check is None else check(prompt, reply)

    @property
    def checks(self) -> bool:
        """Its replies are to be checked: :meth:`check` is the class's own, or ``--quality`` names one."""
        return self._session.quality is not None or type(self).check is not LLMUser.check

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
