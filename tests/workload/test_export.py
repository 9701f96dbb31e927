"""An export sent again is the same bit for bit, and has what vLLM's bench reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from llm_locust.cli import llm_locust
from llm_locust.records.run import SliceSpec, WorkloadSpec
from llm_locust.workload import Prompt, Workload, load_workload
from llm_locust.workload.export import export_lines

SAMPLES = Path(__file__).parents[1] / "arrivals" / "traces" / "samples"


def again(folder: Path, workload: Workload, count: int) -> Workload:
    path = folder / "export.jsonl"
    path.write_bytes(b"".join(export_lines(workload, count)))
    return load_workload(WorkloadSpec(prompts_file=str(path), seed=77, max_tokens=1))


def all_turns(workload: Workload, index: int) -> list[Prompt]:
    found = [workload.prompt(index)]
    while (following := workload.next_turn(found[-1], "reply")) is not None:
        found.append(following[1])
    return found


def spec(**options: object) -> WorkloadSpec:
    return WorkloadSpec(**{"seed": 1, "max_tokens": 9, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "source",
    [
        spec(),
        spec(input_tokens="uniform:low=5,high=50", output_tokens="uniform:low=1,high=9", extra={"temperature": 0.5}),
        spec(input_tokens="40", shared_prefix="share=0.5,groups=3", min_tokens=-1),
        spec(input_tokens="20", sessions="turns=3,think=2"),
        spec(trace_file=str(SAMPLES / "mooncake_conversation.jsonl")),
        spec(trace_file=str(SAMPLES / "bailian_made_up.jsonl")),  # a trace of sessions, whose rows stand for themselves
        spec(
            mix=[
                SliceSpec(name="a", weight=1, max_tokens=5, sessions="turns=2"),
                SliceSpec(name="b", weight=2, max_tokens=6, input_tokens="30", shared_prefix="share=0.9"),
            ]
        ),
    ],
    ids=["synthetic", "lengths", "prefix", "sessions", "mooncake", "bailian", "mix"],
)
def test_every_request_of_an_export_has_the_digest_it_had(tmp_path: Path, source: WorkloadSpec) -> None:
    workload = load_workload(source)
    copy = again(tmp_path, workload, 12)
    for index in range(12):
        one, other = all_turns(workload, index), all_turns(copy, index)
        assert [turn.sha256 for turn in one] == [turn.sha256 for turn in other]
        assert [turn.chat for turn in one] == [turn.chat for turn in other]
        for name in ("max_tokens", "extra", "prefix_group", "slice", "input_tokens"):
            assert [getattr(turn, name) for turn in one] == [getattr(turn, name) for turn in other]
    assert copy.facts.kind == "synthetic"  # made-up text does not become anybody's own by being written down


def test_a_line_has_both_names_of_the_output_limit_and_everything_that_is_known() -> None:
    workload = load_workload(spec(input_tokens="5", shared_prefix="share=0.4", extra={"seed": 3}))
    line = json.loads(next(export_lines(workload, 1)))
    assert line.pop("prompt").count(" ") == 4
    assert line == {
        "id": "0", "max_tokens": 9, "output_tokens": 9, "input_tokens": 5, "prefix_group": "g0",
        "extra": {"seed": 3}, "workload_kind": "synthetic",
    }  # fmt: skip


def test_messages_names_and_expected_answers_come_through(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    line = {
        "id": "q1", "messages": [{"role": "user", "content": "hi", "name": "x"}], "max_tokens": 4, "expected": "hello",
        "extra": {"tools": [{"type": "function"}], "response_format": {"type": "json_object"}, "stop": ["."]},
        "slice": "faq",
    }  # fmt: skip
    path.write_text(json.dumps(line) + "\n")
    workload = load_workload(spec(prompts_file=str(path)))
    exported = json.loads(next(export_lines(workload, 1)))
    assert exported == {**line, "output_tokens": 4}
    assert again(tmp_path, workload, 1).facts.kind == "representative"


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(llm_locust, ["workload", "export", *arguments])
    return result.exit_code, result.output + str(result.exception or "")


def test_the_command_takes_the_options_of_a_run(tmp_path: Path) -> None:
    out = str(tmp_path / "out.jsonl")
    code, said = run("--input-tokens", "6", out, "--count", "2", "--temperature", "0.5", "--seed", "4")
    assert code == 0
    assert "2 lines" in said
    lines = [json.loads(line) for line in Path(out).read_text().splitlines()]
    expected = load_workload(spec(seed=4, max_tokens=128, input_tokens="6", extra={"temperature": 0.5}))
    assert [line["prompt"] for line in lines] == [expected.prompt(index).prompt for index in range(2)]
    assert lines[0]["extra"] == {"temperature": 0.5}


def test_a_file_is_exported_whole_and_what_has_no_end_needs_a_count(tmp_path: Path) -> None:
    own = tmp_path / "own.jsonl"
    own.write_text('{"prompt": "a"}\n{"prompt": "b"}\n')
    assert run(str(tmp_path / "out.jsonl"), "--prompts", str(own))[0] == 0
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2
    assert "--count is missing" in run(str(tmp_path / "out.jsonl"))[1]
    assert "No such file or directory" in run(str(tmp_path / "none" / "out.jsonl"), "--count", "1")[1]
