"""The frame of our pages: links under any prefix, files that are kept only as long as they are right, headers."""

from __future__ import annotations

import hashlib
import re
from importlib import resources

import flask
import pytest

from llm_locust.web import pages


def app_below(prefix: str | None = None) -> flask.Flask:
    app = flask.Flask(__name__)
    blueprint = flask.Blueprint("llm", __name__)
    pages.secure(blueprint)

    @blueprint.get("/llm")
    def live() -> str:
        return "live"

    @blueprint.get("/llm/static/<version>/<path:name>")
    def static_file(version: str, name: str) -> flask.Response:
        return pages.static_response(version, name)

    @blueprint.post("/llm/ask")
    def ask() -> tuple[str, int]:
        reason = pages.cross_site_reason()
        return (reason or "allowed", 403 if reason else 200)

    app.register_blueprint(blueprint, url_prefix=prefix)
    return app


@pytest.mark.parametrize(
    ("here", "target", "link"),
    [
        ("/llm", "/llm", "./llm"),
        ("/llm", "/", "./"),
        ("/llm", "/llm/workbench", "./llm/workbench"),
        ("/llm/workbench", "/llm", "../llm"),
        ("/llm/workbench", "/", "../"),
        ("/lab/llm", "/lab/", "./"),
        ("/lab/llm/workbench", "/lab/llm/static/0/a.js", "./static/0/a.js"),
        ("/lab/llm/report/", "/lab/llm", "../../llm"),
    ],
)
def test_a_link_is_relative_to_the_page_it_stands_on(here: str, target: str, link: str) -> None:
    with app_below().test_request_context(here):
        assert pages.relative(target) == link


def test_a_file_under_its_version_is_kept_for_good_and_under_another_one_not_at_all() -> None:
    client = app_below().test_client()
    right = client.get(f"/llm/static/{pages.static_version()}/live.css")
    old = client.get("/llm/static/0123456789abcdef/live.css")
    assert (right.status_code, right.headers["Cache-Control"]) == (200, "private, max-age=31536000, immutable")
    assert (old.status_code, old.headers["Cache-Control"]) == (200, "no-store")
    assert right.data == old.data == (resources.files("llm_locust.web") / "static" / "live.css").read_bytes()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("live.js", "text/javascript; charset=utf-8"),
        ("llm.css", "text/css; charset=utf-8"),
        ("palette.css", "text/css; charset=utf-8"),
        ("vendor/uplot/uPlot.iife.min.js", "text/javascript; charset=utf-8"),
    ],
)
def test_a_static_file_says_what_it_is(name: str, kind: str) -> None:
    answer = app_below().test_client().get(f"/llm/static/{pages.static_version()}/{name}")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == kind


@pytest.mark.parametrize(
    "name",
    ["../pages.py", "..%2fpages.py", "vendor/../../pages.py", "%2e%2e/pages.py", "%2fetc/passwd", "nothing.js", "."],
)
def test_no_name_leads_out_of_the_list_of_static_files(name: str) -> None:
    answer = app_below().test_client().get(f"/llm/static/{pages.static_version()}/{name}")
    assert answer.status_code in (404, 308)  # 308: the doubled slash is taken away first
    assert b"frame of our pages" not in answer.data


def test_a_template_that_asks_for_an_unknown_file_is_an_error_and_not_a_dead_link() -> None:
    with app_below().test_request_context("/llm"), pytest.raises(KeyError, match=r"no static file 'nothing\.js'"):
        pages.static_url("nothing.js")


def test_every_answer_keeps_itself_to_this_ui() -> None:
    headers = app_below().test_client().get("/llm").headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'self'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "no-store"


def test_another_site_may_not_read_what_locust_would_let_it_read() -> None:
    app = app_below()
    pytest.importorskip("flask_cors").CORS(app)  # as Locust does
    headers = app.test_client().get("/llm", headers={"Origin": "http://evil.example"}).headers
    assert headers.getlist("Access-Control-Allow-Origin") == ["http://localhost"]


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({}, True),  # no browser: curl, a script
        ({"Origin": "http://localhost"}, True),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://lab.example"}, True),  # a proxy told us another host
        ({"Origin": "http://evil.example"}, False),
        ({"Origin": "http://localhost.evil.example"}, False),
        ({"Origin": "http://localhost:81"}, False),
        ({"Origin": "null"}, False),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "none"}, False),
    ],
)
def test_only_our_own_pages_may_post(headers: dict[str, str], allowed: bool) -> None:
    answer = app_below().test_client().post("/llm/ask", json={}, headers=headers)
    assert answer.status_code == (200 if allowed else 403), answer.text


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_a_form_of_another_site_could_send_is_refused(kind: str) -> None:
    answer = app_below().test_client().post("/llm/ask", data=b"{}", content_type=kind)
    assert answer.status_code == 403
    assert "application/json" in answer.text


def test_what_was_taken_from_elsewhere_is_what_its_readme_says() -> None:
    folder = resources.files("llm_locust.web") / "static" / "vendor" / "uplot"
    sums = dict(re.findall(r"\| `(\S+)` \| `([0-9a-f]{64})` \|", (folder / "README.md").read_text(encoding="utf-8")))
    assert sums == {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in ("uPlot.iife.min.js", "uPlot.min.css")
    }
    assert "MIT License" in (folder / "LICENSE").read_text(encoding="utf-8")


def test_a_page_loads_nothing_from_elsewhere_and_holds_no_script() -> None:
    names = [name for name in pages.static_files() if name.endswith((".js", ".css"))]
    assert len(names) > 5
    for name in names:
        if not name.startswith("vendor/"):
            text = pages.static_files()[name].decode()
            assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", text), name
            assert "innerHTML" not in text, name
