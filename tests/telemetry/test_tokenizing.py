"""Counting tokens: what the server's own page says is what its usage says, in vLLM's form and in llama.cpp's."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
import requests

from llm_locust.records import UsageError
from llm_locust.records.run import WorkloadSpec
from llm_locust.simulator.process import running
from llm_locust.telemetry.probe import Probe
from llm_locust.telemetry.tokenizing import CannotCount, FileTokenizer, ServerTokenizer
from llm_locust.workload import load_workload
from llm_locust.workload.calibration import calibrate
from tests.telemetry.server import Pages, http

CHAT = {"model": "m", "messages": [{"role": "user", "content": "one two three"}], "temperature": 0}


def test_vllms_page_is_asked_for_prompts_and_for_messages_with_their_template() -> None:
    with running(model="m") as (base_url, _):
        tokenizer = ServerTokenizer(Probe(base_url, {}, keep_alive=True))
        assert tokenizer.counted_by == "the server's /tokenize"
        assert len(tokenizer.tokens({"model": "m", "prompt": "one two three"})) == 3
        assert (
            len(tokenizer.tokens(CHAT)) == 6
        )  # a marker and an end around the message, and one where the reply begins


def test_lengths_asked_for_come_back_as_usage() -> None:
    with running(model="m", decode_ms=0) as (base_url, _):
        tokenizer = ServerTokenizer(Probe(base_url, {}, keep_alive=True))

        def body(text: str) -> dict[str, object]:
            return {"model": "m", "messages": [{"role": "user", "content": text}]}

        rule = calibrate(lambda text: tokenizer.tokens(body(text)), source="server", counted_by="")
        assert (rule.overhead, rule.ahead) == (3, 1)
        workload = load_workload(WorkloadSpec(seed=1, max_tokens=1, input_tokens="512", tokens=rule))
        for index in range(3):
            ask = {**body(workload.prompt(index).text), "max_tokens": 1}
            answer = requests.post(f"{base_url}/v1/chat/completions", json=ask, timeout=10).json()
            assert answer["usage"]["prompt_tokens"] == 512


def llamas_pages() -> dict[str, bytes]:
    """As llama.cpp answers: to vLLM's form, which has no ``content``, with no tokens."""
    return {
        "/tokenize": http(200, {"tokens": [5, 6, 7, 8]}),
        "/apply-template": http(200, {"prompt": "<|im_start|>user\none<|im_end|>\n"}),
    }


def test_llamas_page_is_known_by_its_answer_and_a_chat_goes_through_its_template_first() -> None:
    pages = Pages(llamas_pages())
    try:
        tokenizer = ServerTokenizer(Probe(pages.url, {}))
        assert len(tokenizer.tokens({"prompt": "one"})) == 4
        assert pages.asked == ["/tokenize"] * 3
        assert len(tokenizer.tokens(CHAT)) == 4
        assert pages.asked[3:] == ["/apply-template", "/tokenize"]
    finally:
        pages.stop()


@pytest.mark.parametrize(
    ("pages_", "says"),
    [
        ({}, "/tokenize: HTTP 404 Not Found"),
        ({"/tokenize": http(500, {"error": {"message": "out of order"}})}, "/tokenize: HTTP 500 out of order"),
        ({"/tokenize": http(200, "hello")}, "answers in no form that is known"),
    ],
)
def test_a_server_without_such_a_page_is_told_from_one_that_fails(pages_: dict[str, bytes], says: str) -> None:
    pages = Pages(pages_)
    try:
        with pytest.raises(CannotCount) as error:
            ServerTokenizer(Probe(pages.url, {}))
        assert says in str(error.value)
    finally:
        pages.stop()


def test_a_server_that_is_not_there_cannot_count() -> None:
    with pytest.raises(CannotCount, match="/tokenize: "):
        ServerTokenizer(Probe("http://127.0.0.1:1", {}))


def test_the_synthetic_server_answers_in_both_forms() -> None:
    with running() as (base_url, _):
        answer = requests.post(f"{base_url}/tokenize", json={"content": "a b a"}, timeout=10).json()
        assert list(answer) == ["tokens"]
        assert len(answer["tokens"]) == 3


@pytest.mark.skipif(importlib.util.find_spec("tokenizers") is not None, reason="the library is installed")
def test_a_tokenizer_file_without_its_library_says_how_to_install_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"pip install 'llm-locust\[tokenizers\]'"):
        FileTokenizer(str(tmp_path / "tokenizer.json"))


def test_a_tokenizer_file_counts_the_texts_of_a_body(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    path = tmp_path / "tokenizer.json"
    words = {"[UNK]": 0, "one": 1, "two": 2}
    path.write_text(
        json.dumps(
            {
                "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
                "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
                "model": {"type": "WordLevel", "vocab": words, "unk_token": "[UNK]"},
            }
        )
    )  # fmt: skip
    tokenizer = FileTokenizer(str(path))
    assert len(tokenizer.tokens({"prompt": "one two one"})) == 3
    assert len(tokenizer.tokens(CHAT)) == 3
    path.write_text("{}")
    with pytest.raises(UsageError, match=r"not a tokenizer\.json"):
        FileTokenizer(str(path))
