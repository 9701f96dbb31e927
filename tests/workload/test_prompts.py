"""Workloads: the same prompt for the same index everywhere, and a bad line is named."""

from pathlib import Path

import pytest

from llm_locust.records import UsageError
from llm_locust.records.run import WorkloadSpec
from llm_locust.workload import PromptsFile, SyntheticPrompts, fixed, load_workload, workload_of


def write(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_prompts_are_taken_in_the_files_order_and_again_from_the_start(tmp_path: Path) -> None:
    workload = PromptsFile(write(tmp_path, '{"prompt": "a"}', "", '{"prompt": "b", "max_tokens": 5}'), max_tokens=9)
    assert [workload.prompt(index).prompt for index in range(4)] == ["a", "b", "a", "b"]
    assert [workload.prompt(index).max_tokens for index in range(2)] == [9, 5]
    assert workload.facts.prompts == 2
    assert workload.facts.kind == "representative"


def test_output_tokens_is_another_name_for_max_tokens(tmp_path: Path) -> None:
    assert PromptsFile(write(tmp_path, '{"prompt": "a", "output_tokens": 3}'), 9).prompt(0).max_tokens == 3


def test_a_text_becomes_a_message_and_messages_become_a_text(tmp_path: Path) -> None:
    workload = PromptsFile(
        write(
            tmp_path,
            '{"prompt": "hi"}',
            '{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]}',
        ),
        9,
    )
    assert workload.prompt(0).chat == [{"role": "user", "content": "hi"}]
    assert workload.prompt(1).text == "s\n\nu"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "not JSON"),
        ("[]", "Expected `object`"),
        ('{"prompt": 5}', "Expected `str | null`"),
        ("{}", 'either "prompt" or "messages"'),
        ('{"prompt": "a", "messages": []}', 'either "prompt" or "messages"'),
        ('{"prompt": ""}', "empty"),
        ('{"messages": []}', "empty"),
        ('{"messages": [{"role": "user", "content": ""}]}', "empty"),
        ('{"prompt": "a", "output_tokens": -1}', "output_tokens must be at least 1"),
        ('{"prompt": "a", "input_tokens": 0}', "input_tokens must be at least 1"),
        ('{"prompt": "a", "session": "s", "think_s": -1}', "think_s is seconds"),
        ('{"prompt": "a", "extra": {"n": 2, "stream": false}}', "extra cannot hold n, stream"),
        ('{"prompt": "\\ud800"}', "not JSON"),
        ('{"prompt": "a", "max_tokens": 0}', "at least 1"),
        ('{"prompt": "a", "slice": "one\\ntwo"}', "slice is a name on one line"),
        ('{"prompt": "a", "session": "\\u001b[1m"}', "session is a name on one line"),
    ],
)
def test_a_bad_line_is_named_with_file_line_and_reason(tmp_path: Path, line: str, says: str) -> None:
    path = write(tmp_path, *['{"prompt": "good"}'] * 6, line)
    with pytest.raises(UsageError) as error:
        PromptsFile(path, 9)
    assert str(error.value).startswith(f"{path}:7: ")
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("promt", "prompt"), ("Prompt", "prompt"), ("message", "messages"), ("max_token", "max_tokens"),
        ("maxTokens", "max_tokens"), ("max_new_tokens", "max_tokens"), ("max_output_tokens", "max_tokens"),
        ("ouput_tokens", "output_tokens"), ("think-s", "think_s"), ("sesion", "session"), ("Extra", "extra"),
    ],
)  # fmt: skip
def test_a_misspelt_key_is_refused_with_file_line_and_the_right_one(tmp_path: Path, key: str, meant: str) -> None:
    path = write(tmp_path, '{"prompt": "good"}', f'{{"prompt": "a", "{key}": 5}}')
    with pytest.raises(UsageError) as error:
        PromptsFile(path, 9)
    assert str(error.value) == f'{path}:2: unknown key "{key}": write "{meant}", or rename it if it is your own'


def test_a_misspelt_prompt_is_said_to_be_that_and_not_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match='unknown key "promt": write "prompt"'):
        PromptsFile(write(tmp_path, '{"promt": "a"}'), 9)


def test_columns_of_ones_own_are_left_alone_and_told_once(tmp_path: Path) -> None:
    own = '{"prompt": "a", "session_id": 1, "category": "x", "temperature": 0}'
    plain = PromptsFile(write(tmp_path, '{"prompt": "a"}', '{"prompt": "b"}', '{"prompt": "c"}'), 9)
    assert plain.facts.notes == []
    path = write(tmp_path, own, '{"prompt": "b", "category": "y"}', '{"prompt": "c"}')
    found = PromptsFile(path, 9)
    assert found.facts.notes == [
        f'{path}: keys that nothing reads are left alone: "category" (2 lines), "session_id" (1 line), '
        '"temperature" (1 line); a field of the request\'s body goes into "extra"'
    ]
    assert found.facts.sha256 == plain.facts.sha256


def test_invalid_utf8_is_named_like_any_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'{"prompt": "ok"}\n{"prompt": "\xff"}\n')
    with pytest.raises(UsageError, match=r"p\.jsonl:2: "):
        PromptsFile(str(path), 9)


def test_a_missing_or_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        PromptsFile(str(tmp_path / "none.jsonl"), 9)
    with pytest.raises(UsageError, match="no prompts in it"):
        PromptsFile(write(tmp_path, ""), 9)


def test_a_byte_order_mark_and_crlf_are_read_past(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"prompt": "a"}\r\n{"prompt": "b"}')
    assert PromptsFile(str(path), 9).facts.prompts == 2


def test_synthetic_prompts_differ_by_index_and_seed_and_are_the_same_in_every_process() -> None:
    one, again, other = SyntheticPrompts(1, 9), SyntheticPrompts(1, 9), SyntheticPrompts(2, 9)
    assert one.prompt(5) == again.prompt(5)
    assert len({one.prompt(index).sha256 for index in range(500)}) == 500
    assert one.prompt(5).prompt != other.prompt(5).prompt
    assert one.facts.kind == "synthetic"


def test_a_worker_with_another_prompts_file_is_told_so(tmp_path: Path) -> None:
    path = write(tmp_path, '{"prompt": "a"}')
    digest = load_workload(WorkloadSpec(prompts_file=path, seed=1, max_tokens=9)).facts.sha256
    spec = WorkloadSpec(prompts_file=path, seed=1, max_tokens=9, sha256=digest)
    assert workload_of(spec).facts.sha256 == digest
    write(tmp_path, '{"prompt": "b"}')
    with pytest.raises(UsageError, match="not the same here as on the master"):
        workload_of(spec)


def test_a_lines_own_fields_go_before_those_of_all(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        '{"prompt": "a", "extra": {"temperature": 1.0, "tools": [{"type": "function"}]}, "id": 7, "expected": {"a": 1}}',
        '{"prompt": "b"}',
    )
    spec = WorkloadSpec(prompts_file=path, seed=1, max_tokens=9, min_tokens=4, extra={"temperature": 0.0, "seed": 5})
    workload = load_workload(spec)
    own, other = workload.prompt(0), workload.prompt(1)
    assert own.extra == {"temperature": 1.0, "seed": 5, "min_tokens": 4, "tools": [{"type": "function"}]}
    assert (own.id, own.expected) == ("7", {"a": 1})
    assert other.extra == {"temperature": 0.0, "seed": 5, "min_tokens": 4}


def test_output_lengths_may_be_drawn_for_prompts_that_name_none(tmp_path: Path) -> None:
    path = write(tmp_path, '{"prompt": "a", "max_tokens": 5}', '{"prompt": "b"}')
    workload = load_workload(
        WorkloadSpec(prompts_file=path, seed=1, max_tokens=9, output_tokens="uniform:low=100,high=200")
    )
    assert workload.prompt(0).max_tokens == 5
    assert 100 <= workload.prompt(1).max_tokens <= 200
    assert (
        workload.prompt(1).max_tokens
        == load_workload(
            WorkloadSpec(prompts_file=path, seed=1, max_tokens=9, output_tokens="uniform:low=100,high=200")
        )
        .prompt(3)
        .max_tokens
    )


def test_prompts_of_a_file_cannot_be_made_longer_or_share_what_they_do_not(tmp_path: Path) -> None:
    path = write(tmp_path, '{"prompt": "a"}')
    for field in ("input_tokens", "shared_prefix", "sessions"):
        with pytest.raises(UsageError, match=f"--{field.replace('_', '-')} is of made-up prompts"):
            load_workload(WorkloadSpec(prompts_file=path, seed=1, max_tokens=9, **{field: "5"}))  # type: ignore[arg-type]


def test_a_line_of_50_mb_is_a_prompt_like_any_other(tmp_path: Path) -> None:
    path = write(tmp_path, f'{{"prompt": "{"x" * 50_000_000}"}}', '{"prompt": "b"}')
    workload = load_workload(WorkloadSpec(prompts_file=path, seed=1, max_tokens=9))
    assert [len(workload.prompt(index).text) for index in range(2)] == [50_000_000, 1]


def test_a_file_is_read_once_as_long_as_it_does_not_change(tmp_path: Path) -> None:
    spec = WorkloadSpec(prompts_file=write(tmp_path, '{"prompt": "a"}'), seed=1, max_tokens=9)
    first = load_workload(spec)
    assert load_workload(fixed(spec, first)) is first
    write(tmp_path, '{"prompt": "b", "max_tokens": 3}')
    assert load_workload(spec).prompt(0).prompt == "b"


def test_a_person_may_call_a_file_synthetic_but_not_made_up_text_representative(tmp_path: Path) -> None:
    own = write(tmp_path, '{"prompt": "a"}')
    assert (
        load_workload(WorkloadSpec(prompts_file=own, seed=1, max_tokens=9, kind="synthetic")).facts.kind == "synthetic"
    )
    made_up = write(tmp_path, '{"prompt": "a", "workload_kind": "synthetic"}')
    with pytest.raises(UsageError, match="its prompts were made up"):
        load_workload(WorkloadSpec(prompts_file=made_up, seed=1, max_tokens=9, kind="representative"))
