"""Start and stop as Locust's page asks for them: refused with the reason before anything starts, stopped without waiting."""

from __future__ import annotations

import logging
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from flask import Response, jsonify, request
from locust.env import Environment
from locust.runners import STATE_INIT, STATE_RUNNING, STATE_SPAWNING, STATE_STOPPED, MasterRunner
from locust.web import WebUI
from werkzeug.datastructures import ImmutableMultiDict, MultiDict

from llm_locust.records import UsageError
from llm_locust.web.start_form import Form, StartForm, check_fields
from llm_locust.web.ui_truth import is_starting

if TYPE_CHECKING:
    from llm_locust.plugin.wiring import Plugin

logger = logging.getLogger(__name__)

_OF_USERS = ("user_count", "spawn_rate", "run_time", "profile")


class Swarm:
    """The views ``/swarm`` and ``/stop``, around Locust's own.

    Args:
        environment: Of this process.
        web_ui: Locust's.
        plugin: Checks options, and ends runs.
        start: Locust's view that starts, or edits the number of users.
        stop: Locust's view that stops.
    """

    def __init__(
        self,
        environment: Environment,
        web_ui: WebUI,
        plugin: Plugin,
        start: Callable[[], Any],
        stop: Callable[[], Any],
    ) -> None:
        self._environment = environment
        self._web_ui = web_ui
        self._plugin = plugin
        self._start = start
        self._stop = stop
        host = environment.host or next((user.host for user in environment.user_classes if user.host), None)
        self._form = None if environment.parsed_options is None else StartForm(environment.parsed_options, host)

    # --- start -----------------------------------------------------------------------------------------------------

    def start(self) -> Any:
        """Start a run, or change the number of users of one that goes on."""
        if self._form is None:
            return self._start()
        form = MultiDict(request.form)
        try:
            if self._runner.state in (STATE_SPAWNING, STATE_RUNNING):
                self._check_edit(form)
            else:
                self._check_start(self._form, form)
        except UsageError as error:
            return self._refused(str(error))
        except Exception as error:  # Locust's page would only say that something is wrong
            logger.exception("the start form could not be checked")
            return self._refused(f"{type(error).__name__}: {error}")
        return self._start()

    def _check_edit(self, form: Form) -> None:
        """Of a run that goes on, a page changes how many users there are; its options are settled."""
        live = self._plugin.live
        if self._environment.shape_class is not None:
            raise UsageError("a run goes on: stop it first")
        if live is not None and (live.state == "judging" or live.snapshot(float("inf")).stopping is not None):
            raise UsageError("the run is ending: start again when it has ended")
        assert self._environment.parsed_options is not None
        check_fields(form, self._environment.parsed_options, shaped=False)
        request.form = ImmutableMultiDict([(name, form[name]) for name in _OF_USERS if name in form])

    def _check_start(self, of: StartForm, form: Form) -> None:
        runner, options = self._runner, self._environment.parsed_options
        assert options is not None
        if runner.state not in (STATE_INIT, STATE_STOPPED):
            raise UsageError("the run before is ending: start again in a moment")
        if runner.shape_greenlet is not None and is_starting(self._web_ui, runner):
            raise UsageError("a run is being started already: wait for it")
        if isinstance(runner, MasterRunner) and runner.worker_count == 0:
            raise UsageError("no worker has joined yet: start one with locust --worker, and the same locustfile")
        values = of.values(form)
        host, from_page = of.host(form)
        with self._picked(form):
            shaped = self._environment.shape_class is not None and not self._environment.shape_class.use_common_options
            check_fields(form, options, shaped=shaped)
            changed = {**values, "host": host}
            if not shaped:
                changed["num_users"] = int(form["user_count"])
                runner.target_user_count = int(form["user_count"])
            with self._tried(changed, host, from_page):
                self._plugin.check_options()
        vars(options).update(values)
        self._plugin.host_from_page = from_page
        rest = [(name, value) for name, value in form.items(multi=True) if name not in values and name != "host"]
        if shaped:
            rest = [(name, value) for name, value in rest if name not in ("user_count", "spawn_rate", "run_time")]
        request.form = ImmutableMultiDict([*rest, ("host", host or "")])  # ours are taken; Locust takes its own

    @contextmanager
    def _picked(self, form: Form) -> Iterator[None]:
        """The user classes and the shape that the form picks, where Locust lets it; its own view picks them for good."""
        environment, web_ui = self._environment, self._web_ui
        if not web_ui.userclass_picker_is_active:
            yield
            return
        users, shape = environment.user_classes, environment.shape_class
        known, shapes = environment.available_user_classes or {}, environment.available_shape_classes or {}
        name = form.get("shape_class", "Default")
        if name != "Default" and name not in shapes:
            raise UsageError(f"Shape class: there is none of the name {name!r}")
        wanted = form.getlist("user_classes") or list(known)
        if missing := [user for user in wanted if user not in known]:
            raise UsageError(f"User classes: there is none of the name {missing[0]!r}")
        try:
            environment.user_classes = [known[user] for user in wanted]  # type: ignore[misc]  # Locust says instances
            environment.shape_class = shapes[name] if name != "Default" else None
            yield
        finally:
            environment.user_classes, environment.shape_class = users, shape

    @contextmanager
    def _tried(self, changed: dict[str, Any], host: str | None, from_page: bool) -> Iterator[None]:
        """The environment as it would be."""
        environment, plugin = self._environment, self._plugin
        before = environment.parsed_options, environment.host, plugin.host_from_page
        try:
            environment.parsed_options = Namespace(**{**vars(before[0]), **changed})
            environment.host, plugin.host_from_page = host, from_page
            yield
        finally:
            environment.parsed_options, environment.host, plugin.host_from_page = before

    # --- stop ------------------------------------------------------------------------------------------------------

    def stop(self) -> Any:
        """Stop after drain, and answer at once: what is in flight may take as long as its deadline."""
        plugin, runner = self._plugin, self._runner
        if plugin.stop("drain"):
            self._web_ui._cancel_run_time_timer()
            return self._done("stopping: nothing more is sent, what is in flight ends or meets its deadline")
        if plugin.live is not None and plugin.live.state == "judging":
            return self._done("the run has ended: it is being merged and judged")
        if is_starting(self._web_ui, runner) and runner.shape_greenlet is not None:
            runner.shape_greenlet.kill(block=True)
            runner.shape_greenlet, runner.shape_last_tick = None, None
            return self._done("the start was given up")
        return self._stop()

    # --- inside ----------------------------------------------------------------------------------------------------

    @property
    def _runner(self) -> Any:
        return self._environment.runner

    def _refused(self, reason: str) -> Response:
        logger.warning("not started: %s", reason)
        return jsonify({"success": False, "message": reason, "host": self._environment.host})

    def _done(self, message: str) -> Response:
        return jsonify({"success": True, "message": message})
