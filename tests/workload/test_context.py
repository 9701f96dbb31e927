"""A prompt that the server's context cannot take is named before load."""

from __future__ import annotations

from pathlib import Path

from llm_locust.records.run import WorkloadSpec
from llm_locust.workload import Prompt, Workload, load_workload
from llm_locust.workload.context import beyond_context


def unknown(_: Prompt) -> None:
    return None


def words(prompt: Prompt) -> int:
    return len(prompt.text.split())


def of_file(folder: Path, *texts: str, max_tokens: int = 10) -> Workload:
    path = folder / "p.jsonl"
    path.write_text("".join(f'{{"prompt": "{text}"}}\n' for text in texts))
    return load_workload(WorkloadSpec(prompts_file=str(path), seed=1, max_tokens=max_tokens))


def made_up(length: str, max_tokens: int = 10) -> Workload:
    return load_workload(WorkloadSpec(seed=1, max_tokens=max_tokens, input_tokens=length))


def test_a_prompt_that_fits_to_the_last_token_is_no_finding() -> None:
    assert beyond_context(made_up("90"), 100, unknown) is None


def test_input_and_output_together_are_told_from_input_alone() -> None:
    together = beyond_context(made_up("91"), 100, unknown)
    assert together is not None
    assert not together.refused
    assert together.sentence.startswith("91 tokens of input and 10 of output are more than the server's context of 100")
    alone = beyond_context(made_up("100"), 100, unknown)
    assert alone is not None
    assert alone.refused
    assert alone.sentence.startswith("100 tokens of input do not fit")


def test_the_longest_draw_of_a_distribution_is_found() -> None:
    found = beyond_context(made_up("uniform:low=10,high=200"), 150, unknown)
    assert found is not None
    assert found.refused
    assert beyond_context(made_up("uniform:low=10,high=140"), 150, unknown) is None


def test_the_longest_prompts_of_a_file_are_counted(tmp_path: Path) -> None:
    workload = of_file(tmp_path, "a", "b " * 200 + "b", "c")
    found = beyond_context(workload, 150, words)
    assert found is not None
    assert (found.place, found.refused) == (1, True)
    assert found.sentence.startswith("201 tokens of input")
    assert beyond_context(workload, 250, words) is None


def test_without_a_tokenizer_only_what_is_far_too_long_is_called_so(tmp_path: Path) -> None:
    workload = of_file(tmp_path, "a", "b" * 1004)
    found = beyond_context(workload, 125, unknown)
    assert found is not None
    assert found.sentence.startswith("about 251 tokens of input")  # at four characters a token
    assert beyond_context(workload, 126, unknown) is None  # it could be half of that


def test_what_nobody_can_mistake_is_not_sent_to_be_counted(tmp_path: Path) -> None:
    asked: list[int] = []
    found = beyond_context(of_file(tmp_path, "x" * 50_000_000), 8192, lambda prompt: asked.append(prompt.index))
    assert found is not None
    assert found.refused
    assert asked == []
