"""The side of a process that makes requests: what the users of the current run are told, and what becomes of each record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from locust.env import Environment

from llm_locust.dispatch import RequestBuilder
from llm_locust.plugin.before_load import connect
from llm_locust.plugin.locust_stats import report_request
from llm_locust.plugin.run_setup import llm_users
from llm_locust.records import Clock, RequestRecord
from llm_locust.records.run import RunSpec
from llm_locust.streaming import Reply, StreamClient
from llm_locust.users.base import LLMUser
from llm_locust.users.checks import Check, make_check
from llm_locust.users.headers import refuse_secrets_for, request_headers

if TYPE_CHECKING:
    from llm_locust.plugin.live_view import LiveView


class Sending:
    """What users ask for while they make requests, and what the worker's agent asks of the process that it is in."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.model: str | None = None
        """The model of the current run, as users ask for it."""
        self.headers: dict[str, str] = {}
        """What every request of the current run carries: the key, and ``--header``."""
        self.streaming = True
        self.extra_body: dict[str, Any] = {}
        self.quality: Check | None = None
        self._view: LiveView | None = None

    @property
    def environment(self) -> Environment:
        """Locust's."""
        return self._environment

    def users(self) -> list[LLMUser]:
        """One of each user class of ours."""
        return [user(self._environment) for user in llm_users(self._environment)]

    def builders(self) -> dict[str, RequestBuilder]:
        """The same, by the name that a plan calls them."""
        return {user.__name__: user(self._environment) for user in llm_users(self._environment)}

    def _connect(self, run: RunSpec, clock: Clock) -> StreamClient:
        self.take_over(run)
        self.headers = request_headers(run.api_key_env, run.headers, basic_auth_env=run.basic_auth_env)
        if run.without_secrets:
            refuse_secrets_for(run.host, self.headers, run.headers)
        return connect(run, clock, keep_text=any(builder.checks for builder in self.builders().values()))

    def take_over(self, run: RunSpec) -> None:
        """Let users ask this run for what they need while they make requests."""
        self.model, self.streaming, self.extra_body = run.model, run.streaming, run.extra_body
        self.quality = None if run.quality is None else make_check(run.quality)

    def _observe(self, record: RequestRecord, reply: Reply | None, builder: RequestBuilder) -> None:
        assert isinstance(builder, LLMUser)
        report_request(self._environment, record, reply, builder)
        if self._view is not None:  # a local run: its rows are not shipped
            self._view.on_record(record)
