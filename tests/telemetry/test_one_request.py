"""The one request before load, through the real client against real servers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from llm_locust.records import Clock, Outcome, UsageError
from llm_locust.simulator.process import running
from llm_locust.streaming import Reply, StreamClient, StreamRequest
from llm_locust.telemetry.readiness import check_one_request
from llm_locust.telemetry.target import TargetFacts

from .server import free_port, http, server_context, serving

CHAT_PATH = "/v1/chat/completions"


def chat(
    model: str | None, *, headers: dict[str, str] | None = None, path: str = CHAT_PATH, **body: Any
) -> StreamRequest:
    whole = {
        "model": model,
        "messages": [{"role": "user", "content": "good morning to you"}],
        "max_tokens": 3,
        "stream": True,
        "stream_options": {"include_usage": True},
        **body,
    }
    return StreamRequest(path, json.dumps(whole).encode(), list((headers or {}).items()), "openai-chat")


def refused(wait: Callable[[], object]) -> str:
    with pytest.raises(UsageError) as caught:
        wait()
    return str(caught.value)


def check(
    base_url: str, request: StreamRequest, *, model: str | None = "m", names: list[str] | None = None, **options: Any
) -> Reply:
    deadline_s = options.pop("deadline_s", 10.0)
    client = StreamClient(base_url, Clock(), **options)
    try:
        return check_one_request(
            client, request, base_url=base_url, model=model, facts=TargetFacts(models=names), deadline_s=deadline_s
        )
    finally:
        client.close()


def test_a_good_reply_is_returned(tmp_path: Path) -> None:
    log = tmp_path / "truth.csv"
    with running(model="m", log=log) as (base_url, _):
        reply = check(base_url, chat("m"))
    assert (reply.outcome, reply.output_tokens) == (Outcome.OK, 3)
    assert len(log.read_text().splitlines()) == 2  # the header and one request


def test_what_is_wrong_with_the_request_is_told_by_a_real_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_KEY", "abcd-1234")
    key = {"Authorization": "Bearer abcd-1234"}
    with running(model="qwen2.5-7b-instruct", api_key_env="SERVER_KEY", max_model_len=64) as (base_url, _):
        names = ["qwen2.5-7b-instruct"]

        def why(request: StreamRequest, model: str = names[0], base_url: str = base_url) -> str:
            return refused(lambda: check(base_url, request, model=model, names=names))

        no_key = why(chat(names[0]))
        wrong_key = why(chat(names[0], headers={"Authorization": "Bearer wrong-9876"}))
        wrong_model = why(chat("Qwen2.5-7B", headers=key), model="Qwen2.5-7B")
        too_long = why(chat(names[0], headers=key, max_tokens=500))
        doubled = why(chat(names[0], headers=key), base_url=f"{base_url}/v1/v1")
        whole_path = why(chat(names[0], headers=key), base_url=f"{base_url}{CHAT_PATH}")
        other_path = why(chat(names[0], headers=key, path="/v1/responses"))
    before = "the one request sent before load failed: "
    assert no_key.startswith(f"{before}the server wants an API key ({base_url}{CHAT_PATH}: HTTP 401: Incorrect API key")
    assert "neither LLM_LOCUST_API_KEY nor OPENAI_API_KEY is set" in no_key
    assert wrong_key.startswith(f"{before}the server did not accept the API key (")
    assert "wrong-9876" not in wrong_key
    assert wrong_model == (
        f"{before}the server has no model 'Qwen2.5-7B' ({base_url}{CHAT_PATH}: HTTP 404: The model `Qwen2.5-7B` does not "
        "exist. Valid aliases: qwen2.5-7b-instruct). Did you mean --model qwen2.5-7b-instruct? "
        "It lists 'qwen2.5-7b-instruct'."
    )
    assert too_long.startswith(f"{before}prompt and reply do not fit into the context of the model (")
    assert doubled.startswith(f"{before}the path holds /v1 twice (")
    assert doubled.endswith(f"--host {base_url}")
    assert whole_path.startswith(f"{before}--host already holds the path of an endpoint, {CHAT_PATH} (")
    assert whole_path.endswith(f"--host {base_url}")
    assert other_path.startswith(f"{before}the server answers, but there is nothing at /v1/responses (")


@pytest.fixture(scope="module")
def faulty() -> Iterator[str]:
    with running(model="m") as (base_url, _):
        yield base_url


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("html", "a web page answered, not an API"),
        ("not-streamed", "the server answered in one piece instead of a stream, so there is no TTFT to measure"),
        ("status=503", "the server turned a single request away, as if it were busy"),
        ("status=429", "the server turned a single request away, because a rate limit is used up"),
        ("status=500", "the server failed on the request"),
        ("status=500-oom", "the server ran out of memory on a single request"),
        ("stream-error:1", "the server began to answer and then reported an error"),
        ("cut:1", "the reply broke off before it was finished"),
        ("no-finish", "the reply broke off before it was finished"),
        ("reset:1", "the connection broke in the middle of the reply"),
        ("close", "the server hung up without an answer"),
    ],
)
def test_a_fault_of_a_real_server_is_told(faulty: str, fault: str, cause: str) -> None:
    text = refused(lambda: check(faulty, chat("m", headers={"X-Simulate-Fault": fault})))
    assert text.startswith(f"the one request sent before load failed: {cause} ({faulty}{CHAT_PATH}: ")


def test_a_reply_that_takes_too_long_is_told_by_how_far_it_came(faulty: str) -> None:
    stalled = chat("m", headers={"X-Simulate-Fault": "stall:2"})
    text = refused(lambda: check(faulty, stalled, deadline_s=1.5))
    assert "the reply was not finished in time (2 output events had come)" in text
    assert "--deadline" in text


def test_nobody_listens() -> None:
    port = free_port()
    text = refused(lambda: check(f"http://127.0.0.1:{port}", chat("m")))
    assert text.startswith(f"the one request sent before load failed: nothing listens at 127.0.0.1:{port} (")


def test_a_redirect_is_named_as_the_better_base_url() -> None:
    with serving({CHAT_PATH: http(308, Location=f"https://api.example{CHAT_PATH}")}) as server:
        text = refused(lambda: check(server.url, chat("m")))
    assert text.endswith("Use the place it points to as the base URL: --host https://api.example")


def test_plain_http_to_a_tls_port(certificate: Path) -> None:
    with serving({}, tls=server_context(certificate)) as server:
        text = refused(lambda: check(server.url, chat("m")))
    assert f"--host https://127.0.0.1:{server.port}" in text
