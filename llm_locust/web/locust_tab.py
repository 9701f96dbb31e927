"""The tab "LLM" in Locust's own UI, its downloads, and the strip above every tab that says how the run does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from flask import Blueprint, Response, jsonify, request, url_for
from markupsafe import Markup

from llm_locust.live.snapshot import Snapshot
from llm_locust.records import RunFolder
from llm_locust.report.csv_cells import csv_text
from llm_locust.web import pages
from llm_locust.web.downloads import csv_file, file_of
from llm_locust.web.live_page import Guard, View
from llm_locust.web.tab_rows import COLUMNS, csv_rows, table_rows
from llm_locust.web.ui_truth import Told, state_for_page

if TYPE_CHECKING:
    from locust.web import WebUI

KEY = "llm"
TITLE = "LLM"

LINKS: tuple[tuple[str, str], ...] = (
    ("llm", "LLM: live charts of the run"),
    ("llm/workbench", "LLM: workbench"),
    ("llm/tab.csv", "LLM: the table of the tab (CSV)"),
    ("llm/download/requests.csv", "LLM: every request of the newest judged run (CSV)"),
    ("llm/download/worksheet.csv", "LLM: worksheet of the newest judged run (CSV)"),
    ("llm/report/", "LLM: report of the newest judged run"),
    ("llm/download/report.html", "LLM: that report as a file (HTML)"),
)
"""In Locust's tab of downloads; relative to its page, which stands at the base path."""


def tab_blueprint(
    guard: Guard,
    snapshot: Callable[[], Snapshot],
    told: Callable[[], Told],
    newest_run: Callable[[], RunFolder | None],
) -> Blueprint:
    """What the tab and the strip read, and the downloads, as the blueprint ``llm_tab``.

    Args:
        guard: Locust's ``web_ui.auth_required_if_enabled``, put around every view.
        snapshot: The run now, without its series.
        told: The run in a few words.
        newest_run: The folder of the newest judged run, ``None`` before there is one.
    """
    blueprint = Blueprint("llm_tab", __name__)
    pages.secure(blueprint)

    def page(rule: str, endpoint: str) -> Callable[[View], None]:
        return lambda view: blueprint.add_url_rule(f"/llm/{rule}", endpoint, guard(view), methods=["GET"])

    @page("told", "told")
    def _told() -> Response:
        return Response(msgspec.json.encode(told()), content_type="application/json")

    @page("tab.csv", "table")
    def _table() -> Response:
        run = snapshot()
        return csv_file(csv_text(csv_rows(run)), f"{run.run_id or 'no-run'}-live.csv")

    @page("download/<name>", "file")
    def _file(name: str) -> Response:
        return file_of(newest_run(), name)

    return blueprint


def extend_ui(web_ui: WebUI, snapshot: Callable[[], Snapshot], starting: Callable[[], bool]) -> None:
    """Add the tab to Locust's page, its rows to what that page asks for, and the strip above it.

    Args:
        web_ui: Locust's.
        snapshot: The run now, without its series.
        starting: Whether a start was accepted that Locust does not know of yet.
    """
    own: dict[str, Any] = web_ui.template_args
    web_ui.template_args = {
        **own,
        "extended_tabs": [*own.get("extended_tabs", []), {"title": TITLE, "key": KEY}],
        "extended_tables": [
            *own.get("extended_tables", []),
            {"key": KEY, "structure": [{"key": column.key, "title": column.title} for column in COLUMNS]},
        ],
        "extended_csv_files": [
            *own.get("extended_csv_files", []),
            *({"href": f"./{href}", "title": title} for href, title in LINKS),
        ],
    }
    assert web_ui.app is not None

    @web_ui.app.after_request
    def extend(response: Response) -> Response:
        if response.status_code != 200:
            return response
        if request.endpoint == "locust.request_stats" and response.is_json:
            return _with_rows(response, snapshot(), starting=starting())
        if request.endpoint == "locust.index" and response.mimetype == "text/html":
            return _with_strip(response)
        return response


def _with_rows(response: Response, run: Snapshot, *, starting: bool) -> Response:
    """What Locust's page reads every two seconds, with our rows; a new answer, since Locust keeps its own for a while."""
    told = response.get_json()
    others = [table for table in told.get("extended_stats", []) if table.get("key") != KEY]
    told["extended_stats"] = [*others, {"key": KEY, "data": table_rows(run)}]
    told["state"] = state_for_page(told.get("state", ""), starting=starting)
    return jsonify(told)


def _with_strip(response: Response) -> Response:
    html = response.get_data(as_text=True)
    before, body, after = html.rpartition("</body>")
    if not body:
        return response  # somebody's own page: left as it is
    response.set_data(f"{before}{_strip()}{body}{after}")
    return response


def _strip() -> Markup:
    """Its script makes the rest: Locust's page is drawn by scripts, and must not find strangers in what it draws."""
    links = {
        "told": url_for("llm_tab.told"),
        "live": url_for(pages.LIVE_ENDPOINT),
        "workbench": url_for("llm_workbench.page"),
        "report": url_for("llm.report"),
    }
    data = Markup("").join(Markup(' data-{}="{}"').format(name, pages.relative(url)) for name, url in links.items())
    return Markup('<link rel="stylesheet" href="{}"><script defer src="{}"{}></script>').format(
        pages.static_url("locust_strip.css"), pages.static_url("locust_strip.js"), data
    )
