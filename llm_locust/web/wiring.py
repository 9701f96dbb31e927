"""All our pages, put into Locust's web UI: called once, on the process that has it."""

from __future__ import annotations

import logging
from argparse import Namespace
from functools import cache
from typing import TYPE_CHECKING, Any

from flask import Response, jsonify, request
from locust import argument_parser
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment
from locust.web import WebUI

from llm_locust.live.snapshot import Snapshot
from llm_locust.plugin.shape import SHAPE_OPTIONS, WITHOUT_A_SHAPE, StageShape
from llm_locust.records import RunFolder
from llm_locust.web import pages
from llm_locust.web.live_page import Guard, live_blueprint
from llm_locust.web.locust_tab import extend_ui, tab_blueprint
from llm_locust.web.start_form import dress, in_order
from llm_locust.web.swarm import Swarm
from llm_locust.web.ui_truth import Told, is_starting, told_of
from llm_locust.web.workbench.routes import workbench_blueprint

if TYPE_CHECKING:
    from llm_locust.plugin.wiring import Plugin

logger = logging.getLogger(__name__)

NO_SERIES = float("inf")
"""Of the series only the points from then on: none."""

_OF_A_USER_CLASS = frozenset({"user_class_name", "host", "weight", "fixed_count", "tasks"})
"""What Locust's page shows of a user class."""


def add_pages(environment: Environment, web_ui: WebUI, plugin: Plugin) -> None:
    """Add the tab, ``/llm``, the workbench and the downloads, and put the start form and the stop button in order.

    Args:
        environment: Of this process, a master's or a local runner's.
        web_ui: Locust's, which does not serve yet.
        plugin: Of this process; it has the live picture and ends runs.
    """
    live, runner, app = plugin.live, environment.runner, web_ui.app
    assert live is not None
    assert runner is not None
    assert app is not None
    options: Namespace = environment.parsed_options or Namespace(web_trusted=False, web_base_path="")
    guard: Guard = web_ui.auth_required_if_enabled

    def now() -> Snapshot:
        return live.snapshot(NO_SERIES)

    def newest_run() -> RunFolder | None:
        return None if live.newest_judged is None else RunFolder(live.newest_judged)

    def starting() -> bool:
        return is_starting(web_ui, runner)

    def told() -> Told:
        folder = newest_run()
        return told_of(now(), starting=starting(), report=folder is not None and folder.report_html.is_file())

    @app.after_request
    def for_this_site_alone(response: Response) -> Response:
        """Locust lets scripts of every site read its answers (CORS ``*``): logs, options and figures are ours alone."""
        response.headers.setdefault("Access-Control-Allow-Origin", f"{request.scheme}://{request.host}")
        return response

    for blueprint in (
        live_blueprint(guard, live.snapshot, plugin.stop, newest_run),
        workbench_blueprint(guard, newest_run, lambda: live.state in ("running", "judging")),
        tab_blueprint(guard, now, told, newest_run),
    ):
        app.register_blueprint(blueprint, url_prefix=options.web_base_path or None)
    extend_ui(web_ui, now, starting)

    swarm = Swarm(environment, web_ui, plugin, app.view_functions["locust.swarm"], app.view_functions["locust.stop"])
    app.view_functions["locust.swarm"] = guard(swarm.start)
    app.view_functions["locust.stop"] = guard(swarm.stop)

    def on_parser(parser: LocustArgumentParser, **_: Any) -> None:
        dress(parser, options, _unread(environment, web_ui))

    environment.events.init_command_line_parser.add_listener(on_parser)
    # Locust looks up what is in the form for every load of its page, in time that grows with the cube of the options: with
    # ours a tenth of a second, in which a process that makes load itself would send nothing.
    shown = argument_parser.ui_extra_args_dict
    argument_parser.ui_extra_args_dict = cache(lambda *arguments: in_order(shown(*arguments)))
    app.jinja_env.policies["json.dumps_kwargs"] = {"sort_keys": False}  # it would sort the fields

    @app.before_request
    def refuse_what_no_page_of_ours_sends() -> tuple[Response, int] | None:
        """Locust's own views take what any page of any site posts, with this browser's login."""
        if request.method not in ("POST", "PUT", "PATCH", "DELETE"):
            return None
        reason = pages.other_site()
        if reason is None and request.endpoint == "locust.update_user":
            reason = _not_of_a_user_class(web_ui)
        if reason is None:
            return None
        logger.warning("refused: %s %s, %s", request.method, request.path, reason)
        return jsonify({"success": False, "message": f"refused: {reason}"}), 403


def _unread(environment: Environment, web_ui: WebUI) -> frozenset[str]:
    """Which options the run to come does not read of those that say what stages there are; none while nobody knows."""
    shape = environment.shape_class
    if web_ui.userclass_picker_is_active:
        return frozenset()
    if shape is None:
        return WITHOUT_A_SHAPE
    takes = shape.takes if isinstance(shape, StageShape) else None
    return frozenset() if takes is None else SHAPE_OPTIONS - takes


def _not_of_a_user_class(web_ui: WebUI) -> str | None:
    """Why a user class is not changed: Locust would set any attribute, here and on every worker."""
    if not web_ui.userclass_picker_is_active:
        return "user classes are changed from the page only with --class-picker"
    told = request.get_json(force=True, silent=True)
    if not isinstance(told, dict) or (others := sorted(told.keys() - _OF_A_USER_CLASS)):
        named = ", ".join(map(repr, others)) if isinstance(told, dict) else "what was posted"
        return f"{named} cannot be changed from a page; {', '.join(sorted(_OF_A_USER_CLASS))} can"
    return None
