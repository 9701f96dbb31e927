"""Every fault, asked for by header, as it looks on the wire and in the server's log."""

from __future__ import annotations

import json

import pytest

from llm_locust.simulator.process import Running, running
from tests.simulator.raw_client import (
    Raw,
    ask,
    chat,
    connect,
    eventually,
    metrics,
    read_response,
    request_bytes,
    truth,
)

PATH = "/v1/chat/completions"


def suffer(server: Running, fault: str, request_id: str = "", **more: object) -> Raw:
    headers = {"X-Simulate-Fault": fault, "X-Request-Id": request_id or f"fault-{fault}"}
    body = chat(max_tokens=4, stream_options={"include_usage": True}, **more)
    return ask(server.base_url, PATH, body, headers)


def texts(raw: Raw) -> list[str]:
    contents = [e["choices"][0]["delta"]["content"] for e in raw.events if e != "[DONE]" and e.get("choices")]
    return [content for content in contents if content]


@pytest.mark.parametrize("code", [400, 429, 500, 503, 599])
def test_a_status(server: Running, code: int) -> None:
    raw = suffer(server, f"status={code}")
    assert (raw.status, json.loads(raw.body)["error"]["code"]) == (code, code)
    assert (b"retry-after: 1" in raw.data) == (code == 429)
    row = truth(server.log_path, f"fault-status={code}")
    assert (row["outcome"], row["output_tokens"], row["t_admitted_ns"]) == (f"fault status={code}", "0", "")


def test_a_status_that_names_memory_exhaustion(server: Running) -> None:
    raw = suffer(server, "status=500-oom")
    assert raw.status == 500
    assert "CUDA out of memory" in json.loads(raw.body)["error"]["message"]


@pytest.mark.parametrize("tokens", [0, 2])
def test_an_error_in_the_stream(server: Running, tokens: int) -> None:
    raw = suffer(server, f"stream-error:{tokens}")
    assert (raw.status, raw.ended, len(texts(raw))) == (200, "complete", tokens)
    error, done = raw.events[-2:]
    assert error["error"]["code"] == 500
    assert done == "[DONE]"
    assert truth(server.log_path, f"fault-stream-error:{tokens}")["output_tokens"] == str(tokens)


@pytest.mark.parametrize("tokens", [0, 2])
def test_a_cut_in_the_middle_of_a_chunk(server: Running, tokens: int) -> None:
    raw = suffer(server, f"cut:{tokens}")
    assert (raw.status, raw.ended, len(texts(raw))) == (200, "eof", tokens)
    size, _, piece = raw.data.rpartition(b"data: ")
    assert int(size.rsplit(b"\r\n", 2)[-2], 16) > len(b"data: " + piece), "less came than the chunk had promised"


@pytest.mark.parametrize("tokens", [0, 2])
def test_a_reset(server: Running, tokens: int) -> None:
    raw = suffer(server, f"reset:{tokens}")
    assert raw.ended == "reset"
    assert len(texts(raw)) == tokens


def test_a_fault_past_the_end_of_the_reply_strikes_after_its_last_token(server: Running) -> None:
    raw = suffer(server, "cut:100")
    assert (raw.ended, len(texts(raw))) == ("eof", 4)
    assert "[DONE]" not in raw.events


def test_a_stall_lasts_until_the_client_leaves(server: Running) -> None:
    with connect(server.base_url) as sock:
        headers = {"X-Simulate-Fault": "stall:2", "X-Request-Id": "stalled"}
        sock.sendall(request_bytes(PATH, chat(max_tokens=4), headers))
        came = b""
        while came.count(b'"content":"') < 3:  # the role, and two tokens
            came += sock.recv(65_536)
        eventually(lambda: metrics(server.base_url)["vllm:num_requests_running"] == 0)
        sock.settimeout(0.1)  # four tokens take 8 ms of the engine, and it has said them all
        with pytest.raises(TimeoutError):
            sock.recv(1)
    row = truth(server.log_path, "stalled")
    assert (row["outcome"], row["output_tokens"]) == ("fault stall:2", "2")


def test_a_buffered_reply_comes_in_one_piece(server: Running) -> None:
    raw = suffer(server, "buffered")
    assert raw.ended == "complete"
    assert len(texts(raw)) == 4
    assert raw.reads[0] == raw.data
    row = truth(server.log_path, "fault-buffered")
    assert row["t_first_ns"] == row["t_last_ns"]


def test_a_slow_usage_event(server: Running) -> None:
    raw = suffer(server, "slow-usage:80")
    assert (raw.ended, len(texts(raw)), raw.events[-1]) == ("complete", 4, "[DONE]")
    row = truth(server.log_path, "fault-slow-usage:80")
    assert int(row["t_end_ns"]) - int(row["t_last_ns"]) >= 80_000_000


def test_no_finish_reason(server: Running) -> None:
    raw = suffer(server, "no-finish")
    assert raw.events[-1] == "[DONE]"
    choices = [choice for event in raw.events[:-1] for choice in event["choices"]]
    assert {choice["finish_reason"] for choice in choices} == {None}


def test_a_stream_that_was_asked_for_and_not_given(server: Running) -> None:
    raw = suffer(server, "not-streamed")
    assert b"content-type: application/json" in raw.data
    assert json.loads(raw.body)["choices"][0]["finish_reason"] == "length"


def test_a_page_of_html(server: Running) -> None:
    raw = suffer(server, "html")
    assert (raw.status, raw.ended) == (200, "complete")
    assert b"content-type: text/html" in raw.data


def test_a_close_before_the_response_head(server: Running) -> None:
    raw = suffer(server, "close")
    assert (raw.data, raw.ended) == (b"", "eof")


@pytest.mark.parametrize(("fault", "ended"), [("cut:1", "eof"), ("reset:1", "reset")])
def test_a_reply_without_a_stream_is_cut_and_reset_too(server: Running, fault: str, ended: str) -> None:
    raw = suffer(server, fault, f"whole-{fault}", stream=False)
    assert raw.ended == ended


def test_an_unknown_fault_is_a_400_that_names_the_forms(server: Running) -> None:
    raw = suffer(server, "bang")
    assert raw.status == 400
    assert "stream-error:N" in json.loads(raw.body)["error"]["message"]


@pytest.mark.process
def test_shares_are_dealt_by_seed_and_number_and_a_header_overrides_them() -> None:
    outcomes = []
    for _ in range(2):
        with running(decode_ms=0, fault=["status=503:0.5"], seed=11) as server:
            outcomes.append([ask(server.base_url, PATH, chat(max_tokens=1)).status for _ in range(20)])
            assert ask(server.base_url, PATH, chat(max_tokens=1), {"X-Simulate-Fault": "none"}).status == 200
    assert outcomes[0] == outcomes[1]
    assert set(outcomes[0]) == {200, 503}


@pytest.mark.process
def test_latency_delays_and_bandwidth_stretches() -> None:
    with running(decode_ms=0, latency_ms=60, bandwidth_kbps=80) as server:  # 10 bytes a millisecond
        with connect(server.base_url) as sock:
            sock.sendall(request_bytes(PATH, chat(max_tokens=4), {"X-Request-Id": "slow"}))
            raw = read_response(sock)
        row = truth(server.log_path, "slow")
    assert raw.events[-1] == "[DONE]"
    assert int(row["t_first_ns"]) - int(row["t_recv_ns"]) >= 60_000_000
    assert int(row["t_end_ns"]) - int(row["t_recv_ns"]) >= (60 + len(raw.data) / 10) * 1_000_000
