"""The Ollama API on a real socket: lines, counts, durations, cold loads and its words for "busy"."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from llm_locust.simulator.process import Running, running
from tests.simulator.raw_client import Raw, ask, connect, eventually, metrics, request_bytes


def lines(raw: Raw) -> list[dict[str, Any]]:
    return [json.loads(line) for line in raw.body.splitlines()]


def generate(**more: Any) -> dict[str, Any]:
    return {"model": "synthetic", "prompt": "Hello there!", "options": {"num_predict": 3}, **more}


def test_generate_streams_a_line_per_token_and_a_last_one_with_counts_and_durations(server: Running) -> None:
    raw = ask(server.base_url, "/api/generate", generate())
    assert (raw.status, raw.ended) == (200, "complete")
    assert b"content-type: application/x-ndjson" in raw.data
    *tokens, last = lines(raw)
    assert [line["done"] for line in tokens] == [False, False, False]
    assert all(len(line["response"].split()) == 1 for line in tokens)
    assert (last["done"], last["done_reason"], last["response"]) == (True, "length", "")
    assert (last["prompt_eval_count"], last["eval_count"]) == (3, 3)
    assert (last["load_duration"], last["eval_duration"]) == (0, 2 * 2_000_000)
    assert last["total_duration"] >= last["prompt_eval_duration"] + last["eval_duration"]
    assert last["prompt_eval_duration"] == 2_000_000 + 3_000


def test_chat_streams_messages_and_counts_the_template(server: Running) -> None:
    body = {"model": "synthetic:latest", "messages": [{"role": "user", "content": "Hello there!"}]}
    *tokens, last = lines(ask(server.base_url, "/api/chat", body))
    assert tokens[0]["message"]["role"] == "assistant"
    assert (len(tokens), last["eval_count"], last["prompt_eval_count"]) == (128, 128, 6)
    assert last["done_reason"] == "stop"


def test_a_reply_that_is_not_streamed_is_one_object(server: Running) -> None:
    raw = ask(server.base_url, "/api/generate", generate(stream=False))
    reply = json.loads(raw.body)
    assert reply["done"] is True
    assert reply["response"] == "".join(
        line["response"] for line in lines(ask(server.base_url, "/api/generate", generate()))
    )


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (generate(model="other"), 404, "model 'other' not found"),
        ({"prompt": "x"}, 400, "model is required"),
        (generate(prompt="x " * 2048), 400, "exceeds the context length"),
        (generate(options={"num_predict": "x"}), 400, "num_predict must be an integer"),
        (generate(keep_alive="soon"), 400, "keep_alive 'soon' is not a duration"),
        ([1], 400, "not a JSON object"),
    ],
)
def test_refusals_have_the_form_of_ollama(server: Running, body: object, status: int, words: str) -> None:
    raw = ask(server.base_url, "/api/generate", body)
    assert raw.status == status
    assert words in json.loads(raw.body)["error"]


def test_faults_speak_ollama(server: Running) -> None:
    error = lines(ask(server.base_url, "/api/generate", generate(), {"X-Simulate-Fault": "stream-error:1"}))
    assert [sorted(line) for line in error][-1] == ["error"]
    assert len(error) == 2
    unfinished = ask(server.base_url, "/api/generate", generate(), {"X-Simulate-Fault": "no-finish"})
    assert (unfinished.ended, [line["done"] for line in lines(unfinished)]) == ("complete", [False] * 3)
    refused = ask(server.base_url, "/api/generate", generate(), {"X-Simulate-Fault": "status=500-oom"})
    assert "out of memory" in json.loads(refused.body)["error"]


def test_pages_about_models(server: Running) -> None:
    assert json.loads(ask(server.base_url, "/api/version").body)["synthetic"] is True
    assert [m["name"] for m in json.loads(ask(server.base_url, "/api/tags").body)["models"]] == ["synthetic"]
    assert [m["name"] for m in json.loads(ask(server.base_url, "/api/ps").body)["models"]] == ["synthetic"]
    shown = json.loads(ask(server.base_url, "/api/show", {"model": "synthetic"}).body)
    assert shown["model_info"]["synthetic.context_length"] == 2048
    assert ask(server.base_url, "/api/show", {"model": "other"}).status == 404


@pytest.mark.process
def test_the_first_use_pays_for_the_load_and_the_next_does_not() -> None:
    with running(load_seconds=0.2, decode_ms=1) as server:
        assert json.loads(ask(server.base_url, "/api/ps").body)["models"] == []
        cold = lines(ask(server.base_url, "/api/generate", generate()))[-1]
        warm = lines(ask(server.base_url, "/api/generate", generate()))[-1]
        assert len(json.loads(ask(server.base_url, "/api/ps").body)["models"]) == 1
    assert cold["load_duration"] == 200_000_000
    assert warm["load_duration"] == 0
    assert cold["total_duration"] == 200_000_000 + cold["prompt_eval_duration"] + cold["eval_duration"]


@pytest.mark.process
def test_a_request_without_a_prompt_loads_the_model() -> None:
    with running(load_seconds=0.2) as server:
        loaded = json.loads(ask(server.base_url, "/api/generate", {"model": "synthetic"}).body)
        assert (loaded["done"], loaded["done_reason"]) == (True, "load")
        assert len(json.loads(ask(server.base_url, "/api/ps").body)["models"]) == 1
        assert lines(ask(server.base_url, "/api/generate", generate()))[-1]["load_duration"] == 0


def loaded(server: Running) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ask(server.base_url, "/api/ps").body)["models"]
    return found


@pytest.mark.process
def test_a_model_that_is_not_to_be_kept_is_gone_after_the_request_and_the_next_is_cold() -> None:
    with running(load_seconds=0.3, decode_ms=1) as server:
        loads = []
        for keep_alive in (0, None, 0, None):
            body = generate() if keep_alive is None else generate(keep_alive=keep_alive)
            loads.append(lines(ask(server.base_url, "/api/generate", body))[-1]["load_duration"])
            assert len(loaded(server)) == (keep_alive is None)
    assert loads == [300_000_000, 300_000_000, 0, 300_000_000]


@pytest.mark.process
@pytest.mark.parametrize(("path", "empty"), [("/api/generate", {}), ("/api/chat", {"messages": []})])
def test_a_request_without_a_prompt_unloads_the_model(path: str, empty: dict[str, Any]) -> None:
    with running(load_seconds=0.1, decode_ms=1) as server:
        ask(server.base_url, "/api/generate", generate())
        unloaded = json.loads(ask(server.base_url, path, {"model": "synthetic", "keep_alive": 0, **empty}).body)
        assert (unloaded["done"], unloaded["done_reason"]) == (True, "unload")
        assert loaded(server) == []
        assert lines(ask(server.base_url, "/api/generate", generate()))[-1]["load_duration"] == 100_000_000


@pytest.mark.process
def test_the_page_of_loaded_models_tells_their_memory_their_context_and_their_end() -> None:
    with running(model_gb=4, vram_share=0.75, max_model_len=512) as server:
        (card,) = loaded(server)
        assert (card["size"], card["size_vram"], card["context_length"]) == (4_000_000_000, 3_000_000_000, 512)
        assert datetime.fromisoformat(card["expires_at"]) > datetime.now(UTC) + timedelta(days=36_500)
        ask(server.base_url, "/api/generate", generate(keep_alive="1h"))
        left = datetime.fromisoformat(loaded(server)[0]["expires_at"]) - datetime.now(UTC)
        assert timedelta(minutes=59) < left < timedelta(minutes=61)


@pytest.mark.process
def test_past_the_parallel_and_the_queued_the_next_is_told_that_the_server_is_busy() -> None:
    with running(num_parallel=1, max_queue=1, decode_ms=50) as server, connect(server.base_url) as one:
        one.sendall(request_bytes("/api/generate", generate(options={"num_predict": 4000})))
        eventually(lambda: metrics(server.base_url)["vllm:num_requests_running"] == 1)
        with connect(server.base_url) as two:
            two.sendall(request_bytes("/api/generate", generate()))
            eventually(lambda: metrics(server.base_url)["vllm:num_requests_waiting"] == 1)
            raw = ask(server.base_url, "/api/generate", generate())
    assert raw.status == 503
    assert json.loads(raw.body) == {"error": "server busy, please try again.  maximum pending requests exceeded"}
