"""Having the model unloaded: gone when the call returns, and a clear word where that cannot be."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import requests

from llm_locust.records import UsageError
from llm_locust.simulator.process import running
from llm_locust.telemetry.unloading import unload_model

from .server import free_port, http, models, serving


def ps(*names: str) -> bytes:
    return http(200, {"models": [{"name": name, "model": name} for name in names]})


UNLOADED = http(200, {"model": "m", "response": "", "done": True, "done_reason": "unload"})


def refused(base_url: str, model: str = "m", **more: float) -> str:
    with pytest.raises(UsageError) as caught:
        unload_model(base_url, model, {}, **more)  # type: ignore[arg-type]
    return str(caught.value)


def test_the_next_request_finds_the_model_cold() -> None:
    with running(model="m", load_seconds=0.3, decode_ms=1) as (base_url, _):

        def load_ns() -> int:
            ask = {"model": "m", "prompt": "hi", "options": {"num_predict": 1}}
            answer = requests.post(f"{base_url}/api/generate", json=ask, timeout=10)
            return int(json.loads(answer.text.splitlines()[-1])["load_duration"])

        assert (load_ns(), load_ns()) == (300_000_000, 0)
        unload_model(base_url, "m:latest", {})
        assert load_ns() == 300_000_000
        unload_model(f"{base_url}/v1", "m", {})
        unload_model(base_url, "m", {})  # not loaded is unloaded
        assert load_ns() == 300_000_000


def test_it_waits_until_the_model_is_no_longer_listed() -> None:
    pages: Iterator[bytes] = iter(
        [ps("other:latest", "m:latest"), ps("other:latest", "m:latest"), http(500), b"", ps("other:latest")]
    )
    slept: list[float] = []
    with serving({"/api/ps": lambda: next(pages), "/api/generate": UNLOADED}) as server:
        unload_model(server.url, "m", {"Authorization": "Bearer abcd-1234"}, sleep=slept.append)
    assert server.asked == ["/api/ps", "/api/generate", *["/api/ps"] * 4]
    assert slept == [0.1] * 3
    assert server.heads[1].startswith("POST /api/generate HTTP/1.1\r\n")
    assert all("Authorization: Bearer abcd-1234" in head for head in server.heads)


@pytest.mark.parametrize(
    ("asked", "listed", "same"),
    [
        ("Llama3.2", "llama3.2:latest", True),
        ("library/llama3.2", "llama3.2:latest", True),
        ("registry.ollama.ai/library/llama3.2:1b", "llama3.2:1b", True),
        ("hf.co/me/llama", "hf.co/me/llama:latest", True),
        ("llama3.2", "llama3.2:1b", False),
        ("llama3", "llama3.2:latest", False),
    ],
)
def test_a_model_is_known_by_any_of_its_names(asked: str, listed: str, same: bool) -> None:
    with serving({"/api/ps": ps(listed), "/api/generate": UNLOADED}) as server:
        if same:
            assert f"still holds the model {asked!r} 0 s after" in refused(server.url, asked, timeout_s=0)
        else:
            unload_model(server.url, asked, {}, timeout_s=0)


def test_a_model_that_stays_in_use_is_given_up() -> None:
    time = [0.0]

    def sleep(seconds: float) -> None:
        time[0] += seconds

    with serving({"/api/ps": ps("m:latest"), "/api/generate": UNLOADED}) as server, pytest.raises(UsageError) as caught:
        unload_model(server.url, "m", {}, timeout_s=0.25, sleep=sleep, now=lambda: time[0])
    assert str(caught.value) == (
        f"{server.url} still holds the model 'm' 0.25 s after it was asked to unload it: requests are in flight, or "
        "somebody else is using it: wait, and run it again"
    )
    assert time == [pytest.approx(0.25)]


def test_a_model_that_is_not_there_is_named() -> None:
    with running(model="m") as (base_url, _):
        assert refused(base_url, "other") == (
            f"{base_url} did not unload 'other' (HTTP 404: model 'other' not found). "
            "ollama list shows the models that it has."
        )


@pytest.mark.parametrize(
    ("owner", "which"), [("vllm", " (vLLM)"), ("llamacpp", " (llama.cpp)"), ("sglang", " (SGLang)"), ("somebody", "")]
)
def test_another_engine_is_told_apart_and_left_alone(owner: str, which: str) -> None:
    with serving({"/v1/models": models("m", owner=owner)}) as server:
        text = refused(server.url)
    assert text.startswith(f"{server.url}{which} cannot be asked to unload its model")
    assert "only Ollama" in text
    assert "Restart the server" in text
    assert "/api/generate" not in server.asked


def test_a_page_of_another_form_is_not_ollamas() -> None:
    with serving({"/api/ps": http(200, {"models": {}}), "/api/generate": UNLOADED}) as server:
        assert "only Ollama" in refused(server.url)


def test_a_key_that_is_wanted_is_asked_for() -> None:
    with serving({"/api/ps": http(401, {"error": "unauthorized"})}) as server:
        assert refused(server.url) == f"{server.url} could not be asked to unload 'm': HTTP 401: unauthorized"


def test_nobody_listens() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert refused(url).startswith(f"{url} could not be asked to unload 'm': ")
