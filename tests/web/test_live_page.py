"""``/llm`` without a browser: who may see it, what it answers, what it refuses."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flask
import msgspec
import pytest

from llm_locust.live.snapshot import Snapshot
from llm_locust.records import RunFolder
from llm_locust.web import pages
from llm_locust.web.live_page import Answer, live_blueprint, newest
from tests.live.made_up import T0, group, judged, series, snapshot, stage

RUN = "20261130-040000-ab12"


def open_door(view: Any) -> Any:
    return view


class Desk:
    """Flask's test client over a live page, and what the page asked of the run."""

    def __init__(self, guard: Callable[[Any], Any] = open_door, prefix: str | None = None, **changes: Any) -> None:
        self.changes = changes
        self.asked: list[float | None] = []
        self.stops: list[str] = []
        self.stoppable = True
        self.folder: RunFolder | None = None
        app = flask.Flask(__name__)
        locust = flask.Blueprint("locust", __name__, url_prefix=prefix)
        locust.add_url_rule("/", "index", lambda: "Locust")
        app.register_blueprint(locust)
        app.register_blueprint(live_blueprint(guard, self.snapshot, self.stop, lambda: self.folder), url_prefix=prefix)
        self.app = app
        self.client = app.test_client()

    def snapshot(self, since: float | None) -> Snapshot:
        self.asked.append(since)
        return since_then(snapshot(**self.changes), since)

    def stop(self, how: str) -> bool:
        self.stops.append(how)
        return self.stoppable

    def data(self, query: str = "") -> Answer:
        answer = self.client.get(f"/llm/data{query}")
        assert answer.status_code == 200
        assert answer.headers["Content-Type"] == "application/json"
        return msgspec.json.decode(answer.data, type=Answer)


def since_then(run: Snapshot, since: float | None) -> Snapshot:
    """The snapshot with the points since that time only."""
    if since is None:
        return run
    first = next((k for k, t in enumerate(run.series.t) if t >= since), len(run.series.t))
    columns = {name: values[first:] for name, values in run.series.columns.items()}
    newer = msgspec.structs.replace(run.series, whole=False, t=run.series.t[first:], columns=columns)
    return msgspec.structs.replace(run, series=newer)


@pytest.fixture
def judged_folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / RUN)
    folder.charts_dir.mkdir(parents=True)
    folder.report_html.write_text("<!doctype html><style>p {}</style><p>The report.", encoding="utf-8")
    (folder.charts_dir / "ttft.csv").write_text("t_s,p95_ms\n0,240\n", encoding="utf-8")
    (folder.path / "manifest.json").write_text('{"host": "secret.csv"}', encoding="utf-8")
    return folder


# --- who may see it


def test_every_view_is_behind_locusts_own_login() -> None:
    def shut(view: Any) -> Any:
        @functools.wraps(view)
        def wrapper(*_: object, **__: object) -> flask.Response:
            return flask.make_response("log in first", 401)

        return wrapper

    desk = Desk(shut)
    rules = [rule for rule in desk.app.url_map.iter_rules() if rule.endpoint.startswith("llm.")]
    assert {rule.endpoint for rule in rules} == {
        "llm.live", "llm.data", "llm.stop", "llm.report", "llm.chart", "llm.static_file",
    }  # fmt: skip
    with desk.app.test_request_context():
        for rule in rules:
            url = flask.url_for(rule.endpoint, **dict.fromkeys(rule.arguments, "x"))
            for method in (rule.methods or set()) - {"OPTIONS", "HEAD"}:
                assert desk.client.open(url, method=method).status_code == 401, rule
    assert desk.asked == []
    assert desk.stops == []


@pytest.mark.parametrize("login", [False, True])
def test_within_locusts_own_ui_its_base_path_and_login_hold(login: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from locust.env import Environment
    from locust.web import WebUI

    monkeypatch.setattr(sys, "argv", ["locust"])  # which it parses
    environment = Environment(user_classes=[])
    environment.create_local_runner()
    ui = WebUI(environment, "127.0.0.1", 0, web_base_path="/lab", web_login=login, delayed_start=True)
    assert ui.app is not None
    ui.app.secret_key = "of this test"
    if login:
        ui.login_manager.user_loader(lambda _: None)  # nobody is logged in
    desk = Desk()
    blueprint = live_blueprint(ui.auth_required_if_enabled, desk.snapshot, desk.stop, lambda: None)
    ui.app.register_blueprint(blueprint, url_prefix="/lab")
    client = ui.app.test_client()
    page, data = client.get("/lab/llm"), client.get("/lab/llm/data", headers={"Origin": "http://evil.example"})
    stopped = client.post("/lab/llm/stop", json={"how": "now"})
    assert client.get("/llm").status_code == 404
    assert data.headers.getlist("Access-Control-Allow-Origin") == ["http://localhost"]  # not *, as Locust's own
    if login:
        assert [answer.status_code for answer in (page, data, stopped)] == [302, 302, 302]
        assert page.headers["Location"].startswith("/lab/login")
        assert desk.stops == []
    else:
        assert [answer.status_code for answer in (page, data, stopped)] == [200, 200, 200]
        assert 'href="./"' in page.text
        assert client.get("/lab/").status_code == 200
    environment.runner.quit()


def test_a_process_that_makes_load_is_spared_pandas_and_matplotlib() -> None:
    code = "import llm_locust.web.live_page as p, sys; from llm_locust.web import pages; pages.static_files()\n"
    code += "print(sorted({'pandas', 'matplotlib', 'scipy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


# --- the page


@pytest.mark.parametrize("prefix", [None, "/lab"])
def test_the_page_holds_only_relative_links_and_no_script_of_its_own(prefix: str | None) -> None:
    answer = Desk(prefix=prefix).client.get(f"{prefix or ''}/llm")
    assert answer.status_code == 200
    version = pages.static_version()
    assert f'src="./llm/static/{version}/live.js"' in answer.text
    assert 'href="./"' in answer.text
    assert 'href="./llm/workbench"' in answer.text
    assert 'data-data="./llm/data"' in answer.text
    assert 'href="/' not in answer.text
    assert 'src="/' not in answer.text
    assert "style=" not in answer.text
    assert answer.headers["Content-Security-Policy"] == pages.PAGE_POLICY
    assert answer.headers["Cache-Control"] == "no-store"


def test_a_closing_slash_leads_to_the_same_page() -> None:
    answer = Desk().client.get("/llm/")
    assert answer.status_code == 200
    assert 'data-data="./data"' in answer.text


# --- the data


def test_a_page_that_has_nothing_gets_everything() -> None:
    desk = Desk()
    answer = desk.data()
    assert desk.asked == [None]
    assert answer.run == msgspec.structs.replace(snapshot(), stages=answer.run.stages)
    assert len(answer.run.series.t) == 120
    assert answer.version == pages.static_version()


def test_a_page_that_has_the_rest_gets_only_the_new_points() -> None:
    desk = Desk()
    answer = desk.data(f"?run={RUN}&generation=1&step=1.0&since={T0 + 117}")
    assert desk.asked == [T0 + 117]
    assert answer.run.series.t == [T0 + 117, T0 + 118, T0 + 119]
    assert answer.run.series.whole is False
    assert answer.run.series.columns["ttft_p95_ms"] == series().columns["ttft_p95_ms"][117:]


@pytest.mark.parametrize(
    "query",
    [
        f"?run={RUN}&generation=2&step=1.0&since={T0 + 117}",  # it has points of another run of this process
        f"?run=20261130-030000-ff00&generation=1&step=1.0&since={T0 + 117}",  # of a process before this one
        f"?run={RUN}&generation=1&step=2.0&since={T0 + 117}",  # of another step
        f"?run={RUN}&since={T0 + 117}",  # it does not say of which
        f"?run={RUN}&generation=1&step=1.0&since=yesterday",
        f"?run={RUN}&generation=1&step=1.0&since=nan",
        f"?run={RUN}&generation=1&step=1.0&since=inf",
    ],
)
def test_points_that_would_not_fit_those_of_the_page_are_sent_whole(query: str) -> None:
    answer = Desk().data(query)
    assert answer.run.series.whole is True
    assert len(answer.run.series.t) == 120


def test_a_whole_series_is_taken_as_it_comes() -> None:
    taken: list[float | None] = []

    def whole(since: float | None) -> Snapshot:
        taken.append(since)
        return snapshot(series=series(60, step_s=2.0))

    assert newest(whole, RUN, 1, T0, 1.0).series.step_s == 2.0
    assert taken == [T0]


def test_the_chosen_stage_has_its_slices_and_the_others_only_their_sum() -> None:
    stages = [stage(k, groups=[group(), group("faq"), group("long")]) for k in range(3)]
    desk = Desk(stages=[*stages, stage(3, phase="preparing", groups=[])])
    newest_begun, asked = desk.data(), desk.data("?stage=0")
    assert (newest_begun.chosen, [len(one.groups) for one in newest_begun.run.stages]) == (2, [1, 1, 3, 0])
    assert (asked.chosen, [len(one.groups) for one in asked.run.stages]) == (0, [3, 1, 1, 0])


@pytest.mark.parametrize("place", ["-1", "3", "1.5", "x", "nan", ""])
def test_a_stage_that_is_not_there_gives_the_newest(place: str) -> None:
    desk = Desk(stages=[stage(0), stage(1), stage(2)])
    assert desk.data(f"?stage={place}").chosen == 2


def test_before_any_run_there_is_nothing_to_choose() -> None:
    answer = Desk(state="idle", run_id=None, stages=[]).data()
    assert (answer.chosen, answer.report, answer.run.stages) == (None, None, [])


def test_what_was_not_measured_stays_null_on_its_way() -> None:
    desk = Desk(stages=[stage(0, groups=[group(good=None, attainment=None, goodput_rps=None, latencies={})])])
    sent = json.loads(desk.client.get("/llm/data").data)
    assert sent["run"]["stages"][0]["groups"][0]["goodput_rps"] is None
    assert sent["run"]["series"]["columns"]["gpu_utilisation_pct"] == [None] * 120


# --- stopping


@pytest.mark.parametrize("how", ["drain", "now"])
def test_a_run_is_stopped_as_asked(how: str) -> None:
    desk = Desk()
    answer = desk.client.post("/llm/stop", json={"how": how}, headers={"Sec-Fetch-Site": "same-origin"})
    assert (answer.status_code, answer.get_json()) == (200, {"stopping": how})
    assert desk.stops == [how]


@pytest.mark.parametrize(
    ("changes", "how", "reason"),
    [
        ({"state": "idle"}, "drain", "there is no run to stop"),
        ({"state": "judging"}, "now", "the run has ended already; its merge is going on"),
        ({"state": "judged", "judged": judged()}, "drain", "the run has ended already"),
        ({"state": "failed"}, "drain", "the run has ended already"),
        (
            {"stopping": "now"},
            "drain",
            "the run is being stopped at once already; that cannot be turned back into a drain",
        ),
    ],
)
def test_what_cannot_be_stopped_is_said_and_left_alone(changes: dict[str, Any], how: str, reason: str) -> None:
    desk = Desk(**changes)
    answer = desk.client.post("/llm/stop", json={"how": how})
    assert (answer.status_code, answer.get_json()) == (409, {"reason": reason})
    assert desk.stops == []


def test_a_drain_may_still_be_cut_short() -> None:
    desk = Desk(stopping="drain")
    assert desk.client.post("/llm/stop", json={"how": "now"}).status_code == 200
    assert desk.stops == ["now"]


def test_a_run_that_ends_while_it_is_to_be_stopped_is_said() -> None:
    desk = Desk()
    desk.stoppable = False
    answer = desk.client.post("/llm/stop", json={"how": "now"})
    assert (answer.status_code, answer.get_json()) == (409, {"reason": "the run ended in this moment"})


@pytest.mark.parametrize(
    ("body", "kind", "origin", "status"),
    [
        (b'{"how": "drain"}', "text/plain", None, 403),
        (b'{"how": "drain"}', "application/json", "http://evil.example", 403),
        (b'{"how": "later"}', "application/json", None, 400),
        (b'{"how": "drain", "when": 3}', "application/json", None, 400),
        (b'["drain"]', "application/json", None, 400),
        (b"{", "application/json", None, 400),
        (b"", "application/json", None, 400),
        (b'{"how": "' + b"x" * 2_000 + b'"}', "application/json", None, 413),
    ],
)
def test_a_wrong_request_stops_nothing(body: bytes, kind: str, origin: str | None, status: int) -> None:
    desk = Desk()
    headers = {"Origin": origin} if origin else {}
    answer = desk.client.post("/llm/stop", data=body, content_type=kind, headers=headers)
    assert answer.status_code == status
    assert answer.get_json()["reason"].startswith("not stopped: ")
    assert desk.stops == []


def test_looking_at_the_address_stops_nothing() -> None:
    desk = Desk()
    assert desk.client.get("/llm/stop?how=now").status_code == 405
    assert desk.stops == []


# --- the report


def test_the_report_is_served_with_its_style_and_without_any_script(judged_folder: RunFolder) -> None:
    desk = Desk()
    desk.folder = judged_folder
    answer = desk.client.get("/llm/report/")
    assert (answer.status_code, answer.data) == (200, judged_folder.report_html.read_bytes())
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'; style-src 'unsafe-inline'" in policy
    assert "script-src" not in policy
    assert desk.data().report == RUN


def test_the_data_of_its_charts_are_served_as_files_to_keep(judged_folder: RunFolder) -> None:
    desk = Desk()
    desk.folder = judged_folder
    answer = desk.client.get("/llm/report/charts/ttft.csv")
    assert (answer.status_code, answer.data) == (200, b"t_s,p95_ms\n0,240\n")
    assert answer.headers["Content-Disposition"] == "attachment; filename=ttft.csv"
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"


@pytest.mark.parametrize(
    "name",
    ["../manifest.json", "..%2fmanifest.json", "%2e%2e%2fmanifest.json", "..", ".", "tpot.csv", "ttft.csv%00", "leak.csv",
     "..%5cmanifest.json", "folder.csv", "notes.txt"],
)  # fmt: skip
def test_only_what_is_in_the_list_of_charts_is_served(judged_folder: RunFolder, name: str) -> None:
    (judged_folder.charts_dir / "leak.csv").symlink_to(judged_folder.path / "manifest.json")
    (judged_folder.charts_dir / "folder.csv").mkdir()
    (judged_folder.charts_dir / "notes.txt").write_text("secret.csv", encoding="utf-8")
    desk = Desk()
    desk.folder = judged_folder
    answer = desk.client.get(f"/llm/report/charts/{name}")
    assert answer.status_code in (404, 308)
    assert b"secret.csv" not in answer.data


def test_without_a_judged_run_there_is_no_report_and_it_is_said() -> None:
    desk = Desk()
    answer = desk.client.get("/llm/report/")
    assert answer.status_code == 404
    assert "No report yet" in answer.text
    assert desk.client.get("/llm/report/charts/ttft.csv").status_code == 404


def test_a_run_that_was_judged_without_a_report_has_none(judged_folder: RunFolder) -> None:
    judged_folder.report_html.unlink()
    desk = Desk()
    desk.folder = judged_folder
    assert desk.client.get("/llm/report/").status_code == 404
    assert desk.data().report is None
