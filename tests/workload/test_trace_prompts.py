"""Prompts for a trace's rows: their lengths, shared blocks and conversations, or the very requests where it has them."""

from __future__ import annotations

import json
from itertools import takewhile
from pathlib import Path

import pytest

from llm_locust.arrivals import load_trace
from llm_locust.records import UsageError
from llm_locust.records.run import WorkloadSpec
from llm_locust.workload import TracePrompts, fixed, load_workload, workload_of

SAMPLES = Path(__file__).parents[1] / "arrivals" / "traces" / "samples"
AZURE, MOONCAKE, BAILIAN = (
    str(SAMPLES / name) for name in ("azure_code.csv", "mooncake_conversation.jsonl", "bailian_made_up.jsonl")
)


def prompts(path: str, format_name: str | None = None, *, seed: int = 1, max_tokens: int = 99) -> TracePrompts:
    return TracePrompts(load_trace(path, format_name), seed=seed, max_tokens=max_tokens)


def log(folder: Path, *rows: dict[str, object]) -> str:
    path = folder / "log.jsonl"
    path.write_text("\n".join(json.dumps({"timestamp": at, **row}) for at, row in enumerate(rows)) + "\n")
    return str(path)


def shared_words(one: str, other: str) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one.split(), other.split(), strict=False))))


def test_a_prompt_is_as_many_words_long_as_its_row_has_tokens_and_asks_for_as_many_as_it_put_out() -> None:
    workload = prompts(AZURE)
    rows = [workload.prompt(row) for row in range(3)]
    assert [len(prompt.text.split()) for prompt in rows] == [4808, 3180, 110]
    assert [prompt.input_tokens for prompt in rows] == [4808, 3180, 110]
    assert [prompt.max_tokens for prompt in rows] == [10, 8, 27]


@pytest.mark.parametrize("path", [AZURE, MOONCAKE, BAILIAN])
def test_every_row_has_its_length_also_where_it_is_put_together_from_blocks(path: str) -> None:
    workload, trace = prompts(path), load_trace(path, None)
    for row in range(trace.used):
        assert len(workload.prompt(row).text.split()) == trace.input_tokens[row]


def test_rows_that_share_blocks_begin_alike_for_the_full_blocks_and_differ_from_there_on() -> None:
    workload, trace = prompts(MOONCAKE), load_trace(MOONCAKE, None)
    assert trace.block_tokens == 512
    words = [workload.prompt(row).text.split() for row in range(trace.used)]
    compared = 0
    for row in range(trace.used):
        for other in range(row):
            blocks = 0
            for one_id, other_id in zip(trace.blocks(row), trace.blocks(other), strict=False):
                if one_id != other_id:
                    break
                blocks += 1
            # The last block of a prompt need not be full: it is then nobody else's.
            full = min(blocks, int(trace.input_tokens[row]) // 512, int(trace.input_tokens[other]) // 512)
            shared = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(words[row], words[other], strict=False))))
            assert full * 512 <= shared < full * 512 + 6  # a few words may be alike by chance, of eighty
            compared += full > 0
    assert compared > 0


def test_a_conversation_goes_on_where_its_turn_before_ended() -> None:
    workload = prompts(BAILIAN)  # blocks of 16; by time: 10, 20, 31, 32, 11, 13
    first, second = workload.prompt(0), workload.prompt(4)
    assert (first.input_tokens, second.input_tokens) == (32, 48)
    assert second.text.startswith(first.text + " ")
    assert (first.session, first.turn) == (second.session, 1)
    assert second.turn == 2


def test_text_that_nobody_shares_is_a_rows_own() -> None:
    workload = prompts(AZURE)
    assert len({workload.prompt(row).text for row in range(40)}) == 40
    for row in range(1, 40):
        assert shared_words(workload.prompt(0).text, workload.prompt(row).text) < 6


def test_a_copy_of_a_row_has_its_lengths_and_another_text_and_copies_share_among_themselves() -> None:
    workload, trace = prompts(BAILIAN), load_trace(BAILIAN, None)
    original, copy = workload.prompt(0), workload.prompt(trace.used)
    assert (copy.input_tokens, copy.max_tokens, copy.turn) == (
        original.input_tokens,
        original.max_tokens,
        original.turn,
    )
    assert shared_words(original.text, copy.text) < 6
    assert copy.session == f"{original.session}#1"
    assert workload.prompt(trace.used + 4).text.startswith(copy.text + " ")


def test_a_prompt_is_the_same_in_every_process_and_whatever_was_asked_before() -> None:
    one, other = prompts(MOONCAKE), prompts(MOONCAKE)
    backwards = [other.prompt(row) for row in reversed(range(60))]
    assert [one.prompt(row) for row in range(60)] == backwards[::-1]
    assert prompts(MOONCAKE, seed=2).prompt(0).text != one.prompt(0).text


def test_the_prompt_before_load_is_none_that_a_stage_sends() -> None:
    workload = prompts(AZURE)
    before_load = workload.prompt(-1)
    assert before_load.text not in {workload.prompt(row).text for row in range(80)}
    assert before_load.max_tokens > 0


def test_a_log_of_ones_own_sends_its_own_requests(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    path = log(
        tmp_path,
        {"prompt": "once upon", "output_tokens": 7, "slice": "faq", "prefix_group": "p", "session": "a"},
        {"messages": messages, "max_tokens": 5, "session": "a"},
        {"prompt": "alone"},
    )
    workload = prompts(path)
    first, second, third = (workload.prompt(row) for row in range(3))
    assert (first.prompt, first.messages, first.max_tokens) == ("once upon", None, 7)
    assert (first.slice, first.prefix_group, first.session, first.turn) == ("faq", "p", "a", 1)
    assert (second.messages, second.prompt, second.max_tokens) == (messages, None, 5)
    assert (second.session, second.turn) == ("a", 2)
    assert (third.max_tokens, third.session, third.turn, third.input_tokens) == (99, None, None, None)
    assert (workload.facts.kind, workload.facts.prompts) == ("representative", 3)
    again = workload.prompt(3)
    assert (again.text, again.session) == ("once upon", "a#1")  # there is no other text to send


def test_made_up_text_is_called_synthetic_and_says_where_its_lengths_are_from() -> None:
    facts = prompts(AZURE).facts
    assert (facts.kind, facts.name, facts.prompts) == ("synthetic", "azure-trace", None)  # as many as anybody asks for
    assert "azure_code.csv" in facts.source
    assert "made-up" in facts.source


def test_a_digest_stands_for_file_seed_and_limit() -> None:
    digests = {
        prompts(AZURE).facts.sha256,
        prompts(AZURE, seed=2).facts.sha256,
        prompts(AZURE, max_tokens=1).facts.sha256,
        prompts(BAILIAN).facts.sha256,
    }
    assert len(digests) == 4
    assert prompts(AZURE).facts.sha256 in digests


def test_a_worker_with_another_trace_is_told_so(tmp_path: Path) -> None:
    path = log(tmp_path, {"prompt": "a"})
    asked = WorkloadSpec(trace_file=path, trace_format="jsonl", seed=1, max_tokens=9)
    agreed = fixed(asked, load_workload(asked))
    assert workload_of(agreed).prompt(0).text == "a"
    log(tmp_path, {"prompt": "another"})
    with pytest.raises(UsageError, match=r"log\.jsonl is not the same here as on the master"):
        workload_of(agreed)


def test_a_file_of_prompts_goes_before_the_traces_made_up_ones(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"prompt": "mine"}\n')
    workload = load_workload(WorkloadSpec(prompts_file=str(path), trace_file=AZURE, seed=1, max_tokens=9))
    assert workload.prompt(0).prompt == "mine"
