"""``llm-locust decode``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from llm_locust import UsageError
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
    [
        ["no-such-file", "--dialect", CHAT],
        ["-", "--dialect", CHAT, "--split", "0"],
        ["-", "--locustfile", "no-such-file.py"],
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    assert CliRunner().invoke(command, arguments).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--dialect is missing: choose one of openai-chat, openai-completions, ollama-generate, ollama-chat, or "),
        (["--dialect", "x"], "unknown dialect 'x': choose one of openai-chat"),
    ],
)
def test_a_dialect_that_is_not_known_is_answered_with_those_that_are(arguments: list[str], said: str) -> None:
    error = CliRunner().invoke(command, ["-", *arguments], input=b"").exception
    assert isinstance(error, UsageError)
    assert str(error).startswith(said)


# --- a dialect of one's own -----------------------------------------------------------------------------------------

MINE = """from llm_locust import register_dialect
from llm_locust.streaming import Delta, JsonLines


class Mine:
    path, media_type, events = "/mine", "application/x-ndjson", JsonLines

    def __init__(self, name, text="text"):
        self.name, self._text = name, text

    def read_event(self, event):
        return Delta(text=event.data.decode().strip('"'), finished=True, finish_reason=self.name)

    def read_whole(self, body):
        return Delta(text=body.decode(), finished=True)


"""
LINE = b'HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nConnection: close\r\n\r\n"hi"\n'


def with_file(file: Path, code: str, *arguments: str) -> Result:
    file.write_text(code, encoding="utf-8")
    return CliRunner().invoke(command, ["-", "-f", str(file), *arguments], input=LINE)


@pytest.mark.usefixtures("own_dialects")
def test_a_locustfile_registers_the_dialect_that_is_read(tmp_path: Path) -> None:
    result = with_file(tmp_path / "mine.py", MINE + 'register_dialect(Mine("mine"))\n')
    assert result.exit_code == 0, result.output
    read = json.loads(result.stdout)
    assert (read["outcome"], read["text"], read["finish_reason"]) == ("ok", "hi", "mine")


@pytest.mark.usefixtures("own_dialects")
def test_of_several_one_is_chosen(tmp_path: Path) -> None:
    code = MINE + "class Next(Mine): ...\n" + 'register_dialect(Mine("one"))\nregister_dialect(Next("two"))\n'
    read = json.loads(with_file(tmp_path / "several.py", code, "--dialect", "two").stdout)
    assert read["finish_reason"] == "two"
    error = with_file(tmp_path / "several.py", code).exception
    assert str(error).endswith("several.py registers one, two: choose one with --dialect NAME")


@pytest.mark.usefixtures("own_dialects")
@pytest.mark.parametrize(
    ("code", "said"),
    [
        (MINE, "registers no dialect: add register_dialect"),
        (
            MINE + 'register_dialect(Mine("openai-chat"))\n',
            "wrong.py: line 18: dialect Mine: the name 'openai-chat' is taken",
        ),
        (
            MINE + "register_dialect(Yours())\n",
            "wrong.py: line 18 ends with NameError: name 'Yours' is not defined: mend",
        ),
        ("\nimport no_such_thing\n", "wrong.py: line 2 ends with ModuleNotFoundError: No module named 'no_such_thing'"),
        ("def f(:\n", "wrong.py: line 1: invalid syntax: mend that line"),
    ],
)
def test_a_file_that_cannot_be_used_is_answered_with_its_line(tmp_path: Path, code: str, said: str) -> None:
    error = with_file(tmp_path / "wrong.py", code).exception
    assert isinstance(error, UsageError)
    assert said in str(error)
