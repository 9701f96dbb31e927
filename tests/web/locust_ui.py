"""Locust's web UI with all our pages, as ``locust`` makes it, without a process and without load."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import flask.testing
import locust
import pytest
from locust import argument_parser
from locust.argument_parser import get_parser
from locust.env import Environment
from locust.web import WebUI

from llm_locust import OpenAIChatUser
from llm_locust.live.run import LiveRun
from llm_locust.plugin.before_load import stages_of
from llm_locust.plugin.options import RunOptions, read_options
from llm_locust.plugin.run_setup import target_url
from llm_locust.plugin.shape import StageShape
from llm_locust.users.headers import refuse_secrets_for, request_headers
from llm_locust.web.wiring import add_pages

LOCUSTS_FORM = argument_parser.ui_extra_args_dict


class ChatUser(OpenAIChatUser):
    pass


class Ladder(StageShape):
    takes = frozenset({"rates"})

    def stages(self, options: RunOptions) -> Any:
        return [options.open_stage(rate) for rate in options.rates_rps]


class PluginStandIn:
    """What pages ask of the plugin: a picture, the check of options before load, and to stop."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.live = LiveRun(time.time_ns)
        self.host_from_page = False
        self.stopped: list[str] = []
        self.goes_on = False

    def check_options(self) -> None:
        options = read_options(self._environment.parsed_options)
        stages_of(self._environment, options, self._environment.parsed_options.num_users or 1)
        host = target_url(self._environment)
        headers = request_headers(options.api_key_env, options.headers, basic_auth_env=options.basic_auth_env)
        if self.host_from_page:
            refuse_secrets_for(host, headers, options.headers)

    def stop(self, how: str) -> bool:
        self.stopped.append(how)
        return self.goes_on


class UI:
    """The pages, and what stands behind them."""

    def __init__(self, *arguments: str, shape: StageShape | None) -> None:
        options = get_parser(default_config_files=[]).parse_args(list(arguments))
        self.environment = Environment(
            user_classes=[ChatUser], shape_class=shape, parsed_options=options, events=locust.events, host=options.host
        )
        self.runner = self.environment.create_local_runner()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(argument_parser, "ui_extra_args_dict", dict)  # slow, and done again for the page
            self.web_ui = WebUI(
                self.environment,
                "127.0.0.1",
                0,
                web_base_path=options.web_base_path,
                delayed_start=True,
                web_login=options.web_login,
                userclass_picker_is_active=options.class_picker,
            )
        self.plugin = PluginStandIn(self.environment)
        self.started: list[tuple[Any, ...]] = []
        self.runner.start = lambda *given, **_: self.started.append(given)  # type: ignore[method-assign]
        self.runner.start_shape = lambda: self.started.append(("shape",))  # type: ignore[method-assign]
        add_pages(self.environment, self.web_ui, self.plugin)  # type: ignore[arg-type]
        assert self.web_ui.app is not None
        self.client: flask.testing.FlaskClient = self.web_ui.app.test_client()

    def start(self, **form: str) -> dict[str, Any]:
        """Press Start; the answer."""
        reply = self.client.post("/swarm", data=form)
        assert reply.status_code == 200
        if self.web_ui._swarm_greenlet is not None:
            self.web_ui._swarm_greenlet.join()
        answer: dict[str, Any] = reply.get_json()
        return answer

    def option(self, name: str) -> Any:
        return getattr(self.environment.parsed_options, name)


@contextmanager
def locust_ui(patch: pytest.MonkeyPatch, *arguments: str, shape: StageShape | None = None) -> Iterator[UI]:
    """The UI of ``locust`` with these arguments; Locust's events are afterwards as they were."""
    patch.setattr("sys.argv", ["locust", *arguments])
    patch.setattr(argument_parser, "ui_extra_args_dict", LOCUSTS_FORM)
    hooks = [hook for hook in vars(locust.events).values() if hasattr(hook, "_handlers")]
    before = [(hook, list(hook._handlers)) for hook in hooks]
    try:
        yield UI(*arguments, shape=shape)
    finally:
        for hook, handlers in before:
            hook._handlers = handlers
