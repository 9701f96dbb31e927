"""The OpenAI API on a real socket: events, usage, errors, as vLLM gives them."""

from __future__ import annotations

import json

import pytest

from llm_locust.simulator.process import Running
from tests.simulator.raw_client import ask, chat, connect, read_response, request_bytes


def test_a_chat_streams_its_role_one_token_per_event_usage_and_done(server: Running) -> None:
    raw = ask(server.base_url, "/v1/chat/completions", chat(max_tokens=3, stream_options={"include_usage": True}))
    assert (raw.status, raw.ended) == (200, "complete")
    assert b"content-type: text/event-stream; charset=utf-8\r\n" in raw.data
    role, first, second, third, usage, done = raw.events
    assert role["choices"] == [
        {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
    ]
    words = [event["choices"][0]["delta"]["content"] for event in (first, second, third)]
    assert [len(word.split()) for word in words] == [1, 1, 1]
    assert [word[0] == " " for word in words] == [False, True, True]
    assert [event["choices"][0]["finish_reason"] for event in (first, second, third)] == [None, None, "length"]
    assert usage["choices"] == []
    assert usage["usage"] == {"prompt_tokens": 6, "total_tokens": 9, "completion_tokens": 3}
    assert done == "[DONE]"
    assert len({event["id"] for event in (role, first, second, third, usage)}) == 1
    assert role["object"] == "chat.completion.chunk"


def test_usage_comes_only_when_asked_for(server: Running) -> None:
    events = ask(server.base_url, "/v1/chat/completions", chat(max_tokens=2)).events
    assert len(events) == 4
    assert not any("usage" in event for event in events)


def test_continuous_usage_counts_up(server: Running) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = {"prompt": "one two", "max_tokens": 3, "stream": True, "stream_options": options}
    events = ask(server.base_url, "/v1/completions", body).events[:-1]
    assert [event["usage"]["completion_tokens"] for event in events] == [1, 2, 3, 3]


def test_a_completion_streams_text_without_an_opening_event(server: Running) -> None:
    events = ask(server.base_url, "/v1/completions", {"prompt": "one two", "max_tokens": 2, "stream": True}).events
    assert [event["object"] for event in events[:-1]] == ["text_completion", "text_completion"]
    assert all(event["choices"][0]["text"].startswith(" ") for event in events[:-1])
    assert events[1]["choices"][0]["finish_reason"] == "length"


def test_without_a_limit_the_reply_has_the_default_length_and_stops(server: Running) -> None:
    raw = ask(server.base_url, "/v1/completions", {"prompt": "one", "ignore_eos": True, "min_tokens": 1})
    reply = json.loads(raw.body)
    assert reply["choices"][0]["finish_reason"] == "stop"
    assert reply["usage"] == {"prompt_tokens": 1, "total_tokens": 129, "completion_tokens": 128}


def test_a_reply_that_is_not_streamed_says_the_same_words(server: Running) -> None:
    streamed = ask(server.base_url, "/v1/chat/completions", chat(max_tokens=5)).events[1:-1]
    whole = json.loads(ask(server.base_url, "/v1/chat/completions", chat(max_tokens=5, stream=False)).body)
    assert whole["object"] == "chat.completion"
    assert whole["choices"][0]["message"]["content"] == "".join(e["choices"][0]["delta"]["content"] for e in streamed)
    assert whole["usage"]["completion_tokens"] == 5


def test_max_completion_tokens_and_content_parts_are_understood(server: Running) -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "one two"}, {"type": "text", "text": "three"}]}
    body = {"messages": [message], "max_completion_tokens": 4}
    usage = json.loads(ask(server.base_url, "/v1/chat/completions", body).body)["usage"]
    assert usage == {"prompt_tokens": 6, "total_tokens": 10, "completion_tokens": 4}


@pytest.mark.parametrize("prompt", ["one two three", ["one two three"], [11, 12, 13], [[11, 12, 13]]])
def test_a_prompt_may_be_text_or_token_ids(server: Running, prompt: object) -> None:
    raw = ask(server.base_url, "/v1/completions", {"prompt": prompt, "max_tokens": 1})
    assert json.loads(raw.body)["usage"]["prompt_tokens"] == 3


@pytest.mark.parametrize(
    ("path", "body", "status", "kind", "param"),
    [
        ("/v1/completions", {"prompt": "x", "model": "other"}, 404, "NotFoundError", "model"),
        ("/v1/chat/completions", chat(model="other"), 404, "NotFoundError", "model"),
        ("/v1/completions", {"prompt": "x " * 2049, "max_tokens": 1}, 400, "BadRequestError", "input_tokens"),
        ("/v1/completions", {"prompt": "x " * 2000, "max_tokens": 49}, 400, "BadRequestError", "input_tokens"),
        ("/v1/completions", {"prompt": "x", "max_tokens": 4096}, 400, "BadRequestError", "max_tokens"),
        ("/v1/completions", {"prompt": "x", "max_tokens": 0}, 400, "BadRequestError", "max_tokens"),
        ("/v1/completions", {"prompt": "x", "max_tokens": "lots"}, 400, "Bad Request", "body.max_tokens"),
        ("/v1/completions", {"prompt": ""}, 400, "BadRequestError", "prompt"),
        ("/v1/completions", {}, 400, "BadRequestError", "prompt"),
        ("/v1/completions", {"prompt": ["a", "b"]}, 400, "BadRequestError", "prompt"),
        ("/v1/completions", {"prompt": "x", "n": 2}, 400, "BadRequestError", "n"),
        ("/v1/completions", ["not an object"], 400, "Bad Request", "body"),
        ("/v1/chat/completions", {"messages": []}, 400, "BadRequestError", "messages"),
        ("/v1/chat/completions", {"messages": [{"content": "no role"}]}, 400, "BadRequestError", "messages"),
    ],
)
def test_refusals_have_the_form_of_vllm(
    server: Running, path: str, body: object, status: int, kind: str, param: str
) -> None:
    raw = ask(server.base_url, path, body)
    error = json.loads(raw.body)["error"]
    assert (raw.status, error["type"], error["param"], error["code"]) == (status, kind, param, status)


def test_a_prompt_and_reply_that_just_fit_are_served(server: Running) -> None:
    raw = ask(server.base_url, "/v1/completions", {"prompt": "x " * 2047, "max_tokens": 1})
    assert json.loads(raw.body)["usage"]["total_tokens"] == 2048


def test_tokenize_counts_as_usage_does(server: Running) -> None:
    messages = chat()["messages"]
    counted = json.loads(ask(server.base_url, "/tokenize", {"messages": messages}).body)
    used = json.loads(ask(server.base_url, "/v1/chat/completions", chat(max_tokens=1, stream=False)).body)
    assert counted["count"] == len(counted["tokens"]) == used["usage"]["prompt_tokens"] == 6
    assert counted["max_model_len"] == 2048
    assert json.loads(ask(server.base_url, "/tokenize", {"prompt": "Hello there!"}).body)["count"] == 3
    assert ask(server.base_url, "/tokenize", {}).status == 400


def test_pages_about_the_server(server: Running) -> None:
    assert (ask(server.base_url, "/health").status, ask(server.base_url, "/health").body) == (200, b"")
    version = json.loads(ask(server.base_url, "/version").body)
    assert (version["engine"], version["synthetic"]) == ("llm-locust-simulator", True)
    (model,) = json.loads(ask(server.base_url, "/v1/models").body)["data"]
    assert (model["id"], model["max_model_len"]) == ("synthetic", 2048)
    assert json.loads(ask(server.base_url, "/nowhere").body) == {"detail": "Not Found"}
    wrong_method = ask(server.base_url, "/v1/completions")
    assert wrong_method.status == 405
    assert b"allow: POST\r\n" in wrong_method.data


def test_a_connection_is_kept_for_the_next_request(server: Running) -> None:
    with connect(server.base_url) as sock:
        for _ in range(3):
            sock.sendall(request_bytes("/v1/chat/completions", chat(max_tokens=2)))
            assert read_response(sock).events[-1] == "[DONE]"


def test_requests_sent_ahead_are_answered_in_order(server: Running) -> None:
    with connect(server.base_url) as sock:
        wanted = request_bytes("/version") + request_bytes("/health", headers={"connection": "close"})
        sock.sendall(wanted)
        data = b""
        while piece := sock.recv(65_536):
            data += piece
    assert data.count(b"HTTP/1.1 200 OK") == 2
    assert data.index(b"synthetic") < data.rindex(b"HTTP/1.1")


def test_a_client_of_http_1_0_gets_a_stream_that_ends_with_the_connection(server: Running) -> None:
    raw = ask(server.base_url, "/v1/chat/completions", chat(max_tokens=2), version="1.0")
    assert raw.ended == "eof"
    assert b"chunked" not in raw.data
    assert raw.events[-1] == "[DONE]"


def test_what_is_not_http_is_told_so_and_let_go(server: Running) -> None:
    with connect(server.base_url) as sock:
        sock.sendall(b"\x16\x03\x01nonsense\r\n\r\n")
        assert read_response(sock).status == 400
        assert sock.recv(1) == b""
