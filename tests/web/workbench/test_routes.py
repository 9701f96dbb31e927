"""``/llm/workbench`` over HTTP: the page, what it posts, who may post, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Response
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from llm_locust.records import RunFolder
from llm_locust.records.facts import FACT_NAMES
from llm_locust.report import merge_run
from llm_locust.web.workbench.forms import FIELDS
from llm_locust.web.workbench.routes import LONGEST_POST, QUESTIONS
from tests.report.test_worksheet import a_run
from tests.web.workbench.asking import unit
from tests.web.workbench.serving import make_app

PAGE = "/x/llm/workbench"
POSTED = (*QUESTIONS, "facts", "merge")


class Newest:
    """Which run is the newest, and whether one is going on, as a test has it."""

    folder: RunFolder | None = None
    running = False


@pytest.fixture(scope="module")
def newest() -> Newest:
    return Newest()


@pytest.fixture(scope="module")
def client(newest: Newest) -> FlaskClient:
    return make_app(lambda: newest.folder, "/x", running=lambda: newest.running).test_client()


@pytest.fixture
def no_run(newest: Newest) -> None:
    newest.folder = None


@pytest.fixture
def run(newest: Newest, tmp_path: Path) -> Iterator[RunFolder]:
    newest.folder = RunFolder(a_run(tmp_path).write())
    merge_run(newest.folder.path)
    yield newest.folder
    newest.folder, newest.running = None, False


def told(reply: TestResponse, status: int = 200) -> dict[str, Any]:
    assert reply.status_code == status, reply.text
    assert reply.content_type == "application/json"
    found: dict[str, Any] = json.loads(reply.text)
    return found


def test_the_page_has_every_field_with_a_label_and_nothing_inline_or_from_elsewhere(client: FlaskClient) -> None:
    reply = client.get(PAGE)
    assert reply.status_code == 200
    inputs = re.findall(r'<(?:input|select|textarea) id="([^"]+)"', reply.text)
    assert {f"record-{name}" for name in FIELDS} < set(inputs)
    assert {f"kv-{name}" for name in ("config", "tokens", "tp")} | {
        f"goodput-{name}" for name in ("measured", "good")
    } < set(inputs)
    assert [name for name in inputs if f'for="{name}"' not in reply.text] == []
    assert reply.text.count(" data-fact>") == len(FACT_NAMES)
    assert "Computed from your figures, not a test" in reply.text
    assert "style=" not in reply.text
    assert re.findall(r"<script(?![^>]* src=)", reply.text) == []
    links = re.findall(r'(?:src|href)="([^"]+)"', reply.text)
    assert [link for link in links if not link.startswith(("./", "../", "#"))] == []
    assert "default-src 'self'" in reply.headers["Content-Security-Policy"]
    for link in re.findall(r'(?:src|href)="(\./[^"]*workbench/[^"]+)"', reply.text):
        assert client.get(f"/x/llm/{link.removeprefix('./')}").status_code == 200


def test_it_works_without_a_base_path_too() -> None:
    reply = make_app(lambda: None).test_client().get("/llm/workbench")
    assert reply.status_code == 200
    assert 'data-base="./workbench"' in reply.text


def test_without_a_run_it_opens_with_the_columns_alone(client: FlaskClient, no_run: None) -> None:
    found = told(client.get(f"{PAGE}/opening"))
    assert (found["run"], found["problem"]) == (None, None)
    assert found["columns"][0] == {
        "key": "fixed conditions: engine", "group": "fixed conditions", "name": "engine", "unit": "", "field": "engine",
    }  # fmt: skip


def test_what_is_posted_is_computed(client: FlaskClient) -> None:
    found = told(
        client.post(f"{PAGE}/goodput", json={"measured": "100", "successful": "90", "good": "80", "seconds": "60"})
    )
    assert (found["request_throughput_rps"], found["attainment"]) == (1.5, 0.8)
    assert told(client.post(f"{PAGE}/kv", json={"layers": "32", "kv_heads": "8", "head_dim": "128", "tokens": "8192"}))[
        "available"
    ]
    assert (
        told(client.post(f"{PAGE}/record", json={"test_id": "a", "tested_at": "2026-11-30"}))["grade"] == "transcribed"
    )
    assert told(client.post(f"{PAGE}/worksheet/csv", json={"rows": []}))["text"].startswith(
        "run,test,fixed conditions: engine,"
    )
    assert told(client.post(f"{PAGE}/worksheet/markdown", json={"rows": []}))["file"] == "worksheet.md"


def test_a_wrong_field_is_refused_by_its_name(client: FlaskClient) -> None:
    assert told(client.post(f"{PAGE}/goodput", json={"seconds": "60 s"}), 400) == {"seconds": unit("60 s", "60")}


@pytest.mark.parametrize("question", POSTED)
@pytest.mark.parametrize("headers", [
    {"Origin": "https://elsewhere.example"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "none"},
])  # fmt: skip
def test_no_other_site_may_post(client: FlaskClient, question: str, headers: dict[str, str]) -> None:
    assert "another site" in told(client.post(f"{PAGE}/{question}", json={}, headers=headers), 403)["request"]


@pytest.mark.parametrize("question", POSTED)
def test_only_json_of_a_bounded_size_may_be_posted(client: FlaskClient, question: str, no_run: None) -> None:
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        reply = client.post(f"{PAGE}/{question}", data="{}", content_type=content_type)
        assert "must be application/json" in told(reply, 403)["request"]
    large = client.post(f"{PAGE}/{question}", data=b" " * (LONGEST_POST + 1), content_type="application/json")
    assert told(large, 413) == {"request": "more than 1 MB were posted"}
    endless = client.post(
        f"{PAGE}/{question}", content_type="application/json", headers={"Transfer-Encoding": "chunked"}
    )
    assert endless.status_code in (400, 409, 411)
    assert client.get(f"{PAGE}/{question}").status_code == 405


def test_its_own_page_may_post(client: FlaskClient) -> None:
    for headers in ({"Sec-Fetch-Site": "same-origin"}, {"Origin": "http://localhost"}):
        assert client.post(f"{PAGE}/goodput", json={}, headers=headers).status_code == 200


BODIES = (
    b"{", b"[]", b"null", b"5", b'"x"', b"\xff\xfe", b'{"a":NaN}', b"[" * 100_000, b'{"a":' * 100_000,
    b'{"rows":[[]]}', b'{"rows":{}}',
)  # fmt: skip


def test_no_body_breaks_it(client: FlaskClient, run: RunFolder) -> None:
    for body in BODIES:
        for question in (*QUESTIONS, "facts?run=run-1"):
            reply = client.post(f"{PAGE}/{question}", data=body, content_type="application/json")
            assert all(isinstance(message, str) for message in told(reply, 400).values())
    assert not run.facts.exists()


def test_every_view_is_behind_locusts_login() -> None:
    def guard(view: Any) -> Any:
        return lambda *args, **kwargs: Response("login first", 401)

    app = make_app(lambda: None, guard=guard)
    rules = [rule for rule in app.url_map.iter_rules() if "workbench" in rule.rule]
    assert len(rules) == 2 + len(POSTED)
    for rule in rules:
        method = "POST" if "POST" in (rule.methods or ()) else "GET"
        assert app.test_client().open(rule.rule, method=method, json={}).status_code == 401


def test_facts_are_saved_and_a_merge_takes_them_in(client: FlaskClient, run: RunFolder, newest: Newest) -> None:
    record = run.records_dir / "stage-0-round-0.json"
    assert json.loads(record.read_bytes())["cpu"] is None
    assert told(client.post(f"{PAGE}/facts?run=run-1", json={"cpu": "EPYC"}))["known"] == 1
    newest.running = True
    assert "would take its processor" in told(client.post(f"{PAGE}/merge?run=run-1", json={}), 409)["request"]
    newest.running = False
    found = told(client.post(f"{PAGE}/merge?run=run-1", json={}))
    assert found["status"] in (0, 4)
    assert "Report" in found["output"]
    assert "\x1b" not in found["output"]
    assert json.loads(record.read_bytes())["cpu"] == "EPYC"
    assert told(client.get(f"{PAGE}/opening"))["run"]["records"][0]["fields"]["cpu"] == "EPYC"
    run.facts.write_text('model_id = "another"\n')
    refused = told(client.post(f"{PAGE}/merge?run=run-1", json={}), 400)["request"]
    assert "model_id is 'another', but the server said 'm'" in " ".join(refused.split())


def test_facts_of_a_run_that_is_not_the_newest_any_longer_are_refused(client: FlaskClient, run: RunFolder) -> None:
    for question in ("facts", "merge"):
        reply = told(client.post(f"{PAGE}/{question}?run=other", json={}), 409)
        assert reply == {"request": "the page shows other, but the newest judged run is run-1: reload it"}
    assert not run.facts.exists()


def test_without_a_run_there_is_nothing_to_save_or_to_merge(client: FlaskClient, no_run: None) -> None:
    for question in ("facts", "merge"):
        assert told(client.post(f"{PAGE}/{question}", json={}), 409) == {"request": "there is no judged run"}
