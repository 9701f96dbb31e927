"""Conversations: each turn is the whole of what was said, the model's own replies included, and then what is new."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llm_locust.records import UsageError
from llm_locust.records.run import SliceSpec, TokenRule, WorkloadSpec
from llm_locust.workload import Prompt, Workload, load_workload
from llm_locust.workload.sessions import parse_sessions


def write(folder: Path, *lines: dict[str, object]) -> WorkloadSpec:
    path = folder / "chats.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return WorkloadSpec(prompts_file=str(path), seed=1, max_tokens=9)


def held(workload: Workload, first: Prompt, *replies: str) -> list[tuple[float, Prompt]]:
    """The whole conversation, with these replies."""
    found = [(0.0, first)]
    for reply in replies:
        following = workload.next_turn(found[-1][1], reply)
        assert following is not None
        found.append(following)
    assert workload.next_turn(found[-1][1], "the end") is None
    return found


CHAT = (
    {"session": "a", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "one"}]},
    {"prompt": "alone"},
    {"session": "a", "prompt": "two", "think_s": 1.5, "max_tokens": 4},
    {"session": "a", "prompt": "three"},
)


def test_lines_of_one_session_are_its_turns_in_the_files_order(tmp_path: Path) -> None:
    workload = load_workload(write(tmp_path, *CHAT))
    assert workload.facts.prompts == 2
    assert workload.facts.read == 4
    assert workload.converses
    conversation = held(workload, workload.prompt(0), "r1", "r2")
    assert [think_s for think_s, _ in conversation] == [0, 1.5, 0]
    assert [prompt.turn for _, prompt in conversation] == [1, 2, 3]
    assert [prompt.max_tokens for _, prompt in conversation] == [9, 4, 9]
    assert {prompt.session for _, prompt in conversation} == {"a"}
    assert {prompt.index for _, prompt in conversation} == {0}
    assert conversation[2][1].chat == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "r1"},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": "r2"},
        {"role": "user", "content": "three"},
    ]


def test_a_prompt_alone_has_no_next_turn(tmp_path: Path) -> None:
    workload = load_workload(write(tmp_path, *CHAT))
    alone = workload.prompt(1)
    assert (alone.session, alone.turn) == (None, None)
    assert workload.next_turn(alone, "r") is None


def test_a_session_that_is_played_again_is_another_one(tmp_path: Path) -> None:
    workload = load_workload(write(tmp_path, *CHAT))
    again = workload.prompt(2)
    assert again.session == "a#1"
    conversation = held(workload, again, "x", "y")
    assert {prompt.session for _, prompt in conversation} == {"a#1"}


def test_a_turns_digest_is_of_its_specification_and_not_of_what_the_model_said(tmp_path: Path) -> None:
    workload = load_workload(write(tmp_path, *CHAT))
    one, other = (held(workload, workload.prompt(0), reply, reply) for reply in ("yes", "no"))
    assert [prompt.sha256 for _, prompt in one] == [prompt.sha256 for _, prompt in other]
    assert len({prompt.sha256 for _, prompt in one}) == 3
    assert one[1][1].chat != other[1][1].chat
    changed = load_workload(write(tmp_path, CHAT[0], CHAT[1], {**CHAT[2], "prompt": "2"}, CHAT[3]))
    assert changed.facts.sha256 != workload.facts.sha256
    assert held(changed, changed.prompt(0), "a", "b")[2][1].sha256 != one[2][1].sha256  # it holds the turn before


def test_made_up_sessions_have_their_turns_think_times_and_lengths() -> None:
    spec = WorkloadSpec(seed=1, max_tokens=9, input_tokens="40", sessions="turns=3,think=2")
    workload = load_workload(spec)
    conversation = held(workload, workload.prompt(7), "r1", "r2")
    assert [think_s for think_s, _ in conversation] == [0, 2, 2]
    last = conversation[2][1]
    assert (last.session, last.turn, last.index) == ("s7", 3, 7)
    assert [message["role"] for message in last.chat] == ["user", "assistant", "user", "assistant", "user"]
    said = [message["content"] for message in last.chat if message["role"] == "user"]
    assert [len(text.split()) for text in said] == [40, 40, 40]
    assert len(set(said)) == 3
    assert conversation[0][1].input_tokens == 40
    assert last.input_tokens is None  # replies are in it, and nobody asked how long those are


def test_sessions_in_a_slice_of_a_mix_go_on_in_their_slice() -> None:
    chat = SliceSpec(name="chat", weight=1, max_tokens=9, sessions="turns=2,think=1")
    rest = SliceSpec(name="rest", weight=1, max_tokens=9)
    workload = load_workload(WorkloadSpec(seed=1, max_tokens=9, mix=[chat, rest]))
    assert workload.converses
    prompts = [workload.prompt(index) for index in range(20)]
    sessions = [prompt for prompt in prompts if prompt.slice == "chat"]
    assert len({prompt.session for prompt in sessions}) == len(sessions) > 4
    for first in sessions:
        _, (think_s, second) = held(workload, first, "r")
        assert (think_s, second.index, second.slice, second.session) == (1, first.index, "chat", first.session)
        assert second.chat[:2] == [*first.chat, {"role": "assistant", "content": "r"}]
    assert all(workload.next_turn(prompt, "r") is None for prompt in prompts if prompt.slice == "rest")


def test_a_text_completion_gets_the_conversation_as_one_text() -> None:
    workload = load_workload(WorkloadSpec(seed=1, max_tokens=9, sessions="turns=2", tokens=TokenRule()))
    first = workload.prompt(0)
    following = workload.next_turn(first, "the reply")
    assert following is not None
    assert following[1].text.startswith(f"{first.text}\n\nthe reply\n\n")


@pytest.mark.parametrize(
    ("text", "says"), [("think=2", "turns is missing"), ("turns=0", "turns=0"), ("turns=2,think=-1", "think=-1")]
)
def test_sessions_that_make_no_sense_are_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match="--sessions") as error:
        parse_sessions(text)
    assert says in str(error.value)
