"""``/llm``: a run while it goes on, and the report when it is judged. Every view is behind Locust's own login."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
from flask import Blueprint, Response, abort, make_response, request, url_for

from llm_locust.live.snapshot import Snapshot, StageView
from llm_locust.records import RunFolder
from llm_locust.web import pages

How = Literal["drain", "now"]
View = Callable[..., Any]
Guard = Callable[[View], View]
"""What is put around a view so that only who may see it does."""

REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
"""Content-Security-Policy of ``report.html``: one file with its style inside, and no script at all."""

_LONGEST_POST = 1_000


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the page gets at each look."""

    version: str
    """Of the page's own files: another one than the page was loaded with means that it should be loaded again."""
    chosen: int | None
    """The place in ``run.stages`` of the stage that has all its groups; the others have only the first, all together."""
    report: str | None
    """The run id whose report is at ``llm/report/``; not always that of the run which is shown."""
    run: Snapshot


class Stop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is posted to end a run."""

    how: How


def live_blueprint(
    guard: Guard,
    snapshot: Callable[[float | None], Snapshot],
    stop: Callable[[How], bool],
    report_folder: Callable[[], RunFolder | None],
) -> Blueprint:
    """The pages below ``/llm``, as the blueprint ``llm``; register it under Locust's ``--web-base-path``.

    Args:
        guard: Locust's ``web_ui.auth_required_if_enabled``, put around every view.
        snapshot: The run now; of its series only the points since that time, or all of them for ``None``.
        stop: Ends the run: ``drain`` sends nothing more and lets what is in flight land, ``now`` cancels that too;
            ``False`` when there is nothing to stop.
        report_folder: The folder of the newest judged run, ``None`` before there is one.
    """
    blueprint = Blueprint("llm", __name__)
    pages.secure(blueprint)

    def page(rule: str, endpoint: str, *methods: str) -> Callable[[View], None]:
        def add(view: View) -> None:
            blueprint.add_url_rule(
                rule, endpoint, guard(view), methods=list(methods) or ["GET"], strict_slashes=not rule.endswith("/llm")
            )

        return add

    @page("/llm", "live")
    def _live() -> str:
        return pages.render_page(
            "live.html.j2",
            here="live",
            version=pages.static_version(),
            data_url=pages.relative(url_for("llm.data")),
            stop_url=pages.relative(url_for("llm.stop")),
            report_url=pages.relative(url_for("llm.report")),
        )

    @page("/llm/data", "data")
    def _data() -> Response:
        run = newest(snapshot, request.args.get("run"), number("generation"), number("since"), number("step"))
        chosen = chosen_stage(run.stages, number("stage"))
        folder = report_folder()
        answer = Answer(
            version=pages.static_version(),
            chosen=chosen,
            report=folder.run_id if folder is not None and folder.report_html.is_file() else None,
            run=msgspec.structs.replace(run, stages=lean(run.stages, chosen)),
        )
        return _json(answer)

    @page("/llm/stop", "stop", "POST")
    def _stop() -> Response:
        if reason := pages.cross_site_reason():
            return _refusal(403, f"not stopped: {reason}")
        if (request.content_length or 0) > _LONGEST_POST:
            return _refusal(413, "not stopped: the request is too long")
        try:
            how = msgspec.json.decode(request.get_data(), type=Stop).how
        except msgspec.MsgspecError as error:
            return _refusal(400, f'not stopped: post {{"how": "drain"}} or {{"how": "now"}} ({error})')
        run = snapshot(None)
        if reason := not_to_be_stopped(run, how):
            return _refusal(409, reason)
        if not stop(how):
            return _refusal(409, "the run ended in this moment")
        return _json({"stopping": how})

    @page("/llm/report/", "report")
    def _report() -> Response:
        folder = report_folder()
        if folder is None or not folder.report_html.is_file():
            return make_response(
                pages.render_page(
                    "message.html.j2",
                    here="live",
                    title="No report yet",
                    text="A run has a report once it has ended and was judged.",
                ),
                404,
            )
        response = make_response(folder.report_html.read_bytes())
        response.headers["Content-Security-Policy"] = REPORT_POLICY
        return response

    @page("/llm/report/charts/<name>", "chart")
    def _chart(name: str) -> Response:
        folder = report_folder()
        path = None if folder is None else listed(folder.charts_dir, name)
        if path is None:
            abort(make_response(f"no such chart: {name}", 404, {"Content-Type": "text/plain; charset=utf-8"}))
        response = make_response(path.read_bytes())
        response.mimetype = "text/csv"
        response.headers.set("Content-Disposition", "attachment", filename=path.name)
        return response

    @page("/llm/static/<version>/<path:name>", "static_file")
    def _static_file(version: str, name: str) -> Response:
        return pages.static_response(version, name)

    return blueprint


def newest(
    snapshot: Callable[[float | None], Snapshot],
    run_id: str | None,
    generation: float | None,
    since: float | None,
    step_s: float | None,
) -> Snapshot:
    """The run now, with only the new points if they fit those that the page has, else with all of them.

    They fit when the page has points of this very run at this step. The generation alone does not tell: it begins anew
    with the process.
    """
    if since is None:
        return snapshot(None)
    run = snapshot(since)
    if run.series.whole or (run.run_id, run.generation, run.series.step_s) == (run_id, generation, step_s):
        return run
    return snapshot(None)


def chosen_stage(stages: list[StageView], place: float | None) -> int | None:
    """The place asked for where there is a stage, else that of the newest stage that has begun, else the first."""
    if place is not None and place in range(len(stages)):
        return int(place)
    begun = [at for at, stage in enumerate(stages) if stage.phase != "preparing"]
    return begun[-1] if begun else (0 if stages else None)


def lean(stages: list[StageView], chosen: int | None) -> list[StageView]:
    """The stages, all but the chosen one with only their first group, all together: a long ladder stays a short answer."""
    return [
        stage if place == chosen else msgspec.structs.replace(stage, groups=stage.groups[:1])
        for place, stage in enumerate(stages)
    ]


def not_to_be_stopped(run: Snapshot, how: How) -> str | None:
    """Why there is nothing to stop, or ``None``."""
    if run.state == "idle":
        return "there is no run to stop"
    if run.state != "running":
        return "the run has ended already" + ("; its merge is going on" if run.state == "judging" else "")
    if run.stopping == "now" and how == "drain":
        return "the run is being stopped at once already; that cannot be turned back into a drain"
    return None


def listed(folder: Path, name: str) -> Path | None:
    """The CSV file of that name in the folder's own list, never one that a name leads to."""
    if not folder.is_dir():
        return None
    return next(
        (path for path in folder.iterdir() if path.name == name and path.suffix == ".csv" and _plain(path)), None
    )


def number(name: str) -> float | None:
    """A number of the query string; one that is none counts as not given: the page then gets everything."""
    value = request.args.get(name, type=float)
    return value if value is not None and math.isfinite(value) else None


def _plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, content_type="application/json")


def _refusal(status: int, reason: str) -> Response:
    return _json({"reason": reason}, status)
