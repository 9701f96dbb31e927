"""``llm-locust smoke`` as a tired person types it: what is wrong is named, and nothing is started for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from llm_locust.cli.smoke import command
from llm_locust.records import UsageError
from llm_locust.smoke.host import LOAD, Access
from tests.smoke.promising_server import PromisingServer, listening
from tests.telemetry.server import free_port


def refused(*arguments: str) -> str:
    with pytest.raises(UsageError) as caught:
        CliRunner().invoke(command, arguments, catch_exceptions=False)
    return str(caught.value)


def test_options_of_a_server_without_one() -> None:
    assert refused("--model", "m", "--insecure") == (
        "--model, --insecure: of which server? Name it with --host URL, or leave them out to try the synthetic engine"
    )
    assert refused("--header", "A: b").startswith("--header: of which server?")


def test_a_server_that_is_not_there_is_named() -> None:
    port = free_port()
    text = refused("--host", f"http://127.0.0.1:{port}", "--ready-timeout", "0")
    assert f"http://127.0.0.1:{port} was not ready within 0 s" in text
    assert "nothing listens" in text


def test_a_host_that_is_no_address() -> None:
    assert "write it with a scheme and a host" in refused("--host", "localhost:8000")


def test_a_key_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    assert "--api-key-env NO_SUCH_KEY: that environment variable is not set" in refused(
        "--host", "http://127.0.0.1:9", "--api-key-env", "NO_SUCH_KEY"
    )


def test_an_extra_body_that_is_no_object() -> None:
    assert "--extra-body: not a JSON object" in refused("--host", "http://127.0.0.1:9", "--extra-body", "[1]")


def test_a_literal_secret_in_a_header() -> None:
    assert "put it into an environment variable" in refused(
        "--host", "http://127.0.0.1:9", "--header", "X-Api-Key: abcdefgh"
    )


def test_a_run_dir_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be made" in refused("--run-dir", str(tmp_path / "file" / "runs"))


def test_a_server_that_takes_no_request_is_diagnosed_before_anything_else() -> None:
    with listening(PromisingServer(fails="messages")) as url:
        text = refused("--host", url)
    assert text.startswith("the one request sent before load failed: ")
    assert "HTTP 500" in text


def test_locust_is_told_of_the_server_what_the_smoke_test_was_told() -> None:
    access = Access(
        host="https://h", model="m", api_key_env="KEY", headers=[("X-Key", "@env:TEAM")], extra_body={"seed": 1},
        ca_file="/a/ca.pem", insecure=True, ready_timeout_s=7, deadline_s=2.5,
    )  # fmt: skip
    assert access.options("m") == [
        "--host", "https://h", "--deadline", "2.5", "--ready-timeout", "7", "--model", "m", "--api-key-env", "KEY",
        "--header", "X-Key: @env:TEAM", "--extra-body", '{"seed":1}', "--ca-file", "/a/ca.pem", "--insecure",
    ]  # fmt: skip
    assert Access(host="http://h").options(None) == [
        "--host", "http://h", "--deadline", "60", "--ready-timeout", "60",
    ]  # fmt: skip
    assert "--requests" in LOAD
