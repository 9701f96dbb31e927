"""ShareGPT files: the first question of each conversation, and everything that is left out is counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llm_locust.records import UsageError
from llm_locust.records.run import TokenRule, WorkloadSpec
from llm_locust.workload import ShareGPTFile, load_workload, needs_counting


def turns(*said: tuple[str, str]) -> list[dict[str, str]]:
    return [{"from": who, "value": text} for who, text in said]


def write(folder: Path, *entries: object, raw: bytes | None = None) -> str:
    path = folder / "chats.json"
    path.write_bytes(raw if raw is not None else json.dumps(entries).encode())
    return str(path)


def load(path: str, characters_per_token: float = 4.0) -> ShareGPTFile:
    found = load_workload(
        WorkloadSpec(
            prompts_file=path, seed=1, max_tokens=99, tokens=TokenRule(characters_per_token=characters_per_token)
        )
    )
    assert isinstance(found, ShareGPTFile)
    return found


def test_the_first_question_is_the_prompt_and_its_reply_is_as_long_as_ours_may_be(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {"id": "a", "conversations": turns(("human", "hi"), ("gpt", "x" * 41), ("human", "more"), ("gpt", "y"))},
        {"id": "b", "conversations": turns(("system", "be brief"), ("user", "why"), ("assistant", "yes"))},
    )
    workload = load(path)
    first, second = workload.prompt(0), workload.prompt(1)
    assert (first.prompt, first.max_tokens, first.id) == ("hi", 11, "a")  # 41 characters at 4 a token
    assert (second.prompt, second.max_tokens) == ("why", 1)
    assert workload.prompt(2) == first
    assert load(path, 8.2).prompt(0).max_tokens == 5
    assert workload.facts.kind == "representative"


def test_what_is_left_out_is_counted_by_its_reason(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {"conversations": turns(("human", "hi"), ("gpt", "hello"))},
        {"conversations": []},
        {"conversations": turns(("gpt", "hello"))},
        {"conversations": turns(("human", "hi"))},
        {"conversations": turns(("human", "hi"), ("human", "anybody?"))},
        {"conversations": turns(("human", "  "), ("gpt", "hello"))},
        {"conversations": turns(("human", "hi"), ("gpt", ""))},
        {"conversations": "none"},
        {"text": "hi"},
        7,
    )
    facts = load(path).facts
    assert facts.dropped == {
        "nobody asks": 2,
        "no reply to the first question": 2,
        "empty text": 2,
        "not a conversation": 3,
    }
    assert facts.prompts == 1
    assert facts.read == 10 == facts.prompts + sum(facts.dropped.values())


def test_a_file_without_a_usable_conversation_is_refused_with_the_reasons(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no usable conversation in it \(1 of nobody asks\)"):
        load(write(tmp_path, {"conversations": []}))
    with pytest.raises(UsageError, match="it is empty"):
        load(write(tmp_path))


@pytest.mark.parametrize("raw", [b'[{"conversations": [', b"[\xff]", b'[{"conversations": []},]'])
def test_a_file_that_only_begins_like_one_is_named(tmp_path: Path, raw: bytes) -> None:
    with pytest.raises(UsageError, match=r"chats\.json: (it begins like|no usable)"):
        load(write(tmp_path, raw=raw))


def test_a_byte_order_mark_and_blanks_before_the_list_are_read_past(tmp_path: Path) -> None:
    raw = b"\xef\xbb\xbf\n " + json.dumps([{"conversations": turns(("human", "hi"), ("gpt", "hello"))}]).encode()
    assert load(write(tmp_path, raw=raw)).prompt(0).prompt == "hi"


def test_its_replies_are_measured_in_tokens_and_so_need_counting(tmp_path: Path) -> None:
    path = write(tmp_path, {"conversations": turns(("human", "hi"), ("gpt", "hello"))})
    assert needs_counting(WorkloadSpec(prompts_file=path, seed=1, max_tokens=9))
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"prompt": "hi"}\n')
    assert not needs_counting(WorkloadSpec(prompts_file=str(lines), seed=1, max_tokens=9))
