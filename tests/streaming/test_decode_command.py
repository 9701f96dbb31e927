"""``llm-locust decode``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from llm_locust.cli.decode import command

from .responses import CHAT, PLAIN, response, whole

CAPTURES = Path(__file__).parent / "captures"

HELLO = {
    "outcome": "ok",
    "status": 200,
    "error": None,
    "text": "Hello!",
    "reasoning": "",
    "output_events": 3,
    "output_tokens": 3,
    "output_tokens_source": "usage",
    "finish_reason": "stop",
    "prompt_tokens": 7,
    "reasoning_tokens": None,
    "cached_tokens": None,
    "load_duration_ns": None,
}


@pytest.mark.parametrize("options", [[], ["--split", "1"], ["--split", "7"], ["--split", "100000"]])
def test_a_response_is_printed_as_json(tmp_path: Path, options: list[str]) -> None:
    file = tmp_path / "a.http"
    file.write_bytes(response(*PLAIN))
    result = CliRunner().invoke(command, [str(file), "--dialect", CHAT, *options])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == HELLO
    assert result.stderr == ""


def test_standard_input_and_no_stream() -> None:
    raw = whole('{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}')
    result = CliRunner().invoke(command, ["-", "--dialect", CHAT, "--no-stream"], input=raw)
    assert json.loads(result.stdout)["outcome"] == "ok"
    assert json.loads(result.stdout)["text"] == "hi"


def test_an_empty_file_is_a_lost_connection() -> None:
    result = CliRunner().invoke(command, ["-", "--dialect", CHAT], input=b"")
    assert json.loads(result.stdout)["outcome"] == "connection_lost"


def test_a_capture_of_curl_without_its_chunks_is_read_and_said() -> None:
    file = CAPTURES / "vllm-two-choices-curl.http"
    result = CliRunner().invoke(command, [str(file), "--dialect", "openai-completions"])
    assert json.loads(result.stdout)["error"].endswith("more than one choice per request (n > 1) cannot be measured")
    assert "the body has no chunks" in result.stderr


def test_broken_chunks_are_not_taken_for_a_capture_of_curl() -> None:
    raw = response(*PLAIN).replace(b"\r\n\r\n", b"\r\n\r\nzz\r\n", 1)
    result = CliRunner().invoke(command, ["-", "--dialect", CHAT], input=raw)
    assert json.loads(result.stdout)["outcome"] == "protocol_error"
    assert result.stderr == ""


@pytest.mark.parametrize(
    "arguments",
    [["no-such-file", "--dialect", CHAT], ["-"], ["-", "--dialect", "x"], ["-", "--dialect", CHAT, "--split", "0"]],
)
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    assert CliRunner().invoke(command, arguments).exit_code == 2
