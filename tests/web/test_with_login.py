"""``locustfiles/with_login.py``: a name and a password in front of Locust's pages and of ours."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.web.locust_ui import UI, locust_ui

LOCUSTFILE = Path(__file__).parents[2] / "locustfiles" / "with_login.py"
PASSWORD = "correct horse battery"


@pytest.fixture
def add_login(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("LLM_LOCUST_WEB_PASSWORD", PASSWORD)
    monkeypatch.setattr("gevent.sleep", lambda seconds: None)
    monkeypatch.setattr("locust.events.init.add_listener", lambda listener: listener)
    return runpy.run_path(str(LOCUSTFILE))["add_login"]


def logged_in(ui: UI, password: str) -> str:
    reply = ui.client.post("/lab/login_submit", data={"username": "locust", "password": password})
    assert reply.status_code == 302
    return str(reply.headers["Location"])


def test_pages_and_actions_are_for_who_knows_the_password(monkeypatch: pytest.MonkeyPatch, add_login: Any) -> None:
    with locust_ui(monkeypatch, "--web-login", "--web-base-path", "/lab") as ui:
        add_login(environment=ui.environment, web_ui=ui.web_ui)
        paths = ("/lab/", "/lab/llm", "/lab/llm/data", "/lab/llm/tab.csv", "/lab/llm/workbench")
        assert {ui.client.get(path).status_code for path in paths} == {302}
        assert ui.client.post("/lab/swarm", data={"user_count": "1", "spawn_rate": "1"}).status_code == 302
        assert logged_in(ui, "correct horse") == "/lab/login"
        assert "Wrong name or password" in ui.client.get("/lab/login").get_data(as_text=True)
        assert {ui.client.get(path).status_code for path in paths} == {302}
        assert logged_in(ui, PASSWORD) == "/lab/"
        assert {ui.client.get(path).status_code for path in paths} == {200}
        assert ui.started == []


@pytest.mark.parametrize(
    ("arguments", "password", "said"),
    [
        ([], PASSWORD, "add --web-login"),
        (["--web-login"], "short", "at least 12 characters"),
        (["--web-login"], "", "set"),
    ],
)
def test_a_login_that_asks_nobody_does_not_start(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    add_login: Any,
    arguments: list[str],
    password: str,
    said: str,
) -> None:
    monkeypatch.setenv("LLM_LOCUST_WEB_PASSWORD", password)
    with locust_ui(monkeypatch, *arguments) as ui, pytest.raises(SystemExit) as ended:
        add_login(environment=ui.environment, web_ui=ui.web_ui)
    assert ended.value.code == 2
    assert re.search(said, capsys.readouterr().err)
