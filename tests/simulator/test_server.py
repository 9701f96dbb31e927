"""The process: metrics, truth log, clients that leave, keys, loading, signals and busy ports."""

from __future__ import annotations

import csv
import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from llm_locust.simulator.process import Running, SimulatorProcess, running
from tests.simulator.raw_client import (
    SECONDS,
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

pytestmark = pytest.mark.process


def test_the_metrics_count_what_was_sent() -> None:
    with running(slots=2, decode_ms=1, block_size=4, max_model_len=100, prefix_caching=True, queue_limit=0) as server:
        for length in (1, 3, 5):
            assert ask(server.base_url, PATH, chat(max_tokens=length)).status == 200
        assert ask(server.base_url, PATH, chat()).events[-2]["choices"][0]["finish_reason"] == "stop"
        found = metrics(server.base_url)
    # Four prompts of six tokens; each but the first finds its only full block of four.
    assert found["vllm:prompt_tokens_total"] == 24
    assert found["vllm:prompt_tokens_cached_total"] == 12
    assert (found["vllm:prefix_cache_queries_total"], found["vllm:prefix_cache_hits_total"]) == (24, 12)
    generated = 1 + 3 + 5 + 94  # without a limit the last runs to the end of the context
    assert found["vllm:generation_tokens_total"] == generated
    assert found["vllm:request_success_total,finished_reason=length"] == 3
    assert found["vllm:request_success_total,finished_reason=stop"] == 1
    assert found["vllm:request_success_total,finished_reason=abort"] == 0
    assert found["vllm:num_requests_running"] == found["vllm:num_requests_waiting"] == 0
    assert found["vllm:kv_cache_usage_perc"] == 0
    for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds"):
        assert found[f"vllm:{name}_count"] == 4
    assert found["vllm:inter_token_latency_seconds_count"] == generated - 4
    assert found["vllm:request_time_per_output_token_seconds_count"] == 3, "one token has no time per token"
    assert found["vllm:request_generation_tokens_sum"] == generated
    assert found["vllm:request_prompt_tokens_sum"] == 24
    # The engine's clock, not the machine's: every gap is one step of one millisecond.
    assert found["vllm:inter_token_latency_seconds_sum"] == pytest.approx((generated - 4) * 0.001)


def test_the_metrics_page_says_how_large_the_cache_is_and_parses(server: Running) -> None:
    answer = requests.get(f"{server.base_url}/metrics", timeout=SECONDS)
    assert answer.headers["content-type"] == "text/plain; version=1.0.0; charset=utf-8"
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    (info,) = families["vllm:cache_config_info"].samples
    assert info.labels["num_gpu_blocks"] == str(64 * 2048 // 16)
    assert info.labels["kv_cache_max_concurrency"] == "64.00"
    buckets = [s.labels["le"] for s in families["vllm:time_to_first_token_seconds"].samples if "le" in s.labels]
    assert (buckets[0], buckets[-2:], len(buckets)) == ("0.001", ["2560.0", "+Inf"], 23)


def test_the_queue_limit_answers_503_and_counts_rejections() -> None:
    with running(slots=1, queue_limit=0, decode_ms=50) as server, connect(server.base_url) as one:
        one.sendall(request_bytes(PATH, chat(max_tokens=4000)))
        eventually(lambda: metrics(server.base_url)["vllm:num_requests_running"] == 1)
        raw = ask(server.base_url, PATH, chat(), {"X-Request-Id": "refused"})
        found = metrics(server.base_url)
        assert truth(server.log_path, "refused")["outcome"] == "http_503"
    error = json.loads(raw.body)["error"]
    assert (raw.status, error["type"], error["code"]) == (503, "Service Unavailable", 503)
    assert found["vllm:admission_rejections_total,reason=max_num_queued_reqs"] == 1


def test_the_log_tells_the_truth_in_order(server: Running) -> None:
    before = time.time_ns()
    raw = ask(server.base_url, PATH, chat(max_tokens=6), {"X-Request-Id": "honest"})
    row = truth(server.log_path, "honest")
    assert raw.events[0]["id"] == "chatcmpl-honest"
    names = ("t_recv_ns", "t_admitted_ns", "t_first_ns", "t_last_ns", "t_end_ns")
    times = [int(row[name]) for name in names]
    assert times == sorted(times)
    assert abs(times[0] - before) < 5_000_000_000
    # Six tokens, five steps of 2 ms: tokens are never early.
    assert times[2] - times[1] >= 2_000_000
    assert times[3] - times[1] >= 6 * 2_000_000
    assert (row["prompt_tokens"], row["output_tokens"], row["outcome"]) == ("6", "6", "ok")


def test_a_client_that_leaves_frees_its_slot_for_the_next() -> None:
    with running(slots=1, decode_ms=20) as server:
        with connect(server.base_url) as leaver:
            leaver.sendall(request_bytes(PATH, chat(max_tokens=5000), {"X-Request-Id": "leaver"}))
            assert leaver.recv(1) == b"H"
        # Ahead of it there would be 100 s of tokens.
        assert ask(server.base_url, PATH, chat(max_tokens=1)).events[-1] == "[DONE]"
        assert truth(server.log_path, "leaver")["outcome"] == "aborted"
        assert metrics(server.base_url)["vllm:request_success_total,finished_reason=abort"] == 1


def test_a_client_that_leaves_the_queue_is_seen_before_its_turn() -> None:
    with running(slots=1, decode_ms=50) as server, connect(server.base_url) as one:
        one.sendall(request_bytes(PATH, chat(max_tokens=4000)))
        eventually(lambda: metrics(server.base_url)["vllm:num_requests_running"] == 1)
        with connect(server.base_url) as two:
            two.sendall(request_bytes(PATH, chat(), {"X-Request-Id": "impatient"}))
            eventually(lambda: metrics(server.base_url)["vllm:num_requests_waiting"] == 1)
        row = truth(server.log_path, "impatient")
        assert metrics(server.base_url)["vllm:num_requests_waiting"] == 0
    assert (row["outcome"], row["t_admitted_ns"], row["output_tokens"]) == ("aborted", "", "0")


def test_resets_do_not_deafen_the_server(server: Running) -> None:
    for number in range(30):
        sock = connect(server.base_url)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        sock.sendall(request_bytes(PATH, chat(max_tokens=1000))[: 40 * (number + 1)])
        sock.close()
    assert ask(server.base_url, PATH, chat(max_tokens=2)).events[-1] == "[DONE]"
    eventually(lambda: metrics(server.base_url)["vllm:num_requests_running"] == 0)


def test_many_streams_at_once_are_each_whole(server: Running) -> None:
    socks = [connect(server.base_url) for _ in range(100)]
    try:
        for number, sock in enumerate(socks):
            sock.sendall(request_bytes(PATH, chat(max_tokens=1 + number % 7)))
        for number, sock in enumerate(socks):
            assert len(read_response(sock).events) == 1 + (1 + number % 7) + 1
    finally:
        for sock in socks:
            sock.close()


def test_preemption_shows_on_the_metrics_page_and_no_token_is_lost() -> None:
    with running(slots=2, decode_ms=1, block_size=4, max_model_len=40, kv_blocks=10) as server:
        with connect(server.base_url) as one, connect(server.base_url) as two:
            for sock in (one, two):
                sock.sendall(request_bytes(PATH, chat(max_tokens=34)))
            assert [len(read_response(sock).events) for sock in (one, two)] == [36, 36]
        assert metrics(server.base_url)["vllm:num_preemptions_total"] >= 1


def test_while_loading_everything_but_the_metrics_is_unavailable() -> None:
    with running(loading_seconds=600) as server:
        for path in ("/health", "/version", "/v1/models", "/api/tags"):
            assert ask(server.base_url, path).status == 503
        raw = ask(server.base_url, PATH, chat())
        assert ask(server.base_url, "/metrics").status == 200
    assert raw.status == 503
    assert json.loads(raw.body) == {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}


def test_loading_ends() -> None:
    with running(loading_seconds=0.3) as server:
        eventually(lambda: ask(server.base_url, "/health").status == 200)
        assert ask(server.base_url, PATH, chat(max_tokens=1)).status == 200


def test_a_key_is_required_where_work_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_LOCUST_TEST_KEY", "open sesame")
    with running(api_key_env="LLM_LOCUST_TEST_KEY", decode_ms=1) as server:
        refused = ask(server.base_url, PATH, chat(max_tokens=1), {"Authorization": "Bearer wrong"})
        assert ask(server.base_url, PATH, chat(max_tokens=1)).status == 401
        assert ask(server.base_url, "/api/tags").status == 401
        right = {"Authorization": "Bearer open sesame"}
        assert ask(server.base_url, PATH, chat(max_tokens=1), right).status == 200
        assert ask(server.base_url, "/health").status == 200
    assert refused.status == 401
    assert json.loads(refused.body)["error"]["code"] == "invalid_api_key"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_streams_as_vllm_does_and_the_process_with_0(number: signal.Signals, tmp_path: Path) -> None:
    log = tmp_path / "truth.csv"
    process = SimulatorProcess({"port": 0, "log": log, "decode_ms": 20})
    try:
        with connect(process.base_url) as sock, connect(process.base_url):  # an idle one holds nobody up
            sock.sendall(request_bytes(PATH, chat(max_tokens=5000), {"X-Request-Id": "cut-short"}))
            start = sock.recv(65_536)
            assert start.startswith(b"HTTP/1.1 200 OK")
            subprocess.run(["kill", f"-{number.value}", str(process.pid)], check=True)
            raw = read_response(sock, start)
        assert process.wait(SECONDS) == 0
        assert process.errors() == ""
    finally:
        process.stop()
    assert raw.ended == "complete"
    assert b'"finish_reason":"abort"' in raw.data
    assert raw.data.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    with log.open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["request_id"], row["outcome"]) == ("cut-short", "shutdown")


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "llm_locust", "simulate", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


def test_a_busy_port_is_told_without_a_traceback(server: Running) -> None:
    port = server.base_url.rpartition(":")[2]
    result = simulate("--port", port)
    assert (result.returncode, result.stdout) == (2, "")
    assert f"cannot listen on 127.0.0.1 port {port}" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--slots", "0"), "--slots 0 is out of range"),
        (("--fault", "cut:2"), "--fault 'cut:2' must end in the share"),
        (("--log", "/nonexistent/truth.csv"), "--log /nonexistent/truth.csv: cannot write it"),
        (("--host", "256.1.1.1", "--port", "0"), "cannot listen on 256.1.1.1"),
    ],
)
def test_wrong_options_are_told_without_a_traceback(arguments: tuple[str, ...], words: str) -> None:
    result = simulate(*arguments)
    assert result.returncode == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_help_groups_the_options() -> None:
    text = simulate("--help").stdout
    assert [text.index(f"\n{heading}:\n") for heading in ("Server", "Engine", "Memory", "Trouble")] == sorted(
        text.index(f"\n{heading}:\n") for heading in ("Server", "Engine", "Memory", "Trouble")
    )
    assert "--num-parallel" in text


def test_a_server_that_cannot_start_says_why_to_whoever_started_it() -> None:
    with pytest.raises(RuntimeError, match="--slots 0 is out of range"):
        SimulatorProcess({"slots": 0})
