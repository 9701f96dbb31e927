"""The tab "LLM" in Locust's UI: its rows, its downloads, the strip, the stop button, and who may use them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from llm_locust.live.snapshot import Snapshot
from llm_locust.web.locust_tab import KEY, LINKS
from llm_locust.web.tab_rows import COLUMNS
from llm_locust.web.ui_truth import state_for_page, told_of
from tests.live.made_up import judged, snapshot, stage
from tests.web.locust_ui import UI, ChatUser, Ladder, locust_ui

Open = Callable[..., UI]
HOST = "http://127.0.0.1:8000"


@pytest.fixture
def ui(monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    with ExitStack() as stack:
        yield lambda *arguments, **more: stack.enter_context(locust_ui(monkeypatch, *arguments, **more))


def shows(ui: UI, monkeypatch: pytest.MonkeyPatch, run: Snapshot) -> None:
    monkeypatch.setattr(ui.plugin.live, "snapshot", lambda since=None: run)


def arguments_of(page: str) -> dict[str, Any]:
    found = re.search(r"window\.templateArgs = (.*)\n", page)
    assert found is not None
    arguments: dict[str, Any] = json.loads(found[1])
    return arguments


@pytest.mark.parametrize("base", ["", "/lab"])
def test_the_page_has_the_tab_the_links_and_the_strip_under_any_base_path(ui: Open, base: str) -> None:
    page = ui("--host", HOST, "--web-base-path", base, shape=Ladder())
    html = page.client.get(f"{base}/").get_data(as_text=True)
    arguments = arguments_of(html)
    assert arguments["extended_tabs"] == [{"title": "LLM", "key": KEY}]
    assert [column["key"] for column in arguments["extended_tables"][0]["structure"]] == [
        column.key for column in COLUMNS
    ]
    for href in [link["href"] for link in arguments["extended_csv_files"]] + re.findall(
        r'(?:href|src|data-told)="(\./\./llm[^"]*|\./llm[^"]*)"', html
    ):
        reply = page.client.get(f"{base}/{href.removeprefix('./').removeprefix('./')}")
        assert reply.status_code in (200, 404), href
        assert (
            reply.status_code == 200 or b"a run has one once it has ended" in reply.data or b"No report" in reply.data
        )
    assert "locust_strip.js" in html


def test_what_locusts_page_asks_for_every_two_seconds_has_the_rows(ui: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ui("--host", HOST)
    shows(page, monkeypatch, snapshot())
    for _ in range(2):  # the second answer is one that Locust has kept
        told = page.client.get("/stats/requests").get_json()
        (table,) = told["extended_stats"]
        assert table["key"] == KEY
        assert {row["stage"] for row in table["data"]} == {"1 req/s", "2 req/s"}
        assert table["data"][0].keys() == {column.key for column in COLUMNS}


def test_tables_of_others_stay(ui: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ui("--host", HOST)
    page.web_ui.template_args["extended_tabs"].insert(0, {"title": "Mine", "key": "mine"})
    assert [tab["key"] for tab in arguments_of(page.client.get("/").get_data(as_text=True))["extended_tabs"]] == [
        "mine", KEY,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("state", "starting", "shown"),
    [
        ("ready", False, "ready"), ("ready", True, "spawning"), ("stopped", True, "spawning"), ("running", False, "running"),
        ("stopping", False, "running"), ("cleanup", False, "running"), ("stopped", False, "stopped"),
    ],
)  # fmt: skip
def test_locusts_page_looks_on_until_the_run_has_ended(state: str, starting: bool, shown: str) -> None:
    assert state_for_page(state, starting=starting) == shown


def test_the_table_is_a_file_too(ui: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ui("--host", HOST)
    shows(page, monkeypatch, snapshot())
    reply = page.client.get("/llm/tab.csv")
    assert reply.mimetype == "text/csv"
    assert reply.headers["Content-Disposition"] == "attachment; filename=20261130-040000-ab12-live.csv"
    assert reply.get_data(as_text=True).startswith("run_id,stage,round,label,")


def test_files_of_the_newest_judged_run_and_of_no_other_place(ui: Open, tmp_path: Path) -> None:
    page = ui("--host", HOST)
    assert page.client.get("/llm/download/requests.csv").status_code == 404
    run = tmp_path / "20261130-040000-ab12"
    run.mkdir()
    (run / "requests.csv").write_text("a\n1\n")
    (run / "manifest.json").write_text("{}")
    (tmp_path / "secret.csv").write_text("secret")
    (run / "worksheet.csv").symlink_to(tmp_path / "secret.csv")
    page.plugin.live.newest_judged = str(run)
    reply = page.client.get("/llm/download/requests.csv")
    assert (reply.status_code, reply.get_data(as_text=True)) == (200, "a\n1\n")
    assert "20261130-040000-ab12-requests.csv" in reply.headers["Content-Disposition"]
    for name in ("manifest.json", "worksheet.csv", "summary.json", "..%2Fsecret.csv", "%2Fetc%2Fpasswd", "plan.csv"):
        assert page.client.get(f"/llm/download/{name}").status_code == 404, name


@pytest.mark.parametrize(
    ("changes", "starting", "state", "text"),
    [
        ({"state": "idle", "stages": []}, False, "idle", "no run yet"),
        ({"state": "idle", "stages": []}, True, "starting", "starting: the server is looked for"),
        ({"stages": []}, False, "running", "a run has begun"),
        ({}, False, "running", "stage 2 of 3, 2 req/s: window, 10 s left, 9 in flight"),
        ({"stopping": "drain"}, False, "draining", "nothing more is sent, 9 in flight may end or meet its deadline"),
        ({"stopping": "now"}, False, "stopping", "what is in flight is cancelled"),
        ({"state": "judging"}, False, "judging", "it is being merged and judged"),
        ({"state": "judged", "judged": judged()}, False, "judged", "2 req/s was sustained"),
        ({"state": "judged", "judged": judged()}, True, "starting", "starting"),
        ({"state": "failed", "reason": "nothing listens"}, False, "failed", "nothing listens"),
    ],
)
def test_the_strip_says_where_the_run_is(changes: dict[str, Any], starting: bool, state: str, text: str) -> None:
    told = told_of(snapshot(**changes), starting=starting, report=False)
    assert told.state == state
    assert text in told.text


def test_the_strip_names_the_round_of_a_stage() -> None:
    told = told_of(snapshot(stages=[stage(0, 1.0, round=1)]), starting=False, report=True)
    assert "1 req/s (round 2)" in told.text
    assert told.report


# --- stop --------------------------------------------------------------------------------------------------------------


def test_locusts_stop_button_stops_after_drain_and_does_not_wait_for_it(ui: Open) -> None:
    page = ui("--host", HOST)
    page.plugin.goes_on = True
    asked: list[str] = []
    page.runner.stop = lambda: asked.append("locust")  # type: ignore[method-assign]
    answer = page.client.post("/stop").get_json()
    assert answer["success"]
    assert "nothing more is sent" in answer["message"]
    assert (page.plugin.stopped, asked) == (["drain"], [])


def test_without_a_run_of_ours_locust_stops_as_ever(ui: Open) -> None:
    page = ui("--host", HOST)
    asked: list[str] = []
    page.runner.stop = lambda: asked.append("locust")  # type: ignore[method-assign]
    assert page.client.post("/stop").get_json()["success"]
    assert asked == ["locust"]


# --- who may -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/swarm", "/stop", "/stats/reset", "/user"])
@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}]
)
def test_a_page_of_another_site_starts_and_stops_nothing(ui: Open, path: str, headers: dict[str, str]) -> None:
    page = ui("--host", HOST)
    reply = page.client.post(path, data={"user_count": "1", "spawn_rate": "1"}, headers=headers)
    assert reply.status_code == 403
    assert "another site" in reply.get_json()["message"]
    assert (page.started, page.plugin.stopped) == ([], [])


def test_a_page_of_this_site_may(ui: Open) -> None:
    page = ui("--host", HOST)
    headers = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    form = {"user_count": "1", "spawn_rate": "1"}
    assert page.client.post("/swarm", data=form, headers=headers).get_json()["success"]


@pytest.mark.parametrize("arguments", [[], ["--class-picker"]])
def test_no_page_sets_any_attribute_of_a_user_class(ui: Open, arguments: list[str]) -> None:
    page = ui("--host", HOST, *arguments)
    reply = page.client.post("/user", json={"user_class_name": "ChatUser", "path": "/elsewhere", "abstract": True})
    assert reply.status_code == 403
    assert "from" in reply.get_json()["message"]
    assert ChatUser.path == "/v1/chat/completions"


def test_the_class_picker_changes_what_it_shows(ui: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ui("--host", HOST, "--class-picker")
    monkeypatch.setattr(ChatUser, "weight", 1)
    page.environment.available_user_classes = {"ChatUser": ChatUser}
    page.environment.available_user_tasks = {"ChatUser": []}
    assert page.client.post("/user", json={"user_class_name": "ChatUser", "weight": 3}).status_code == 201
    assert ChatUser.weight == 3


def test_scripts_of_other_sites_read_nothing(ui: Open) -> None:
    page = ui("--host", HOST)
    for path in ("/", "/logs", "/stats/requests", "/llm/told", "/llm/tab.csv"):
        reply = page.client.get(path, headers={"Origin": "http://evil.example"})
        assert reply.headers["Access-Control-Allow-Origin"] == "http://localhost", path


def test_every_page_and_action_is_behind_locusts_login(ui: Open) -> None:
    page = ui("--host", HOST)
    page.web_ui.web_login = True
    page.web_ui.app.config["SECRET_KEY"] = "of this test"  # type: ignore[union-attr]
    asked: list[str] = []

    def refuse(view: Any) -> Any:
        asked.append(view.__name__)
        return lambda *given, **named: ("who are you?", 401)

    patch = pytest.MonkeyPatch()
    with patch.context() as patched:
        patched.setattr("locust.web.login_required", refuse)
        assert page.web_ui.app is not None
        for rule in page.web_ui.app.url_map.iter_rules():
            if rule.endpoint.startswith("llm") or rule.endpoint in ("locust.swarm", "locust.stop"):
                path = re.sub(r"<[^>]*>", "x", rule.rule)
                method = "POST" if "POST" in (rule.methods or set()) else "GET"
                assert page.client.open(path, method=method).status_code == 401, path
    assert len(asked) > 10


def test_the_links_of_the_downloads_are_relative_to_locusts_page() -> None:
    assert all(not href.startswith(("/", "http")) for href, _ in LINKS)
