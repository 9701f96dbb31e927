"""A server that is put questions to, as the users of a load would put them: their bodies, their sockets, their key."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec

from llm_locust.records import Clock, Outcome
from llm_locust.streaming import Reply, StreamClient, StreamRequest
from llm_locust.telemetry.probe import Page, Probe
from llm_locust.telemetry.target import TargetFacts
from llm_locust.telemetry.tokenizing import CannotCount, ServerTokenizer
from llm_locust.users import LLMUser, OllamaChatUser, OllamaGenerateUser, OpenAIChatUser, OpenAICompletionUser
from llm_locust.workload import Prompt

ID_PREFIX = "smoke."
"""How the ids of requests begin that no run sends."""
PAGE_S = 10.0
"""How long one page may take."""

USERS: dict[str, type[LLMUser]] = {
    user.dialect: user for user in (OpenAIChatUser, OpenAICompletionUser, OllamaGenerateUser, OllamaChatUser)
}
"""Who speaks each dialect."""


class RequestFailed(Exception):
    """A request that a check needs did not come out ok."""

    def __init__(self, asked: Asked) -> None:
        reply = asked.reply
        super().__init__(f"{asked.path}: {reply.outcome}: {reply.error}")
        self.reply = reply


class Asked(NamedTuple):
    """One request and its reply."""

    path: str
    body: dict[str, Any]
    reply: Reply

    @property
    def text(self) -> str:
        """The generated text, without reasoning."""
        return self.reply.text or ""

    @property
    def counted(self) -> bool:
        """The output tokens are the server's own count."""
        return self.reply.output_tokens_source == "usage"

    def or_fail(self) -> Asked:
        """Itself, if the reply is ok.

        Raises:
            RequestFailed: it is not.
        """
        if self.reply.outcome is not Outcome.OK:
            raise RequestFailed(self)
        return self


class SmokedServer:
    """The server under test.

    Args:
        base_url: as given with ``--host``.
        model: what every request asks for; ``None`` where the server lists none and none was named.
        headers: sent with everything, as the key is.
        facts: what the server said of itself.
        extra_body: fields of every request's body.
        deadline_s: of a whole request.
        ca_file: PEM certificates to trust instead of the system's.
        insecure: do not verify the server's certificate.
    """

    def __init__(
        self,
        base_url: str,
        model: str | None,
        headers: Mapping[str, str],
        facts: TargetFacts,
        *,
        extra_body: Mapping[str, Any] | None = None,
        deadline_s: float = 60.0,
        ca_file: str | None = None,
        insecure: bool = False,
    ) -> None:
        self.base_url = base_url
        self.model = model
        self.facts = facts
        self.deadline_s = deadline_s
        self.clock = Clock()
        self.client = StreamClient(base_url, self.clock, keep_text=True, ca_file=ca_file, insecure=insecure)
        self.probe = Probe(base_url, headers, ca_file=ca_file, insecure=insecure, clock=self.clock)
        self._session = SimpleNamespace(
            model=model, headers=dict(headers), streaming=True, extra_body=dict(extra_body or {}), quality=None
        )
        self._asked = 0
        self._tokenizer: ServerTokenizer | CannotCount | None = None

    def close(self) -> None:
        """Close its connections."""
        self.client.close()
        self.probe.close()

    def request(
        self,
        text: str,
        *,
        max_tokens: int | None,
        user: type[LLMUser] = OpenAIChatUser,
        streamed: bool = True,
        fields: Mapping[str, Any] | None = None,
    ) -> StreamRequest:
        """The request that this user would send for this text.

        Args:
            text: the prompt.
            max_tokens: the output limit; ``None`` sends none, which only the OpenAI dialects are asked for here.
            user: whose request it is.
            streamed: ask for a stream.
            fields: further fields of the body, by their OpenAI names.
        """
        self._session.streaming = streamed
        made = user(SimpleNamespace(llm_locust=self._session))
        prompt = Prompt(
            index=self._asked, prompt=text, max_tokens=max_tokens or 1, extra={"temperature": 0.0, **(fields or {})}
        )
        self._asked += 1
        body = made.whole_body(prompt)
        if max_tokens is None:
            body.pop("max_tokens", None)
        headers = [*made.build_headers(prompt).items(), ("X-Request-Id", f"{ID_PREFIX}{self._asked}")]
        return StreamRequest(made.path, msgspec.json.encode(body), headers, made.dialect, streamed)

    def ask(
        self,
        text: str,
        *,
        max_tokens: int | None,
        user: type[LLMUser] = OpenAIChatUser,
        streamed: bool = True,
        leave_after_events: int | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> Asked:
        """Send it, and return what came, whatever that is; with ``leave_after_events`` no more than so many are read."""
        request = self.request(text, max_tokens=max_tokens, user=user, streamed=streamed, fields=fields)
        request.leave_after_events = leave_after_events
        reply = self.client.stream(request, deadline_s=self.deadline_s)
        return Asked(request.path, msgspec.json.decode(request.body), reply)

    def page(self, path: str) -> Page:
        """One of the server's own pages.

        Raises:
            NoPage: there was no answer.
        """
        return self.probe.get(path, timeout_s=PAGE_S)

    def tokenizer(self) -> ServerTokenizer:
        """The server's own ``/tokenize``; looked for once.

        Raises:
            CannotCount: it has none, or none that is known.
        """
        if self._tokenizer is None:
            try:
                self._tokenizer = ServerTokenizer(self.probe)
            except CannotCount as why:
                self._tokenizer = why
        if isinstance(self._tokenizer, CannotCount):
            raise CannotCount(str(self._tokenizer))
        return self._tokenizer
