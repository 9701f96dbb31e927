"""``/llm/workbench``: the page and what it posts. Nothing is computed here; see :mod:`llm_locust.web.workbench.desk`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import msgspec
from flask import Blueprint, Response, request, url_for

from llm_locust.records import RunFolder, UsageError
from llm_locust.records.text import one_line
from llm_locust.web import pages
from llm_locust.web.workbench import forms
from llm_locust.web.workbench.desk import Answer, Desk, refusal
from llm_locust.web.workbench.remerge import JUDGED, merge_again

View = Callable[..., Any]

LONGEST_POST = 1_000_000
"""Bytes: a worksheet of 200 filled rows, or any model's ``config.json``, is well below."""

QUESTIONS = ("record", "goodput", "kv", "worksheet/csv", "worksheet/markdown")
"""What anybody may ask without a run."""


def workbench_blueprint(
    guard: Callable[[View], View],
    newest_run: Callable[[], RunFolder | None],
    running: Callable[[], bool] = lambda: False,
) -> Blueprint:
    """The workbench as the blueprint ``llm_workbench``; register it beside the live pages, under ``--web-base-path``.

    Args:
        guard: Locust's ``web_ui.auth_required_if_enabled``, put around every view.
        newest_run: The folder of the newest judged run, ``None`` before there is one.
        running: Whether a run is going on: a merge would then take its processor from the load.
    """
    blueprint = Blueprint("llm_workbench", __name__)
    pages.secure(blueprint)
    desk = Desk()
    merging = threading.Lock()

    def route(rule: str, endpoint: str, method: str) -> Callable[[View], None]:
        def add(view: View) -> None:
            blueprint.add_url_rule(f"/llm/workbench{rule}", endpoint, guard(view), methods=[method])

        return add

    def posted() -> bytes | Answer:
        if reason := pages.cross_site_reason():
            return refusal(403, reason)
        if request.content_length is None:
            return refusal(411, "the request does not say how long it is")
        if request.content_length > LONGEST_POST:
            return refusal(413, f"more than {LONGEST_POST // 1_000_000} MB were posted")
        return request.get_data()

    def folder_shown() -> RunFolder | Answer:
        """The newest run, if it is the one that the page shows."""
        folder = newest_run()
        if folder is None:
            return refusal(409, "there is no judged run")
        if (shown := request.args.get("run")) != folder.run_id:
            told = "no run" if shown is None else one_line(shown, 100)
            return refusal(409, f"the page shows {told}, but the newest judged run is {folder.run_id}: reload it")
        return folder

    @route("", "page", "GET")
    def _page() -> str:
        return pages.render_page(
            "workbench.html.j2",
            here="workbench",
            base=pages.relative(url_for("llm_workbench.page")),
            groups=forms.GROUPS,
            longest_post=LONGEST_POST,
        )

    @route("/opening", "opening", "GET")
    def _opening() -> Response:
        return _json(desk.ask("opening", newest_run()))

    def add_question(question: str) -> None:
        @route(f"/{question}", question.replace("/", "_"), "POST")
        def _question() -> Response:
            body = posted()
            return _json(body if isinstance(body, Answer) else desk.ask(question, None, body))

    for question in QUESTIONS:
        add_question(question)

    @route("/facts", "facts", "POST")
    def _facts() -> Response:
        body = posted()
        if isinstance(body, Answer):
            return _json(body)
        folder = folder_shown()
        return _json(folder if isinstance(folder, Answer) else desk.ask("facts", folder, body))

    @route("/merge", "merge", "POST")
    def _merge() -> Response:
        body = posted()
        if isinstance(body, Answer):
            return _json(body)
        folder = folder_shown()
        if isinstance(folder, Answer):
            return _json(folder)
        if running():
            return _json(
                refusal(409, "a run is going on: a merge would take its processor from the load; wait for its end")
            )
        if not merging.acquire(blocking=False):
            return _json(refusal(409, "it is being merged already"))
        try:
            status, output = merge_again(folder)
        except UsageError as error:
            return _json(refusal(400, str(error)))
        finally:
            merging.release()
        if status not in JUDGED:
            return _json(refusal(400, output.strip() or f"llm-locust merge ended with status {status}"))
        return _json(Answer(200, msgspec.json.encode({"status": status, "output": output})))

    return blueprint


def _json(answer: Answer) -> Response:
    return Response(answer.body, answer.status, content_type="application/json")
